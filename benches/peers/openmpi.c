/* Times one operation on f32 in Open MPI; benches/peers/main.rs builds and runs it.
 *
 * usage: openmpi OPERATION ELEMENTS WARM_UP ITERATIONS
 *
 * ELEMENTS are those of the larger buffer. Prints a line for each rank: its wrong elements after the last iteration, then the
 * seconds of every iteration that is timed, each from the end of the one before it to its own end. Ranks meet before the first and
 * before the last.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

static void run(const char *operation, const float *in, float *out, int count, int part)
{
    if (strcmp(operation, "all_reduce") == 0)
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (strcmp(operation, "all_gather") == 0)
        MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
    else
        MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (argc != 5) {
        fprintf(stderr, "usage: openmpi OPERATION ELEMENTS WARM_UP ITERATIONS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const char *operation = argv[1];
    size_t count = strtoull(argv[2], NULL, 10);
    int warm_up = atoi(argv[3]), iterations = atoi(argv[4]);
    size_t inputs = input_elements(operation, count, n), outputs = output_elements(operation, count, n);
    float *in = malloc(inputs * sizeof *in), *out = malloc(outputs * sizeof *out);
    double *times = malloc(iterations * sizeof *times), *all = malloc((size_t)n * iterations * sizeof *all);
    if (!in || !out || !times || !all) {
        fprintf(stderr, "no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    for (size_t i = 0; i < inputs; i++)
        in[i] = input_value(i, rank);
    for (size_t i = 0; i < outputs; i++)
        out[i] = -1;
    for (int i = -warm_up; i < iterations; i++) {
        if (i == iterations - 1)
            for (size_t at = 0; at < outputs; at++)
                out[at] = -1;
        if (i == 0 || i == iterations - 1)
            MPI_Barrier(MPI_COMM_WORLD);
        double begun = MPI_Wtime();
        run(operation, in, out, (int)count, (int)(count / n));
        if (i >= 0)
            times[i] = MPI_Wtime() - begun;
    }
    unsigned long long wrong = wrong_elements(operation, out, count, rank, n);
    unsigned long long *wrongs = malloc(n * sizeof *wrongs);
    MPI_Gather(times, iterations, MPI_DOUBLE, all, iterations, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Gather(&wrong, 1, MPI_UNSIGNED_LONG_LONG, wrongs, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD);
    for (int r = 0; rank == 0 && r < n; r++) {
        printf("%llu", wrongs[r]);
        for (int i = 0; i < iterations; i++)
            printf(" %.9f", all[(size_t)r * iterations + i]);
        printf("\n");
    }
    MPI_Finalize();
    return 0;
}
