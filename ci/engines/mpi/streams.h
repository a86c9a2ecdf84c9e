/* What the adapter uses of the stand-in driver that the process has loaded. */
#ifndef COLLSPEC_MPI_STREAMS_H
#define COLLSPEC_MPI_STREAMS_H

#include <stdint.h>

/* The current device, 0 if there is none, and the current context. */
int current_device(void);
void *current_context(void);

/* The null stream is one of each context; any other has its handle alone. */
struct stream {
    void *handle, *context;
};

/* Work on a stream: start is called when the stream gets there, and must not block; the stream goes on after stream_goes_on.
 */
typedef void start_function(void *data, void *done);
void stream_goes_on(void *done);
/* What a graph asks for at each of its launches: gives the data that start is to have, NULL if it cannot be launched. */
typedef void *launch_function(void *data, uint64_t launch);
struct work {
    start_function *start;
    void *data;              /* for start, where the stream is not capturing */
    launch_function *launch; /* where it is: called with the graph's data at each launch */
    void (*release)(void *); /* called with the graph's data when the graph is gone */
    void *graph_data;
};
int is_capturing(struct stream stream);
/* 0, or -1: there is no such stream, or no driver with these functions. */
int put_on(struct stream stream, const struct work *work);

#endif
