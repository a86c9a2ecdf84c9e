/* What the ranks send, and what must come out: whole numbers whose sums f32 holds exactly, so every order of adding gives the same.
 * They repeat, so verifying a large result takes one table lookup for each element. */
#ifndef VALUES_H
#define VALUES_H

#include <stddef.h>
#include <string.h>

#define PERIOD 17

static inline float input_value(size_t i, int rank)
{
    return (float)((i + 3 * (size_t)rank) % PERIOD);
}

static inline size_t input_elements(const char *operation, size_t count, int n)
{
    return strcmp(operation, "all_gather") == 0 ? count / (size_t)n : count;
}

static inline size_t output_elements(const char *operation, size_t count, int n)
{
    return strcmp(operation, "reduce_scatter") == 0 ? count / (size_t)n : count;
}

static inline unsigned long long wrong_elements(const char *operation, const float *out, size_t count, int rank, int n)
{
    float sums[PERIOD];
    for (size_t i = 0; i < PERIOD; i++) {
        sums[i] = 0;
        for (int r = 0; r < n; r++)
            sums[i] += input_value(i, r);
    }
    unsigned long long wrong = 0;
    size_t part = count / (size_t)n;
    if (strcmp(operation, "all_gather") == 0) {
        for (int r = 0; r < n; r++)
            for (size_t i = 0; i < part; i++)
                wrong += out[(size_t)r * part + i] != input_value(i, r);
        return wrong;
    }
    size_t first = strcmp(operation, "reduce_scatter") == 0 ? (size_t)rank * part : 0;
    size_t elements = output_elements(operation, count, n);
    for (size_t i = 0; i < elements; i++)
        wrong += out[i] != sums[(first + i) % PERIOD];
    return wrong;
}

#endif
