/* Work on streams. Operations of a group that share a stream or a communicator are a batch: it runs once all its streams have come to it,
 * and holds them up until it is over. */
#define _GNU_SOURCE
#include "adapter.h"
#include "scale.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct part { struct comm *comm; uint64_t turn; int first, count, code; }; /* operations of one communicator */
/* The null stream is one of each context. */
struct stream { void *handle, *context; };
struct batch {
    struct operation *operations;
    int count;
    struct part *parts;
    int part_count;
    struct stream *streams;
    int stream_count;
    int captured;               /* runs at each launch of a graph, and lives as long as the process */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int arrived, left;
    uint64_t runs;
};

static void *driver(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

int current_device(void) {
    int device = 0;
    int (*get)(int *);
    *(void **)&get = driver("cuCtxGetDevice");
    return get && get(&device) == 0 ? device : 0;
}

void *current_context(void) {
    void *context = NULL;
    int (*get)(void **);
    *(void **)&get = driver("cuCtxGetCurrent");
    return get && get(&context) == 0 ? context : NULL;
}

static int is_captured(void *stream) {
    int status = 0;
    int (*get)(void *, int *);
    *(void **)&get = driver("cuStreamIsCapturing");
    return get && get(stream, &status) == 0 && status != 0;
}

/* The next place of an operand: as far from a multiple of 64 as the caller's own address. */
static uint64_t place(uint64_t *end, const void *address, uint64_t bytes) {
    uint64_t at = (*end + 63) / 64 * 64 + (uintptr_t)address % 64;
    *end = at + bytes;
    return at;
}

/* Operands get places in the shared memory, and inputs are copied there. */
static int copy_in(struct comm *comm, struct operation *operations, int count) {
    uint64_t end = 0;
    for (int i = 0; i < count; i++) {
        struct operation *o = &operations[i];
        /* with one buffer for both, its contents are the input */
        o->call.out = place(&end, o->out, o->call.in_place && o->in_bytes > o->out_bytes ? o->in_bytes : o->out_bytes);
        o->call.in = o->call.in_place ? o->call.out : place(&end, o->in, o->in_bytes);
    }
    if (end > comm->mapped) {
        if (comm->map) munmap(comm->map, comm->mapped);
        comm->mapped = 0;
        end = (end + 0xffff) & ~0xffffull;
        comm->map = ftruncate(comm->memory, (off_t)end) == 0 ? mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED, comm->memory, 0) : MAP_FAILED;
        if (comm->map == MAP_FAILED) {
            comm->map = NULL;
            return say(SYSTEM_ERROR, "no shared memory");
        }
        comm->mapped = end;
    }
    for (int i = 0; i < count; i++) {
        struct operation *o = &operations[i];
        uint64_t at = o->call.in;
        /* MPI's all_gather in place has the input where its result will be */
        if (o->call.in_place && o->call.kind == ALL_GATHER) at += (uint64_t)comm->rank * o->in_bytes;
        if (o->call.in_place && o->call.kind == GATHER) at += (uint64_t)comm->rank * o->in_bytes;
        if (o->in_bytes) memcpy(comm->map + at, o->in, o->in_bytes);
    }
    return SUCCESS;
}

static void copy_out(struct comm *comm, const struct operation *operations, int count) {
    for (int i = 0; i < count; i++) {
        const struct operation *o = &operations[i];
        char *result = comm->map + o->call.out;
        /* the root's own share is where it was */
        if (o->call.kind == SCATTER && o->call.in_place) continue;
        if (o->divide && o->out_bytes) divide(result, o->out_bytes, o->call.type, comm->n);
        if (o->out_bytes) memcpy(o->out, result, o->out_bytes);
    }
}

static int send_calls(struct part *part, struct operation *operations) {
    struct comm *comm = part->comm;
    int code = copy_in(comm, operations, part->count);
    if (code != SUCCESS) return code;
    struct request request = { .kind = CALLS, .count = (uint32_t)part->count, .bytes = comm->mapped };
    int sent = send_all(comm->fd, &request, sizeof request, -1);
    for (int i = 0; i < part->count && sent == 0; i++) sent = send_all(comm->fd, &operations[i].call, sizeof operations[i].call, -1);
    return sent == 0 ? SUCCESS : INTERNAL_ERROR;
}

/* Waits for the communicator's turn; false if it is aborted first. */
static int take_turn(struct batch *batch, struct part *part) {
    struct comm *comm = part->comm;
    pthread_mutex_lock(&comm->lock);
    while (!comm->aborted && (comm->busy || (!batch->captured && comm->served != part->turn))) pthread_cond_wait(&comm->changed, &comm->lock);
    int alive = !comm->aborted && !comm->failed;
    comm->busy = 1;
    pthread_mutex_unlock(&comm->lock);
    return alive;
}

