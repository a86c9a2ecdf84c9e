/* NCCL's communicators: each rank's is a connection to the engine process that makes its calls, and memory shared with it.
 */
#define _GNU_SOURCE
#include "adapter.h"
#include "streams.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Thread_local char last_error[512];

int say(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return code;
}

/* 2.23: the last release without 8-bit floats, which MPI lacks too. */
EXPORTED int ncclGetVersion(int *version) {
    if (!version) return INVALID_ARGUMENT;
    *version = 22304;
    return SUCCESS;
}

EXPORTED const char *ncclGetLastError(struct comm *comm) {
    if (!comm) return last_error;
    pthread_mutex_lock(&comm->lock);
    int there = comm->text[0] != 0; /* written once, before it is seen here */
    pthread_mutex_unlock(&comm->lock);
    return there ? comm->text : last_error;
}

EXPORTED const char *ncclGetErrorString(int code) {
    static const char *texts[] = { "no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress" };
    return code >= 0 && code < (int)(sizeof texts / sizeof *texts) ? texts[code] : "unknown result code";
}

/* Gives up the last hold: the engine frees its communicator if nothing went wrong. */
static void dispose(struct comm *comm) {
    struct request end = { .kind = END };
    if (!comm->aborted && comm->fd >= 0) send_all(comm->fd, &end, sizeof end, -1);
    if (comm->fd >= 0) close(comm->fd);
    if (comm->map) munmap(comm->map, comm->mapped);
    if (comm->memory >= 0) close(comm->memory);
    if (comm->link >= 0) close(comm->link);
    pthread_cond_destroy(&comm->changed);
    pthread_mutex_destroy(&comm->lock);
    free(comm->scaled_sums);
    free(comm);
}

void hold(struct comm *comm) {
    pthread_mutex_lock(&comm->lock);
    comm->holders++;
    pthread_mutex_unlock(&comm->lock);
}

void let_go(struct comm *comm) {
    pthread_mutex_lock(&comm->lock);
    int left = --comm->holders;
    pthread_mutex_unlock(&comm->lock);
    if (left == 0) dispose(comm);
}

uint64_t next_turn(struct comm *comm) {
    pthread_mutex_lock(&comm->lock);
    uint64_t turn = comm->taken++;
    pthread_mutex_unlock(&comm->lock);
    return turn;
}

int take_turn(struct comm *comm, uint64_t turn) {
    pthread_mutex_lock(&comm->lock);
    while (!comm->aborted && comm->served != turn) pthread_cond_wait(&comm->changed, &comm->lock);
    int alive = !comm->aborted && !comm->failed;
    comm->busy = alive;
    pthread_mutex_unlock(&comm->lock);
    return alive;
}

