/* The parts of an engine process. */
#ifndef COLLSPEC_MPI_ENGINE_H
#define COLLSPEC_MPI_ENGINE_H

#include "wire.h"
#include <mpi.h>

/* Types and reductions that MPI lacks; 0, or what MPI returned. */
int make_types(void);
/* NULL types and reductions are refused by MPI with an error of its own. */
MPI_Datatype type_of(uint32_t type);
MPI_Op reduction_of(uint32_t type, uint32_t reduction);

/* Makes the calls of one group: all sends and receives beside each other, collectives in their order. MPI's error. */
int make_calls(MPI_Comm comm, char *map, const struct call *calls, uint32_t count);

#endif
