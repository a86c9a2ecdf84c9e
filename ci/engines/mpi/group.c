/* NCCL's calls: what each reads and writes, and groups, in which nothing happens before the end. */
#define _GNU_SOURCE
#include "adapter.h"
#include "streams.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    int depth, code, operation_count, making_count, operation_room, making_room;
    struct operation *operations;
    struct making *making;
} group;

static int grown(void **list, int *room, int count, size_t each) {
    if (count < *room) return 1;
    void *longer = realloc(*list, (size_t)(*room * 2 + 16) * each);
    if (!longer) return 0;
    *list = longer;
    *room = *room * 2 + 16;
    return 1;
}

int enqueue_or_defer(const struct operation *operation) {
    if (!group.depth) return enqueue(operation, 1);
    if (!grown((void **)&group.operations, &group.operation_room, group.operation_count, sizeof *operation))
        return say(SYSTEM_ERROR, "no memory");
    group.operations[group.operation_count++] = *operation;
    return SUCCESS;
}

int make_or_defer(const struct making *making) {
    struct making now = *making;
    if (!group.depth) return now.make(&now);
    if (!grown((void **)&group.making, &group.making_room, group.making_count, sizeof now))
        return say(SYSTEM_ERROR, "no memory");
    group.making[group.making_count++] = now;
    return SUCCESS;
}

static void *make_on_thread(void *data) {
    struct making *making = data;
    making->code = making->make(making);
    return NULL;
}

/* Communicators are made beside each other: each waits for other ranks, which may be in this very group. */
static int make_all(struct making *list, int count) {
    pthread_t *threads = calloc((size_t)count + 1, sizeof *threads);
    if (!threads) return say(SYSTEM_ERROR, "no memory");
    int code = SUCCESS, started = 0;
    while (started < count && pthread_create(&threads[started], NULL, make_on_thread, &list[started]) == 0) started++;
    if (started < count) code = say(SYSTEM_ERROR, "no threads");
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        if (code == SUCCESS && list[i].code != SUCCESS) code = say(list[i].code, "a communicator of the group was not made");
    }
    free(threads);
    return code;
}

EXPORTED int ncclGroupStart(void) {
    group.depth++;
    return SUCCESS;
}

EXPORTED int ncclGroupEnd(void) {
    if (!group.depth) return say(INVALID_USAGE, "ncclGroupEnd without ncclGroupStart");
    if (--group.depth) return SUCCESS;
    int code = group.code; /* a group with a refused call does nothing */
    if (code == SUCCESS) code = make_all(group.making, group.making_count);
    if (code == SUCCESS) code = enqueue(group.operations, group.operation_count);
    group.making_count = group.operation_count = group.code = 0;
    return code;
}

static const int bytes_of[TYPES] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };

/* Shares a collective reads and writes, in elements of count: of every rank, or on the root only. */
enum share { NONE, ONE, EACH, ONE_ON_ROOT, EACH_ON_ROOT };
static const struct {
    enum share in, out;
    int reduces, has_peer;
} shapes[] = {
    [ALL_REDUCE] = { ONE, ONE, 1, 0 },
    [REDUCE] = { ONE, ONE_ON_ROOT, 1, 1 },
    [BROADCAST] = { ONE_ON_ROOT, ONE, 0, 1 },
    [ALL_GATHER] = { ONE, EACH, 0, 0 },
    [REDUCE_SCATTER] = { EACH, ONE, 1, 0 },
    [ALL_TO_ALL] = { EACH, EACH, 0, 0 },
    [GATHER] = { ONE, EACH_ON_ROOT, 0, 1 },
    [SCATTER] = { EACH_ON_ROOT, ONE, 0, 1 },
    [SEND] = { ONE, NONE, 0, 1 },
    [RECV] = { NONE, ONE, 0, 1 },
};

static uint64_t share(enum share share, int n, int is_root, uint64_t one) {
    switch (share) {
    case ONE: return one;
    case EACH: return one * (uint64_t)n;
    case ONE_ON_ROOT: return is_root ? one : 0;
    case EACH_ON_ROOT: return is_root ? one * (uint64_t)n : 0;
    default: return 0;
    }
}

/* Whether input and output are one buffer, as NCCL defines it for each operation. */
static int is_in_place(const struct operation *o, int is_root, uint64_t one) {
    const char *in = o->in, *out = o->out;
    uint64_t own = (uint64_t)o->comm->rank * one;
    switch (o->call.kind) {
    case ALL_REDUCE: return in == out;
    case REDUCE: return is_root && in == out;
    case BROADCAST: return 1; /* MPI has one buffer for both */
    case ALL_GATHER: return in == out + own;
    case REDUCE_SCATTER: return out == in + own;
    case GATHER: return is_root && in == out + own;
    case SCATTER: return is_root && out == in + own;
    default: return 0;
    }
}