void end_turn(struct comm *comm, int code, const char *text) {
    pthread_mutex_lock(&comm->lock);
    comm->busy = 0;
    comm->served++;
    if (code != SUCCESS && !comm->failed) {
        comm->failed = code;
        snprintf(comm->text, sizeof comm->text, "%s", text);
    }
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

static struct comm *empty(void) {
    struct comm *comm = calloc(1, sizeof *comm);
    if (!comm) return NULL;
    comm->link = comm->fd = comm->memory = -1;
    comm->holders = 1;
    pthread_mutex_init(&comm->lock, NULL);
    pthread_cond_init(&comm->changed, NULL);
    return comm;
}

/* Asks the engine and waits for its answer. */
static int ask(struct comm *comm, const struct request *request, const void *more, size_t length, int passed,
               struct reply *reply) {
    if (send_all(comm->fd, request, sizeof *request, passed) != 0 || (length && send_all(comm->fd, more, length, -1) != 0) ||
        receive_all(comm->fd, reply, sizeof *reply, NULL) != 0)
        return say(INTERNAL_ERROR, "the engine process has gone");
    return reply->code == SUCCESS ? SUCCESS : say(reply->code, "MPI: %s", reply->text);
}

/* Connects a communicator of a known job to its engine, and makes or adopts what the engine has. */
static int connect_engine(struct comm *comm, const struct request *first, size_t length) {
    char engine[NAME_BYTES + 16];
    struct reply reply;
    snprintf(engine, sizeof engine, "%s-%d", comm->job.engines, comm->engine);
    comm->fd = connect_to(engine);
    comm->memory = memfd_create("collspec-mpi", MFD_CLOEXEC);
    if (comm->fd < 0 || comm->memory < 0) return say(SYSTEM_ERROR, "no connection to the engine process");
    return ask(comm, first, comm->job.places, length, comm->memory, &reply);
}

static int finish(struct making *making, struct comm *comm, int code) {
    if (code == SUCCESS)
        *(void **)making->to = comm;
    else if (comm)
        dispose(comm);
    return code;
}

static int make_from_id(struct making *making) {
    struct identity identity;
    memcpy(&identity, &making->id, sizeof identity);
    struct comm *comm = empty();
    if (!comm) return SYSTEM_ERROR;
    comm->n = making->n;
    comm->rank = making->a;
    comm->device = making->device;
    memcpy(comm->owner, identity.owner, sizeof comm->owner);
    struct hello hello = { FOR_NEW_COMMUNICATOR, identity.number, (uint32_t)making->n, (uint32_t)making->a,
                           (uint32_t)making->device };
    struct request first = { .kind = CREATE, .count = (uint32_t)making->n, .a = (int)identity.number };
    int code = join_job(comm->owner, &hello, &comm->job, &comm->link);
    comm->engine = comm->job.places[making->a];
    return finish(making, comm,
                  code == SUCCESS ? connect_engine(comm, &first, (size_t)making->n * sizeof *comm->job.places) : code);
}

/* A communicator out of another one: the engine has it already, and it gets a connection of its own. */
static int make_part(struct making *making, const struct request *request) {
    struct comm *parent = making->parent;
    struct reply reply;
    int code = take_turn(parent, making->turn) ? ask(parent, request, NULL, 0, -1, &reply)
                                               : say(INTERNAL_ERROR, "the communicator has failed");
    end_turn(parent, SUCCESS, "");
    if (code != SUCCESS || reply.handle < 0) {
        *(void **)making->to = NULL;
        return code;
    }
    struct comm *comm = empty();
    if (!comm) return SYSTEM_ERROR;
    comm->n = reply.ranks;
    comm->rank = reply.rank;
    comm->engine = parent->engine;
    comm->device = parent->device;
    memcpy(comm->owner, parent->owner, sizeof comm->owner);
    struct hello hello = { .from = FOR_PART_OF_COMMUNICATOR, .number = parent->job.job };
    struct request first = { .kind = ADOPT, .a = reply.handle };
    code = join_job(comm->owner, &hello, &comm->job, &comm->link);
    return finish(making, comm, code == SUCCESS ? connect_engine(comm, &first, 0) : code);
}

static int make_by_split(struct making *making) {
    struct request request = { .kind = SPLIT, .a = making->a, .b = making->b };
    return make_part(making, &request);
}

EXPORTED int ncclGetUniqueId(ncclUniqueId *id) {
    struct identity identity;
    if (!id) return INVALID_ARGUMENT;
    int code = new_identity(&identity);
    memset(id, 0, sizeof *id);
    memcpy(id, &identity, sizeof identity);
    return code;
}

EXPORTED int ncclCommInitRank(void **to, int n, ncclUniqueId id, int rank) {
    if (!to) return say(INVALID_ARGUMENT, "no place for the communicator");
    *to = NULL;
    if (n < 1 || n > MOST_ENGINES || rank < 0 || rank >= n)
        return say(INVALID_ARGUMENT, "rank %d of %d, of which there can be %d", rank, n, MOST_ENGINES);
    struct making making = { .make = make_from_id, .to = to, .id = id, .n = n, .a = rank, .device = current_device() };
    return make_or_defer(&making);
}

EXPORTED int ncclCommSplit(struct comm *comm, int colour, int key, void **to, void *config) {
    if (!comm || !to) return say(INVALID_ARGUMENT, "no communicator");
    (void)config; /* MPI has nothing like it */
    if (colour < -1) return say(INVALID_ARGUMENT, "colour %d", colour);
    *to = NULL;
    struct making making = {
        .make = make_by_split, .to = to, .parent = comm, .a = colour, .b = key, .turn = next_turn(comm)
    };
    return make_or_defer(&making);
}

EXPORTED int ncclCommCount(const struct comm *comm, int *n) {
    if (!comm || !n) return INVALID_ARGUMENT;
    *n = comm->n;
    return SUCCESS;
}

EXPORTED int ncclCommUserRank(const struct comm *comm, int *rank) {
    if (!comm || !rank) return INVALID_ARGUMENT;
    *rank = comm->rank;
    return SUCCESS;
}

EXPORTED int ncclCommCuDevice(const struct comm *comm, int *device) {
    if (!comm || !device) return INVALID_ARGUMENT;
    *device = comm->device;
    return SUCCESS;
}

EXPORTED int ncclCommGetAsyncError(struct comm *comm, int *state) {
    if (!comm || !state) return INVALID_ARGUMENT;
    pthread_mutex_lock(&comm->lock);
    *state = comm->failed;
    pthread_mutex_unlock(&comm->lock);
    return SUCCESS;
}

/* Waits for the calls that were made. */
EXPORTED int ncclCommFinalize(struct comm *comm) {
    if (!comm) return INVALID_ARGUMENT;
    pthread_mutex_lock(&comm->lock);
    while (comm->served < comm->taken && !comm->aborted) pthread_cond_wait(&comm->changed, &comm->lock);
    pthread_mutex_unlock(&comm->lock);
    return SUCCESS;
}

EXPORTED int ncclCommDestroy(struct comm *comm) {
    if (!comm) return SUCCESS;
    int code = ncclCommFinalize(comm);
    let_go(comm);
    return code;
}

/* Ends what the communicator waits for. MPI has no way to cancel a collective, so if one is under way, the process that
 * makes it is lost: the job takes no new communicators, and ends when the last of its communicators has gone. */
EXPORTED int ncclCommAbort(struct comm *comm) {
    if (!comm) return SUCCESS;
    pthread_mutex_lock(&comm->lock);
    comm->aborted = 1;
    if (comm->busy) send_all(comm->link, "", 1, -1);
    shutdown(comm->fd, SHUT_RDWR);
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    let_go(comm);
    return SUCCESS;
}
