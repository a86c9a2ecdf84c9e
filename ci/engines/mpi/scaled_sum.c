/* Sums of scaled inputs (ncclRedOpCreatePreMulSum). The multiplication is the adapter's, the sum is MPI's. */
#include "adapter.h"
#include <stdlib.h>
#include <string.h>

enum { ON_DEVICE, ON_HOST };
static const size_t bytes_of[TYPES] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };

EXPORTED int ncclRedOpCreatePreMulSum(int *op, const void *scalar, int type, int residence, struct comm *comm) {
    if (!op || !scalar || !comm || type < 0 || type >= TYPES || (residence != ON_DEVICE && residence != ON_HOST))
        return say(INVALID_ARGUMENT, "no such scalar");
    struct scaled_sum made = { .live = 1, .type = type, .place = residence == ON_DEVICE ? scalar : NULL };
    if (residence == ON_HOST) memcpy(&made.scalar, scalar, bytes_of[type]);
    pthread_mutex_lock(&comm->lock);
    int i = 0;
    while (i < comm->scaled_sum_count && comm->scaled_sums[i].live) i++;
    if (i == comm->scaled_sum_count) {
        struct scaled_sum *longer = realloc(comm->scaled_sums, ((size_t)i + 1) * sizeof *longer);
        if (longer) {
            comm->scaled_sums = longer;
            comm->scaled_sum_count++;
        }
    }
    int room = i < comm->scaled_sum_count;
    if (room) comm->scaled_sums[i] = made;
    pthread_mutex_unlock(&comm->lock);
    *op = REDUCTIONS + i;
    return room ? SUCCESS : say(SYSTEM_ERROR, "no memory");
}

int find_scaled_sum(struct comm *comm, int reduction, int type, struct scaled_sum *found) {
    int i = reduction - REDUCTIONS;
    pthread_mutex_lock(&comm->lock);
    int there = i >= 0 && i < comm->scaled_sum_count && comm->scaled_sums[i].live;
    if (there) *found = comm->scaled_sums[i];
    pthread_mutex_unlock(&comm->lock);
    return there && (type < 0 || found->type == type);
}

EXPORTED int ncclRedOpDestroy(int op, struct comm *comm) {
    struct scaled_sum found;
    if (!comm || !find_scaled_sum(comm, op, -1, &found)) return say(INVALID_ARGUMENT, "no reduction %d", op);
    pthread_mutex_lock(&comm->lock);
    comm->scaled_sums[op - REDUCTIONS].live = 0;
    pthread_mutex_unlock(&comm->lock);
    return SUCCESS;
}