/* NCCL's code for a call that is refused before anything happens. */
static int refusal(uint32_t kind, size_t count, int type, int reduction, int peer, struct comm *comm,
                   struct scaled_sum *scaled) {
    if (!comm) return say(INVALID_ARGUMENT, "no communicator");
    if (type < 0 || type >= TYPES) return say(INVALID_ARGUMENT, "MPI has no type for %d", type);
    int known = reduction >= 0 && (reduction < REDUCTIONS || find_scaled_sum(comm, reduction, type, scaled));
    if (shapes[kind].reduces && !known) return say(INVALID_ARGUMENT, "no reduction %d", reduction);
    if (shapes[kind].has_peer && (peer < 0 || peer >= comm->n))
        return say(INVALID_ARGUMENT, "no rank %d among %d", peer, comm->n);
    if (count > INT_MAX) return say(INVALID_ARGUMENT, "MPI counts up to %d elements", INT_MAX);
    return comm->failed ? say(comm->failed, "the communicator has failed before") : SUCCESS;
}

static int submit(uint32_t kind, const void *in, void *out, size_t count, int type, int reduction, int peer,
                  struct comm *comm, void *stream) {
    struct scaled_sum scaled = { .live = 0 };
    int code = refusal(kind, count, type, reduction, peer, comm, &scaled);
    if (code != SUCCESS) {
        if (group.depth && group.code == SUCCESS) group.code = code;
        return code;
    }
    uint64_t one = (uint64_t)count * (uint64_t)bytes_of[type];
    int is_root = comm->rank == peer;
    struct operation o = {
        .in = in, .out = out, .comm = comm, .stream = stream, .context = current_context(), .scaled = scaled
    };
    o.divide = shapes[kind].reduces && reduction == AVG;
    o.call = (struct call){ .kind = kind,
                            .type = (uint32_t)type,
                            .reduction = (uint32_t)(scaled.live ? SUM : reduction),
                            .peer = peer,
                            .count = (uint32_t)count };
    o.in_bytes = share(shapes[kind].in, comm->n, is_root, one);
    o.out_bytes = share(shapes[kind].out, comm->n, is_root, one);
    o.call.in_place = (uint32_t)is_in_place(&o, is_root, one);
    return enqueue_or_defer(&o);
}

EXPORTED int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, struct comm *comm, void *stream) {
    return submit(ALL_REDUCE, in, out, count, type, op, 0, comm, stream);
}
EXPORTED int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, struct comm *comm,
                        void *stream) {
    return submit(REDUCE, in, out, count, type, op, root, comm, stream);
}
EXPORTED int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, struct comm *comm, void *stream) {
    return submit(BROADCAST, in, out, count, type, 0, root, comm, stream);
}
EXPORTED int ncclBcast(void *buffer, size_t count, int type, int root, struct comm *comm, void *stream) {
    return submit(BROADCAST, buffer, buffer, count, type, 0, root, comm, stream);
}
EXPORTED int ncclAllGather(const void *in, void *out, size_t count, int type, struct comm *comm, void *stream) {
    return submit(ALL_GATHER, in, out, count, type, 0, 0, comm, stream);
}
EXPORTED int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, struct comm *comm, void *stream) {
    return submit(REDUCE_SCATTER, in, out, count, type, op, 0, comm, stream);
}
EXPORTED int ncclAlltoAll(const void *in, void *out, size_t count, int type, struct comm *comm, void *stream) {
    return submit(ALL_TO_ALL, in, out, count, type, 0, 0, comm, stream);
}
EXPORTED int ncclGather(const void *in, void *out, size_t count, int type, int root, struct comm *comm, void *stream) {
    return submit(GATHER, in, out, count, type, 0, root, comm, stream);
}
EXPORTED int ncclScatter(const void *in, void *out, size_t count, int type, int root, struct comm *comm, void *stream) {
    return submit(SCATTER, in, out, count, type, 0, root, comm, stream);
}
EXPORTED int ncclSend(const void *in, size_t count, int type, int peer, struct comm *comm, void *stream) {
    return submit(SEND, in, NULL, count, type, 0, peer, comm, stream);
}
EXPORTED int ncclRecv(void *out, size_t count, int type, int peer, struct comm *comm, void *stream) {
    return submit(RECV, NULL, out, count, type, 0, peer, comm, stream);
}
