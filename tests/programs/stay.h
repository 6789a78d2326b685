// Threads that stay, each on a CPU of its own: the kernel may wake two on one, or leave all of a short run's on one node. To be
// included before anything else.
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>

static cpu_set_t allowed;

// Before any thread stays. Not zero: it is not known.
static inline int look_what_is_allowed(void) {
    return sched_getaffinity(0, sizeof allowed, &allowed);
}

// On one of the CPUs that are allowed, by its place among them.
static inline void stay_on(long nr) {
    cpu_set_t own;
    CPU_ZERO(&own);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && nr-- == 0) CPU_SET(cpu, &own);
    if (sched_setaffinity(0, sizeof own, &own)) exit(1);
}
