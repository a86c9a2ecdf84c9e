#ifndef COLLSPEC_MPI_COPIES_H
#define COLLSPEC_MPI_COPIES_H
#include "adapter.h"
/* Gives operands their places and copies inputs there; NCCL's code. */
int copy_in(struct comm *comm, struct operation *operations, int count);
/* Copies results to where the callers want them, and nothing else. */
void copy_out(struct comm *comm, const struct operation *operations, int count);
#endif
