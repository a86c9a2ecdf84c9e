/* Work on streams. Operations of a group that share a stream or a communicator are a batch: it runs once all its streams
 * have come to it, and holds them up until it is over. */
#define _GNU_SOURCE
#include "adapter.h"
#include "copies.h"
#include "streams.h"
#include <stdlib.h>
#include <string.h>

/* The operations of one communicator. */
struct part {
    struct comm *comm;
    int first, count;
};
struct batch {
    struct operation *operations;
    struct part *parts;
    struct stream *streams;
    int count, part_count, stream_count;
    pthread_mutex_t lock;
    struct run *launching; /* at a launch of a graph, until each of its streams has it */
    int launched, holders; /* holders: unfinished runs, and the streams of a graph that it is in */
};
/* One run of a batch: when it is made, or at a launch of its graph. */
struct run {
    struct batch *batch;
    uint64_t launch;
    int arrived;
    uint64_t *turns; /* by part: calls on a communicator are made in the order in which the host made or launched them */
    int *codes;      /* by part */
    void **waiting;  /* by stream */
};

static int send_calls(struct part *part, struct operation *operations) {
    struct comm *comm = part->comm;
    int code = copy_in(comm, operations, part->count);
    if (code != SUCCESS) return code;
    struct request request = { .kind = CALLS, .count = (uint32_t)part->count, .bytes = comm->mapped };
    int sent = send_all(comm->fd, &request, sizeof request, -1);
    for (int i = 0; i < part->count && sent == 0; i++)
        sent = send_all(comm->fd, &operations[i].call, sizeof operations[i].call, -1);
    return sent == 0 ? SUCCESS : INTERNAL_ERROR;
}

static void run_on_engines(struct run *run) {
    struct batch *batch = run->batch;
    for (int p = 0; p < batch->part_count; p++) {
        struct part *part = &batch->parts[p];
        run->codes[p] =
            take_turn(part->comm, run->turns[p]) ? send_calls(part, batch->operations + part->first) : INTERNAL_ERROR;
    }
    for (int p = 0; p < batch->part_count; p++) {
        struct part *part = &batch->parts[p];
        struct reply reply = { .code = SUCCESS };
        int code = run->codes[p];
        if (code == SUCCESS && receive_all(part->comm->fd, &reply, sizeof reply, NULL) != 0) code = INTERNAL_ERROR;
        if (code == SUCCESS) code = reply.code;
        if (code == SUCCESS) copy_out(part->comm, batch->operations + part->first, part->count);
        end_turn(part->comm, code, reply.text);
    }
}

static void give_up(void *data) {
    struct batch *batch = data;
    pthread_mutex_lock(&batch->lock);
    int left = --batch->holders;
    pthread_mutex_unlock(&batch->lock);
    if (left) return;
    for (int p = 0; p < batch->part_count; p++) let_go(batch->parts[p].comm);
    pthread_mutex_destroy(&batch->lock);
    free(batch->operations);
    free(batch->parts);
    free(batch->streams);
    free(batch);
}

static void *run_to_end(void *data) {
    struct run *run = data;
    struct batch *batch = run->batch;
    run_on_engines(run);
    for (int s = 0; s < batch->stream_count; s++) stream_goes_on(run->waiting[s]);
    free(run);
    give_up(batch);
    return NULL;
}

/* A stream has come here. */
static void arrive(void *data, void *done) {
    struct run *run = data;
    pthread_mutex_lock(&run->batch->lock);
    run->waiting[run->arrived++] = done;
    int last = run->arrived == run->batch->stream_count;
    pthread_mutex_unlock(&run->batch->lock);
    pthread_t thread;
    if (!last) return;
    if (pthread_create(&thread, NULL, run_to_end, run) == 0)
        pthread_detach(thread);
    else
        run_to_end(run);
}

/* A run with its turns; NULL without memory. */
static struct run *begin(struct batch *batch, uint64_t launch) {
    size_t parts = (size_t)batch->part_count, streams = (size_t)batch->stream_count;
    struct run *run =
        calloc(1, sizeof *run + parts * (sizeof *run->turns + sizeof *run->codes) + streams * sizeof *run->waiting);
    if (!run) return NULL;
    run->batch = batch;
    batch->holders++;
    run->launch = launch;
    run->turns = (uint64_t *)(run + 1);
    run->waiting = (void **)(run->turns + parts);
    run->codes = (int *)(run->waiting + streams);
    for (int p = 0; p < batch->part_count; p++) run->turns[p] = next_turn(batch->parts[p].comm);
    return run;
}

/* A graph is launched: the first stream of the batch begins the run, and the others join it. */
static void *launched(void *data, uint64_t launch) {
    struct batch *batch = data;
    pthread_mutex_lock(&batch->lock);
    if (!batch->launching || batch->launching->launch != launch) {
        batch->launching = begin(batch, launch);
        batch->launched = 0;
    }
    struct run *run = batch->launching;
    if (++batch->launched == batch->stream_count) batch->launching = NULL;
    pthread_mutex_unlock(&batch->lock);
    return run;
}

static struct stream stream_of(const struct operation *o) {
    return (struct stream){ o->stream, o->stream ? NULL : o->context };
}

/* Sorts operations by communicator, and finds their streams. */
static struct batch *gather(const struct operation *operations, int count) {
    struct batch *batch = calloc(1, sizeof *batch);
    if (!batch) return NULL;
    batch->operations = calloc((size_t)count, sizeof *batch->operations);
    batch->parts = calloc((size_t)count, sizeof *batch->parts);
    batch->streams = calloc((size_t)count, sizeof *batch->streams);
    if (!batch->operations || !batch->parts || !batch->streams) return NULL;
    pthread_mutex_init(&batch->lock, NULL);
    for (int i = 0; i < count; i++) {
        int p = 0, s = 0;
        struct stream stream = stream_of(&operations[i]);
        while (p < batch->part_count && batch->parts[p].comm != operations[i].comm) p++;
        if (p == batch->part_count) batch->parts[batch->part_count++].comm = operations[i].comm;
        while (s < batch->stream_count && memcmp(&batch->streams[s], &stream, sizeof stream) != 0) s++;
        if (s == batch->stream_count) batch->streams[batch->stream_count++] = stream;
    }
    for (int p = 0; p < batch->part_count; p++) {
        struct part *part = &batch->parts[p];
        part->first = batch->count;
        for (int i = 0; i < count; i++)
            if (operations[i].comm == part->comm) batch->operations[batch->count++] = operations[i];
        part->count = batch->count - part->first;
        hold(part->comm);
    }
    return batch;
}

/* Puts operations that belong to one batch on their streams. */
static int launch(const struct operation *operations, int count) {
    struct batch *batch = gather(operations, count);
    if (!batch) return say(SYSTEM_ERROR, "no memory");
    int captured = 0, stream_count = batch->stream_count;
    for (int s = 0; s < stream_count; s++) captured |= is_capturing(batch->streams[s]);
    struct run *run = captured ? NULL : begin(batch, 0);
    if (!captured && !run) return say(SYSTEM_ERROR, "no memory");
    if (captured) batch->holders = stream_count;
    struct work work = { arrive, run, launched, give_up, batch };
    /* without a graph the batch may be over, and gone, as soon as its last stream has it */
    for (int s = 0; s < stream_count; s++)
        if (put_on(batch->streams[s], &work) != 0) return say(CUDA_ERROR, "there is no such stream, or no stand-in driver");
    return SUCCESS;
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
