/* What the adapter computes around MPI's sums: the division of an average, and the multiplication of scaled sums. */
#include "scale.h"
#include "wire.h"
#include "sixteen.h"

#define DIVIDE(element) \
    for (uint64_t i = 0; i < bytes / sizeof(element); i++) ((element *)elements)[i] /= (element)ranks

void divide(void *elements, uint64_t bytes, uint32_t type, int ranks) {
    uint16_t *sixteen = elements;
    switch (type) {
    case INT8:
        for (uint64_t i = 0; i < bytes; i++) ((int8_t *)elements)[i] = (int8_t)(((int8_t *)elements)[i] / ranks);
        break;
    case UINT8:
        for (uint64_t i = 0; i < bytes; i++) ((uint8_t *)elements)[i] = (uint8_t)(((uint8_t *)elements)[i] / ranks);
        break;
    case INT32: DIVIDE(int32_t); break;
    case UINT32: DIVIDE(uint32_t); break;
    case INT64: DIVIDE(int64_t); break;
    case UINT64: DIVIDE(uint64_t); break;
    case FLOAT32: DIVIDE(float); break;
    case FLOAT64: DIVIDE(double); break;
    case FLOAT16:
        for (uint64_t i = 0; i < bytes / 2; i++) sixteen[i] = half_bits(half_of(sixteen[i]) / (float)ranks);
        break;
    case BFLOAT16:
        for (uint64_t i = 0; i < bytes / 2; i++) sixteen[i] = brain_bits(brain_of(sixteen[i]) / (float)ranks);
        break;
    default: break;
    }
}

/* Products of integers are those of unsigned ones, which wrap. */
#define MULTIPLY(element, wide)                            \
    for (uint64_t i = 0; i < bytes / sizeof(element); i++) \
    ((element *)elements)[i] = (element)((wide)((element *)elements)[i] * (wide) * (const element *)scalar)

void multiply(void *elements, uint64_t bytes, uint32_t type, const void *scalar) {
    uint16_t *sixteen = elements, by;
    switch (type) {
    case INT8:
    case UINT8: MULTIPLY(uint8_t, uint32_t); break;
    case INT32:
    case UINT32: MULTIPLY(uint32_t, uint32_t); break;
    case INT64:
    case UINT64: MULTIPLY(uint64_t, uint64_t); break;
    case FLOAT32: MULTIPLY(float, float); break;
    case FLOAT64: MULTIPLY(double, double); break;
    case FLOAT16:
        memcpy(&by, scalar, sizeof by);
        for (uint64_t i = 0; i < bytes / 2; i++) sixteen[i] = half_bits(half_of(sixteen[i]) * half_of(by));
        break;
    case BFLOAT16:
        memcpy(&by, scalar, sizeof by);
        for (uint64_t i = 0; i < bytes / 2; i++) sixteen[i] = brain_bits(brain_of(sixteen[i]) * brain_of(by));
        break;
    default: break;
    }
}
