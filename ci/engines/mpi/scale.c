/* The division that makes an average of MPI's sum. */
#include "scale.h"
#include "wire.h"
#include "sixteen.h"

#define DIVIDE(element)                                                                          \
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
