/* Operands in the memory that a communicator shares with its engine process. */
#define _GNU_SOURCE
#include "copies.h"
#include "scale.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The next place of an operand: as far from a multiple of 64 as the caller's own address. */
static uint64_t place(uint64_t *end, const void *address, uint64_t bytes) {
    uint64_t at = (*end + 63) / 64 * 64 + (uintptr_t)address % 64;
    *end = at + bytes;
    return at;
}

/* Operands get places in the shared memory, and inputs are copied there. */
int copy_in(struct comm *comm, struct operation *operations, int count) {
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
        comm->map = ftruncate(comm->memory, (off_t)end) == 0
                        ? mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED, comm->memory, 0)
                        : MAP_FAILED;
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
        if (o->in_bytes && o->scaled.live)
            multiply(comm->map + at, o->in_bytes, o->call.type, o->scaled.place ? o->scaled.place : &o->scaled.scalar);
    }
    return SUCCESS;
}

void copy_out(struct comm *comm, const struct operation *operations, int count) {
    for (int i = 0; i < count; i++) {
        const struct operation *o = &operations[i];
        char *result = comm->map + o->call.out;
        /* the root's own share is where it was */
        if (o->call.kind == SCATTER && o->call.in_place) continue;
        if (o->divide && o->out_bytes) divide(result, o->out_bytes, o->call.type, comm->n);
        if (o->out_bytes) memcpy(o->out, result, o->out_bytes);
    }
}
