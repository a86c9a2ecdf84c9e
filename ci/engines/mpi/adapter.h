/* The parts of the adapter library: jobs, communicators, and work on streams. */
#ifndef COLLSPEC_MPI_ADAPTER_H
#define COLLSPEC_MPI_ADAPTER_H

#include "wire.h"
#include <pthread.h>
#include <stdatomic.h>

#define EXPORTED __attribute__((visibility("default")))

typedef struct {
    char internal[128];
} ncclUniqueId;

/* job.c: jobs of engine processes. */

/* What a unique id holds. */
struct identity {
    char owner[NAME_BYTES]; /* where the process that made the id listens */
    uint32_t number;        /* of the communicator, among those of that process */
};
/* A new identity of this process, which will start a job when the first rank comes. NCCL's code. */
int new_identity(struct identity *identity);
/* A number for a communicator that is made out of another one. */
uint32_t next_number(void);
/* A place in the job of a new communicator, or in a known job; the descriptor in *link keeps the job alive. NCCL's code. */
int join_job(const char *owner, const struct hello *hello, struct welcome *welcome, int *link);

/* communicator.c */

/* A sum of inputs that are multiplied by a number first: the number, or where it lies on the device when the call runs. */
struct scaled_sum {
    int live, type;
    uint64_t scalar;
    const void *place;
};

struct comm {
    int n, rank, device;
    int engine; /* which process of the job makes this rank's calls */
    char owner[NAME_BYTES];
    struct welcome job;
    int link, fd, memory; /* to the job's owner, to the engine, and the memory shared with it */
    char *map;
    uint64_t mapped;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t taken, served;         /* turns of batches: calls are made in the order in which the host made them */
    int busy;                       /* the engine is at a request */
    int aborted, failed;            /* failed: NCCL's code of the first error */
    char text[TEXT_BYTES];          /* of that error */
    int holders;                    /* the caller's handle and unfinished batches */
    struct scaled_sum *scaled_sums; /* reduction REDUCTIONS + i */
    int scaled_sum_count;
};
void hold(struct comm *comm);
void let_go(struct comm *comm);
/* A turn on the communicator, in the order of the host's calls; whoever has it waits for it and ends it. */
uint64_t next_turn(struct comm *comm);
/* False if the communicator is aborted first, or has failed. */
int take_turn(struct comm *comm, uint64_t turn);
/* The text is that of an error. */
void end_turn(struct comm *comm, int code, const char *text);
/* Notes the text of an error for ncclGetLastError, and returns the code. */
int say(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Runs in a group's end, each on a thread of its own, because each waits for the other ranks. */
struct making {
    int (*make)(struct making *);
    void *to;
    struct comm *parent;
    ncclUniqueId id;
    int n, a, b, device, code; /* a, b: the rank in a new communicator; colour and key of a split */
    uint64_t turn;             /* of a split, on the parent */
};
int make_or_defer(const struct making *making);

/* scaled_sum.c: the reduction of this number, if the communicator has it for the type. */
int find_scaled_sum(struct comm *comm, int reduction, int type, struct scaled_sum *found);

/* batch.c: what a group puts on streams. */

struct operation {
    struct call call;
    uint64_t in_bytes, out_bytes;
    const void *in;
    void *out;
    int divide;
    struct scaled_sum scaled;
    struct comm *comm;
    void *stream, *context;
};
/* Puts operations on their streams: those that share a stream or a communicator together. */
int enqueue(const struct operation *operations, int count);

/* group.c */
int enqueue_or_defer(const struct operation *operation);

#endif
