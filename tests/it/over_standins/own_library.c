/* A library of one's own with NCCL's interface, as small as it can be: sums of float between the threads of a process.
 * It puts its work on streams with the driver's own cuLaunchHostFunc, which it finds in the process that opens it.
 *
 *     cc -shared -fPIC -o libmine.so own_library.c -lpthread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, CUDA_ERROR = 1, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, MOST_RANKS = 64, FLOAT = 7, SUM = 0 };

typedef struct { char bytes[128]; } ncclUniqueId;
struct world {
    int id, n, left;
    pthread_barrier_t meet;
    const float *in[MOST_RANKS];
    struct world *next;
};
struct comm { struct world *world; int rank; };
struct call { struct comm *comm; const float *in; float *out; size_t count; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct world *worlds;
static int ids;

/* The world with this id, made by whoever comes first. */
static struct world *find(int id, int n) {
    pthread_mutex_lock(&lock);
    struct world *world = worlds;
    while (world && world->id != id) world = world->next;
    if (!world && (world = calloc(1, sizeof *world))) {
        world->id = id;
        world->n = world->left = n;
        pthread_barrier_init(&world->meet, NULL, n);
        world->next = worlds;
        worlds = world;
    }
    pthread_mutex_unlock(&lock);
    return world;
}

int ncclGetVersion(int *version) { *version = 22809; return SUCCESS; }
const char *ncclGetErrorString(int code) { return code == SUCCESS ? "no error" : "my library says no"; }
const char *ncclGetLastError(void *comm) { (void)comm; return ""; }
int ncclCommGetAsyncError(void *comm, int *state) { (void)comm; *state = SUCCESS; return SUCCESS; }
int ncclGroupStart(void) { return SUCCESS; }
int ncclGroupEnd(void) { return SUCCESS; }

int ncclGetUniqueId(ncclUniqueId *id) {
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&lock);
    ids++;
    memcpy(id, &ids, sizeof ids);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int ncclCommInitRank(void **out, int n, ncclUniqueId id, int rank) {
    int number;
    memcpy(&number, &id, sizeof number);
    if (n < 1 || n > MOST_RANKS || rank < 0 || rank >= n) return INVALID_ARGUMENT;
    struct comm *comm = malloc(sizeof *comm);
    struct world *world = find(number, n);
    if (!comm || !world) return SYSTEM_ERROR;
    *comm = (struct comm){ world, rank };
    pthread_barrier_wait(&world->meet);
    *out = comm;
    return SUCCESS;
}

int ncclCommCount(void *comm, int *n) { *n = ((struct comm *)comm)->world->n; return SUCCESS; }
int ncclCommUserRank(void *comm, int *rank) { *rank = ((struct comm *)comm)->rank; return SUCCESS; }
int ncclCommDestroy(void *comm) { free(comm); return SUCCESS; }
int ncclCommAbort(void *comm) { free(comm); return SUCCESS; }

/* Runs when the rank's stream gets here, and holds it up until every rank's has. */
static void reduce(void *data) {
    struct call *call = data;
    struct world *world = call->comm->world;
    float *sums = calloc(call->count ? call->count : 1, sizeof *sums);
    world->in[call->comm->rank] = call->in;
    pthread_barrier_wait(&world->meet);
    for (int rank = 0; sums && rank < world->n; rank++)
        for (size_t i = 0; i < call->count; i++) sums[i] += world->in[rank][i];
    /* in place, an output is somebody's input: all have read before any writes */
    pthread_barrier_wait(&world->meet);
    if (sums) memcpy(call->out, sums, call->count * sizeof *sums);
    pthread_barrier_wait(&world->meet);
    free(sums);
    free(call);
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, void *comm, void *stream) {
    if (type != FLOAT || op != SUM) return INVALID_ARGUMENT;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*launch)(void *, void (*)(void *), void *) = NULL;
    if (driver) *(void **)&launch = dlsym(driver, "cuLaunchHostFunc");
    struct call *call = malloc(sizeof *call);
    if (!launch || !call) return SYSTEM_ERROR;
    *call = (struct call){ comm, in, out, count };
    return launch(stream, reduce, call) == 0 ? SUCCESS : CUDA_ERROR;
}
