// A program of two ranks that opens its driver and its NCCL in a folder, adds up some numbers a few times, and does not look at the results.
// program FOLDER ROUNDS [WHAT-ELSE...]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 1000, FLOAT = 7, SUM = 0 };
typedef void *handle;
static handle driver, nccl;
#define CALL(library, name, ...) do { \
    int (*function)() = (int (*)())dlsym(library, name); \
    int code = function ? function(__VA_ARGS__) : -1; \
    if (code) { fprintf(stderr, "%s: %d\n", name, code); exit(20); } \
  } while (0)

static handle open_in(const char *folder, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  handle library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) { fprintf(stderr, "%s\n", dlerror()); exit(21); }
  return library;
}

int main(int argc, char **argv) {
  const char *else_ = argc > 3 ? argv[3] : "";
  driver = open_in(argv[1], "libcuda.so.1");
  nccl = open_in(argv[1], "libnccl.so.2");
  handle contexts[RANKS], streams[RANKS], comms[RANKS];
  unsigned long long buffers[RANKS];
  CALL(driver, "cuInit", 0);
  for (int rank = 0; rank < RANKS; rank++) {
    CALL(driver, "cuDevicePrimaryCtxRetain", &contexts[rank], rank);
    CALL(driver, "cuCtxSetCurrent", contexts[rank]);
    CALL(driver, "cuStreamCreate", &streams[rank], 1);
    CALL(driver, "cuMemAlloc_v2", &buffers[rank], COUNT * sizeof(float));
    float values[COUNT];
    for (int at = 0; at < COUNT; at++) values[at] = 0.1f * (rank + at);
    CALL(driver, "cuMemcpyHtoD_v2", buffers[rank], values, sizeof values);
  }
  CALL(nccl, "ncclCommInitAll", comms, RANKS, (int *)0);
  if (!strcmp(else_, "descriptors")) while (open("/dev/null", O_RDONLY) >= 0) {}
  if (!strcmp(else_, "second")) dlsym(open_in(argv[4], "libnccl.so.2"), "ncclGroupStart");
  if (!strcmp(else_, "fork")) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, 0, 0);
  }
  for (int round = 0; round < atoi(argv[2]); round++) {
    CALL(nccl, "ncclGroupStart");
    for (int rank = 0; rank < RANKS; rank++)
      CALL(nccl, "ncclAllReduce", (handle)buffers[rank], (handle)buffers[rank], (size_t)COUNT, FLOAT, SUM, comms[rank], streams[rank]);
    CALL(nccl, "ncclGroupEnd");
    if (!strcmp(else_, "early")) _exit(3);
    for (int rank = 0; rank < RANKS; rank++) CALL(driver, "cuStreamSynchronize", streams[rank]);
    if (!strcmp(else_, "kill")) raise(SIGKILL);
  }
  return 0;
}
