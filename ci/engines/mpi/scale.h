#ifndef COLLSPEC_MPI_SCALE_H
#define COLLSPEC_MPI_SCALE_H
#include <stdint.h>
/* avg is not in MPI: its sum, divided by the number of ranks. Integers are rounded towards zero. */
void divide(void *elements, uint64_t bytes, uint32_t type, int ranks);
/* Each element times a number of its type, rounded once. */
void multiply(void *elements, uint64_t bytes, uint32_t type, const void *scalar);
#endif
