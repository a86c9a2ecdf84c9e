/* Work on streams of the stand-in driver, by its extension (docs/model-library.md). */
#define _GNU_SOURCE
#include "streams.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

typedef int node_function(void *data, uint64_t launch, void *starts);
static struct {
    int (*device)(int *), (*context)(void **), (*push)(void *), (*pop)(void **);
    void *(*open)(void *);
    uint64_t (*capture)(void *);
    void (*launch)(void *, start_function *, void *);
    int (*node)(void *, node_function *, void (*)(void *), void *);
    void (*node_start)(void *, start_function *, void *);
    void (*done)(void *), (*close)(void *);
} driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int complete;

static void find(void) {
    struct {
        const char *name;
        void *place;
    } wanted[] = {
        { "cuCtxGetDevice", &driver.device },        { "cuCtxGetCurrent", &driver.context },
        { "cuCtxPushCurrent_v2", &driver.push },     { "cuCtxPopCurrent_v2", &driver.pop },
        { "collspecStreamOpen", &driver.open },      { "collspecStreamCapture", &driver.capture },
        { "collspecStreamLaunch", &driver.launch },  { "collspecStreamCaptureNode", &driver.node },
        { "collspecNodeStart", &driver.node_start }, { "collspecStreamDone", &driver.done },
        { "collspecStreamClose", &driver.close },
    };
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    complete = library != NULL;
    for (size_t i = 0; library && i < sizeof wanted / sizeof *wanted; i++) {
        void *function = dlsym(library, wanted[i].name);
        *(void **)wanted[i].place = function;
        complete &= function != NULL;
    }
}

static int has_driver(void) {
    pthread_once(&once, find);
    return complete;
}

int current_device(void) {
    int device = 0;
    return has_driver() && driver.device(&device) == 0 ? device : 0;
}

void *current_context(void) {
    void *context = NULL;
    return has_driver() && driver.context(&context) == 0 ? context : NULL;
}

void stream_goes_on(void *done) { driver.done(done); }

static void *opened(struct stream stream) {
    if (!has_driver()) return NULL;
    int pushed = stream.context && driver.push(stream.context) == 0;
    void *open = driver.open(stream.handle);
    if (pushed) driver.pop(&stream.context);
    return open;
}

int is_capturing(struct stream stream) {
    void *open = opened(stream);
    int capturing = open && driver.capture(open) != 0;
    if (open) driver.close(open);
    return capturing;
}

static int node_launched(void *data, uint64_t launch, void *starts) {
    struct work *work = data;
    void *for_start = work->launch(work->graph_data, launch);
    if (!for_start) return 1;
    driver.node_start(starts, work->start, for_start);
    return 0;
}

static void node_released(void *data) {
    struct work *work = data;
    work->release(work->graph_data);
    free(work);
}

int put_on(struct stream stream, const struct work *work) {
    void *open = opened(stream);
    if (!open) return -1;
    int failed = 0;
    if (driver.capture(open) == 0) {
        driver.launch(open, work->start, work->data);
    } else {
        struct work *kept = malloc(sizeof *kept);
        if (kept) *kept = *work;
        failed = !kept || driver.node(open, node_launched, node_released, kept) == 0;
    }
    driver.close(open);
    return failed ? -1 : 0;
}
