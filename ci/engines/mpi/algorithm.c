/* NCCL_ALGO, as far as Open MPI has something like it. */
#define _GNU_SOURCE
#include "wire.h"
#include <stdlib.h>
#include <string.h>

/* Whether the list admits the algorithm: by its name, or because it names only what is not wanted, and not this. */
static int admits(const char *list, const char *name) {
    const char *found = strcasestr(list, name);
    int is_negative = strchr(list, '^') != NULL;
    return is_negative ? !found : found != NULL;
}

int algorithm_asked_for(void) {
    const char *list = getenv("NCCL_ALGO");
    if (!list || !*list) return ANY_ALGORITHM;
    int ring = admits(list, "ring"), tree = admits(list, "tree");
    return ring == tree ? ANY_ALGORITHM : ring ? RING : TREE;
}
