/* NCCL's operations as calls of MPI. With COLLSPEC_MPI_CALLS=nonblocking collectives are begun with MPI_I... and waited for,
 * which in Open MPI is another implementation of each (libnbc). */
#include "engine.h"
#include <stdlib.h>
#include <string.h>

static int nonblocking(void) {
    const char *way = getenv("COLLSPEC_MPI_CALLS");
    return way && strcmp(way, "nonblocking") == 0;
}

/* One collective, blocking or begun: the argument lists are the same but for the request at the end. */
#define CALL(upper, lower, ...) (request ? MPI_I##lower(__VA_ARGS__, request) : MPI_##upper(__VA_ARGS__))

static int reduce_scatter_with_counts(MPI_Comm comm, void *in, void *out, int count, MPI_Datatype type, MPI_Op op) {
    int ranks, error = MPI_Comm_size(comm, &ranks);
    int *counts = error == MPI_SUCCESS ? malloc((size_t)ranks * sizeof *counts) : NULL;
    if (!counts) return error == MPI_SUCCESS ? MPI_ERR_NO_MEM : error;
    for (int i = 0; i < ranks; i++) counts[i] = count;
    error = MPI_Reduce_scatter(in, out, counts, type, op, comm);
    free(counts);
    return error;
}

static int collective(MPI_Comm comm, char *map, const struct call *call, MPI_Request *request) {
    int rank, count = (int)call->count, root = call->peer;
    int error = MPI_Comm_rank(comm, &rank);
    if (error != MPI_SUCCESS) return error;
    MPI_Datatype type = type_of(call->type);
    MPI_Op op = reduction_of(call->type, call->reduction);
    void *in = map + call->in, *out = map + call->out;
    void *own = call->in_place ? MPI_IN_PLACE : in;
    switch (call->kind) {
    case ALL_REDUCE: return CALL(Allreduce, allreduce, own, out, count, type, op, comm);
    /* MPI's form in place is for the root alone; elsewhere the input is the one buffer there is. */
    case REDUCE: return CALL(Reduce, reduce, rank == root ? own : in, out, count, type, op, root, comm);
    case BROADCAST: return CALL(Bcast, bcast, out, count, type, root, comm);
    case ALL_GATHER: return CALL(Allgather, allgather, own, count, type, out, count, type, comm);
    /* Open MPI has a ring for the form with counts only */
    case REDUCE_SCATTER:
        if (algorithm_asked_for() == RING) return reduce_scatter_with_counts(comm, own, out, count, type, op);
        return CALL(Reduce_scatter_block, reduce_scatter_block, own, out, count, type, op, comm);
    case ALL_TO_ALL: return CALL(Alltoall, alltoall, in, count, type, out, count, type, comm);
    case GATHER: return CALL(Gather, gather, rank == root ? own : in, count, type, out, count, type, root, comm);
    case SCATTER:
        return CALL(Scatter, scatter, in, count, type, rank == root && call->in_place ? MPI_IN_PLACE : out, count, type,
                    root, comm);
    default: return MPI_ERR_ARG;
    }
}

static int transfer(MPI_Comm comm, char *map, const struct call *call, MPI_Request *request) {
    int count = (int)call->count;
    MPI_Datatype type = type_of(call->type);
    if (call->kind == SEND) return MPI_Isend(map + call->in, count, type, call->peer, 0, comm, request);
    return MPI_Irecv(map + call->out, count, type, call->peer, 0, comm, request);
}

int make_calls(MPI_Comm comm, char *map, const struct call *calls, uint32_t count) {
    int error = MPI_SUCCESS, transfers = 0;
    MPI_Request *requests = malloc((count + 1) * sizeof *requests);
    if (!requests) return MPI_ERR_NO_MEM;
    for (uint32_t i = 0; i < count && error == MPI_SUCCESS; i++)
        if (calls[i].kind >= SEND && (error = transfer(comm, map, &calls[i], &requests[transfers])) == MPI_SUCCESS)
            transfers++;
    for (uint32_t i = 0; i < count && error == MPI_SUCCESS; i++) {
        if (calls[i].kind >= SEND) continue;
        MPI_Request begun = MPI_REQUEST_NULL;
        error = collective(comm, map, &calls[i], nonblocking() ? &begun : NULL);
        if (error == MPI_SUCCESS) error = MPI_Wait(&begun, MPI_STATUS_IGNORE);
    }
    if (error == MPI_SUCCESS) error = MPI_Waitall(transfers, requests, MPI_STATUSES_IGNORE);
    free(requests);
    return error;
}
