/* Configurations of communicators, as NCCL 2.23 has them. Nothing in them changes what MPI does; values that NCCL refuses
 * are refused. */
#include "adapter.h"
#include <limits.h>

enum { MAGIC = 0xcafebeef, UNSET = INT_MIN };
struct config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_size, least_ctas, most_ctas;
    const char *net;
    int share;
};

static int within(int value, int least, int most) { return value == UNSET || (value >= least && value <= most); }

int check_config(const void *data) {
    const struct config *config = data;
    if (!config) return SUCCESS;
    if (config->magic != (unsigned)MAGIC || config->size < offsetof(struct config, blocking))
        return say(INVALID_ARGUMENT, "no configuration");
    if (config->size < sizeof *config) return SUCCESS;
    int right = within(config->blocking, 0, 1) && within(config->cga_size, 0, 8) && within(config->share, 0, 1) &&
                within(config->least_ctas, 1, INT_MAX) && within(config->most_ctas, 1, INT_MAX);
    if (config->least_ctas != UNSET && config->most_ctas != UNSET) right &= config->least_ctas <= config->most_ctas;
    return right ? SUCCESS : say(INVALID_ARGUMENT, "a value of the configuration is out of range");
}
