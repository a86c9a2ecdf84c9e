/* What the adapter in a worker process and the processes of the MPI job say to each other over Unix sockets. Both are built
 * from this folder at the same time, so structures are sent as they lie in memory. Data does not pass here: it lies in
 * memory that an adapter's communicator shares with one engine process. */
#ifndef COLLSPEC_MPI_WIRE_H
#define COLLSPEC_MPI_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { NAME_BYTES = 48, TEXT_BYTES = 240, MOST_ENGINES = 64 };

/* NCCL's codes, as far as they are used here. */
enum { SUCCESS = 0, CUDA_ERROR = 1, SYSTEM_ERROR = 2, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, TYPES };
enum { SUM, PROD, MAX, MIN, AVG, REDUCTIONS };

/* The first words on a connection to the process that started the job. */
enum { FROM_ENGINE, FOR_NEW_COMMUNICATOR, FOR_PART_OF_COMMUNICATOR };
struct hello {
    uint32_t from;
    uint32_t number; /* of the job, or of the communicator that is to be made */
    uint32_t ranks;  /* of that communicator */
    uint32_t rank;   /* in that communicator; of an engine its own */
    uint32_t device; /* of that rank: the engine process of this number makes its calls, if no two ranks have the same */
};
/* The answer to a communicator's hello. The connection stays open as long as the communicator lives; a byte on it says that
 * an engine process of the job will never answer again. */
struct welcome {
    int32_t code;
    uint32_t job;
    int32_t places[MOST_ENGINES]; /* by rank of the communicator: its engine */
    char engines[NAME_BYTES];     /* engine R listens at this name, "-" and R */
    char text[TEXT_BYTES];
};

/* The first request of a connection to an engine brings the descriptor of the shared memory. */
enum { CREATE, ADOPT, SPLIT, CALLS, END };
struct request {
    uint32_t kind;
    uint32_t count; /* CALLS: how many calls follow; CREATE: how many engines follow */
    int32_t a, b;   /* CREATE: number; ADOPT: handle; SPLIT: colour and key */
    uint64_t bytes; /* CALLS: length of the shared memory */
};
struct reply {
    int32_t code;
    int32_t handle, ranks, rank; /* SPLIT: the part, -1 if this rank is in none */
    char text[TEXT_BYTES];
};

enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, SEND, RECV };
struct call {
    uint32_t kind, type, reduction, in_place;
    int32_t peer; /* root, source or destination */
    uint32_t count;
    uint64_t in, out; /* offsets into the shared memory */
};

/* What NCCL_ALGO of the environment asks for. */
enum { ANY_ALGORITHM, RING, TREE };
int algorithm_asked_for(void);

/* Both return 0, or -1 when the other side has gone. */
int send_all(int fd, const void *bytes, size_t length, int passed);
int receive_all(int fd, void *bytes, size_t length, int *passed);
/* Sockets with names in the abstract name space: nothing is left in the file system. -1 with errno if that fails. */
int listen_at(const char *name);
int connect_to(const char *name);
/* A connection from a process of the same user; -1 if there will be no more. */
int accept_own(int listener);

#endif