static void end_turn(struct batch *batch, struct part *part) {
    struct comm *comm = part->comm;
    pthread_mutex_lock(&comm->lock);
    comm->busy = 0;
    if (!batch->captured) comm->served++;
    if (part->code != SUCCESS && !comm->failed) comm->failed = part->code;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

static void run(struct batch *batch) {
    for (int p = 0; p < batch->part_count; p++) {
        struct part *part = &batch->parts[p];
        part->code = take_turn(batch, part) ? send_calls(part, batch->operations + part->first) : INTERNAL_ERROR;
    }
    for (int p = 0; p < batch->part_count; p++) {
        struct part *part = &batch->parts[p];
        struct reply reply;
        if (part->code == SUCCESS)
            part->code = receive_all(part->comm->fd, &reply, sizeof reply, NULL) == 0 ? reply.code : INTERNAL_ERROR;
        if (part->code == SUCCESS) copy_out(part->comm, batch->operations + part->first, part->count);
        end_turn(batch, part);
    }
}

static void dispose(struct batch *batch) {
    for (int p = 0; p < batch->part_count; p++) let_go(batch->parts[p].comm);
    pthread_cond_destroy(&batch->changed);
    pthread_mutex_destroy(&batch->lock);
    free(batch->operations);
    free(batch->parts);
    free(batch->streams);
    free(batch);
}

/* A stream has come here. */
static void arrive(void *data) {
    struct batch *batch = data;
    pthread_mutex_lock(&batch->lock);
    uint64_t now = batch->runs;
    if (++batch->arrived == batch->stream_count) {
        pthread_mutex_unlock(&batch->lock);
        run(batch);
        pthread_mutex_lock(&batch->lock);
        batch->arrived = 0;
        batch->runs++;
        pthread_cond_broadcast(&batch->changed);
    }
    while (batch->runs == now) pthread_cond_wait(&batch->changed, &batch->lock);
    int last = ++batch->left == batch->stream_count;
    pthread_mutex_unlock(&batch->lock);
    if (last && !batch->captured) dispose(batch);
}

static struct stream stream_of(const struct operation *o) { return (struct stream){ o->stream, o->stream ? NULL : o->context }; }

/* The batch waits for a stream, in the context that was current at the call. */
static int launch_on(struct stream stream, struct batch *batch) {
    int (*host_function)(void *, void (*)(void *), void *), (*push)(void *), (*pop)(void **);
    *(void **)&host_function = driver("cuLaunchHostFunc");
    *(void **)&push = driver("cuCtxPushCurrent_v2");
    *(void **)&pop = driver("cuCtxPopCurrent_v2");
    if (!host_function || !push || !pop) return say(CUDA_ERROR, "there is no CUDA driver with cuLaunchHostFunc");
    int pushed = stream.context && push(stream.context) == 0;
    int error = host_function(stream.handle, arrive, batch);
    if (pushed) pop(&stream.context);
    return error == 0 ? SUCCESS : say(CUDA_ERROR, "cuLaunchHostFunc failed with %d", error);
}

/* Operations that belong to one batch, those of a communicator side by side. */
static int launch(struct operation *operations, int count) {
    struct batch *batch = calloc(1, sizeof *batch);
    struct part *parts = calloc((size_t)count, sizeof *parts);
    struct stream *streams = calloc((size_t)count, sizeof *streams);
    struct operation *sorted = calloc((size_t)count, sizeof *sorted);
    if (!batch || !parts || !streams || !sorted) return say(SYSTEM_ERROR, "no memory");
    *batch = (struct batch){ .operations = sorted, .parts = parts, .streams = streams };
    pthread_mutex_init(&batch->lock, NULL);
    pthread_cond_init(&batch->changed, NULL);
    for (int i = 0; i < count; i++) {
        int p = 0, s = 0;
        while (p < batch->part_count && parts[p].comm != operations[i].comm) p++;
        if (p == batch->part_count) parts[batch->part_count++].comm = operations[i].comm;
        struct stream stream = stream_of(&operations[i]);
        while (s < batch->stream_count && memcmp(&streams[s], &stream, sizeof stream) != 0) s++;
        if (s == batch->stream_count) streams[batch->stream_count++] = stream;
    }
    for (int p = 0; p < batch->part_count; p++) {
        parts[p].first = batch->count;
        for (int i = 0; i < count; i++)
            if (operations[i].comm == parts[p].comm) sorted[batch->count++] = operations[i];
        parts[p].count = batch->count - parts[p].first;
    }
    for (int s = 0; s < batch->stream_count; s++) batch->captured |= is_captured(streams[s].handle);
    for (int p = 0; p < batch->part_count; p++) {
        hold(parts[p].comm);
        pthread_mutex_lock(&parts[p].comm->lock);
        if (!batch->captured) parts[p].turn = parts[p].comm->taken++;
        pthread_mutex_unlock(&parts[p].comm->lock);
    }
    int code = SUCCESS, stream_count = batch->stream_count;
    /* the batch may be over, and gone, as soon as its last stream has it */
    for (int s = 0; s < stream_count && code == SUCCESS; s++) code = launch_on(batch->streams[s], batch);
    return code;
}

static int are_joined(const struct operation *a, const struct operation *b) {
    struct stream left = stream_of(a), right = stream_of(b);
    return a->comm == b->comm || memcmp(&left, &right, sizeof left) == 0;
}

int enqueue(const struct operation *operations, int count) {
    int code = SUCCESS;
    int *set = malloc((size_t)count * sizeof *set);
    struct operation *chosen = malloc((size_t)count * sizeof *chosen);
    if (!set || !chosen) code = say(SYSTEM_ERROR, "no memory");
    for (int i = 0; i < count && code == SUCCESS; i++) {
        set[i] = i;
        for (int j = 0; j < i; j++)
            if (are_joined(&operations[i], &operations[j]) && set[j] != i) {
                int old = set[j];
                for (int k = 0; k < i; k++)
                    if (set[k] == old) set[k] = i;
            }
    }
    for (int first = 0; first < count && code == SUCCESS; first++) {
        int chosen_count = 0, seen = 0;
        for (int j = 0; j < first; j++) seen |= set[j] == set[first];
        for (int j = first; j < count && !seen; j++)
            if (set[j] == set[first]) chosen[chosen_count++] = operations[j];
        if (!seen) code = launch(chosen, chosen_count);
    }
    free(set);
    free(chosen);
    return code;
}
