/* NCCL's element types as MPI's. MPI 3 has no 16-bit floats. They are moved as 16-bit integers, and for reductions they are
 * types of their own with operators from here: the order of a sum is then the MPI library's, and its additions are this
 * file's. */
#include "engine.h"
#include "sixteen.h"

static MPI_Datatype half, brain;
static MPI_Op operators[2][4];

MPI_Datatype type_of(uint32_t type) {
    switch (type) {
    case INT8: return MPI_INT8_T;
    case UINT8: return MPI_UINT8_T;
    case INT32: return MPI_INT32_T;
    case UINT32: return MPI_UINT32_T;
    case INT64: return MPI_INT64_T;
    case UINT64: return MPI_UINT64_T;
    case FLOAT32: return MPI_FLOAT;
    case FLOAT64: return MPI_DOUBLE;
    case FLOAT16: return half;
    case BFLOAT16: return brain;
    default: return MPI_DATATYPE_NULL;
    }
}

MPI_Op reduction_of(uint32_t type, uint32_t reduction) {
    uint32_t by = reduction == AVG ? SUM : reduction;
    if (by > MIN) return MPI_OP_NULL;
    if (type == FLOAT16 || type == BFLOAT16) return operators[type == BFLOAT16][by];
    switch (by) {
    case SUM: return MPI_SUM;
    case PROD: return MPI_PROD;
    case MAX: return MPI_MAX;
    default: return MPI_MIN;
    }
}

static float larger(float a, float b) { return a != a || b > a ? b : a; }
static float smaller(float a, float b) { return a != a || b < a ? b : a; }

#define OPERATOR(name, of, bits, expression)                                   \
    static void name(void *in, void *inout, int *count, MPI_Datatype *type) {  \
        (void)type;                                                            \
        for (int i = 0; i < *count; i++) {                                     \
            float a = of(((uint16_t *)inout)[i]), b = of(((uint16_t *)in)[i]); \
            ((uint16_t *)inout)[i] = bits(expression);                         \
        }                                                                      \
    }
OPERATOR(add_halves, half_of, half_bits, a + b)
OPERATOR(multiply_halves, half_of, half_bits, a *b)
OPERATOR(larger_halves, half_of, half_bits, larger(a, b))
OPERATOR(smaller_halves, half_of, half_bits, smaller(a, b))
OPERATOR(add_brains, brain_of, brain_bits, a + b)
OPERATOR(multiply_brains, brain_of, brain_bits, a *b)
OPERATOR(larger_brains, brain_of, brain_bits, larger(a, b))
OPERATOR(smaller_brains, brain_of, brain_bits, smaller(a, b))

int make_types(void) {
    MPI_User_function *functions[2][4] = { { add_halves, multiply_halves, larger_halves, smaller_halves },
                                           { add_brains, multiply_brains, larger_brains, smaller_brains } };
    MPI_Datatype *types[2] = { &half, &brain };
    int error = MPI_SUCCESS;
    for (int type = 0; type < 2 && error == MPI_SUCCESS; type++) {
        error = MPI_Type_contiguous(1, MPI_UINT16_T, types[type]);
        if (error == MPI_SUCCESS) error = MPI_Type_commit(types[type]);
        for (int op = 0; op < 4 && error == MPI_SUCCESS; op++)
            error = MPI_Op_create(functions[type][op], 1, &operators[type][op]);
    }
    return error;
}
