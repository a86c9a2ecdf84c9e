/* 16-bit floats as float and back. Sums, products and quotients of two of them, computed in float and rounded once more to
 * their type, are what a single rounding would give. */
#ifndef COLLSPEC_MPI_SIXTEEN_H
#define COLLSPEC_MPI_SIXTEEN_H
#include <stdint.h>
#include <string.h>

static inline float half_of(uint16_t bits) {
    _Float16 value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

static inline uint16_t half_bits(float value) {
    _Float16 rounded = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return bits;
}

static inline float brain_of(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline uint16_t brain_bits(float value) {
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if (value != value) return 0x7fc0;
    return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}
#endif
