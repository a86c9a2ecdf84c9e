// A library that has a CUDA runtime linked in, as far as names go.
#include <unistd.h>

#define INSIDE __attribute__((visibility("hidden"), noinline, noclone))
#define OUTSIDE __attribute__((visibility("default")))

INSIDE int cudaMalloc(void **pointer, unsigned long size) { *pointer = (void *)size; return 1; }
INSIDE int cudaFree(void *pointer) { return pointer == 0 ? 2 : 3; }
INSIDE int cudaMemcpy_ptsz(void *to, const void *from) { return to == from ? 4 : 5; }
INSIDE const char *cudaGetErrorString(int error) { return error == 0 ? "none" : "some"; }
INSIDE void __cudaUnregisterFatBinary(void **binary) { *binary = 0; }
INSIDE int __cudart7(int number) { return number + 7; }

OUTSIDE int call_malloc(void **pointer, unsigned long size) { return cudaMalloc(pointer, size); }
OUTSIDE int call_free(void *pointer) { return cudaFree(pointer); }
OUTSIDE int call_memcpy(void *to, const void *from) { return cudaMemcpy_ptsz(to, from); }
OUTSIDE const char *call_error_string(int error) { return cudaGetErrorString(error); }
OUTSIDE int call_inner(int number) { return __cudart7(number); }
OUTSIDE int call_getpid(void) { return getpid(); }

// What a compiler makes of a kernel: a function on the host, whose address is the kernel's.
INSIDE void _Z3addPf(float *data) { data[0] += 1; }
INSIDE void _ZN23_GLOBAL__N__0a_4_a_cu_17onerankEPf(float *data) { data[0] += 2; }
OUTSIDE void *kernel(int which) { return which ? (void *)_ZN23_GLOBAL__N__0a_4_a_cu_17onerankEPf : (void *)_Z3addPf; }

static void *binary = &binary;
__attribute__((destructor)) static void unregister(void) { __cudaUnregisterFatBinary(&binary); }

// What the device linker leaves: units, a program of the second and the first, and one of the third.
struct wrapper { unsigned magic, version; const void *data; void *units; };
#define IN(name) __attribute__((section(name), used))
IN("__nv_relfatbin") static const long units[3][4] = {{1}, {2}, {3}};
IN(".nv_fatbin") static const long code[2] = {4, 5};
static const void *one[3], *two[2];
IN(".nvFatBinSegment") static struct wrapper wrappers[] = {
    {0x466243b1, 1, units[0], 0}, {0x466243b1, 2, &code[0], one}, {0x466243b1, 1, units[1], 0},
    {0x466243b1, 1, units[2], 0}, {0x466243b1, 2, &code[1], two},
};
__attribute__((constructor)) static void link_units(void) { one[0] = units[1]; one[1] = units[0]; two[0] = units[2]; }

#ifdef SHORT
// One byte, and the next function begins right after it.
__asm__(".text\n.type cudaShort, @function\ncudaShort:\nret\n.size cudaShort, 1\n"
        ".type after, @function\nafter:\nret\n.size after, 1\n");
#endif
#ifdef DENSE
// One byte, and then code that has no name.
__asm__(".text\n.type cudaDense, @function\ncudaDense:\nret\n.size cudaDense, 1\n"
        ".fill 20, 1, 0x58\nret\n");
#endif
#ifdef ALIAS
extern int cudaFree_v2(void *pointer) __attribute__((alias("cudaFree"), visibility("hidden")));
#endif
