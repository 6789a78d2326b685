// Threads come and go, and get an affinity at any moment, from themselves or from who made them: it must stay,
// however busy their CPUs are, while Quartier holds others elsewhere.
//
//   own_affinity [GENERATIONS [SEED]]
#include "hazard.h"
#include <stdatomic.h>

enum { THREADS = 12 };

static cpu_set_t allowed;
// What their creator gave the threads of a generation; empty: nothing.
static cpu_set_t given[THREADS];
static atomic_int is_given[THREADS];
static atomic_long nr_set;

// What the kernel says, which nobody answers instead.
static void kernels_affinity(cpu_set_t *set) {
    memset(set, 0, sizeof *set);
    must(bare_call(SYS_sched_getaffinity, 0, sizeof *set, (long)set, 0, 0) > 0, "sched_getaffinity");
}

static void compute(uint64_t *random, unsigned milliseconds_max) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    double until = seconds_now() + (double)(*random >> 33) / 2147483648.0 * milliseconds_max / 1000;
    while (seconds_now() < until) {}
}

static int nth_allowed(unsigned n) {
    n %= (unsigned)CPU_COUNT(&allowed);
    for (int cpu = 0;; cpu++)
        if (CPU_ISSET(cpu, &allowed) && n-- == 0) return cpu;
}

static size_t index_of(const void *argument) { return (uint64_t)argument % THREADS; }

static void *live(void *argument) {
    uint64_t random = (uint64_t)argument;
    compute(&random, 1000);
    while (!is_given[index_of(argument)]) nap(1);
    for (int looks = 0; looks < 20; looks++) {
        cpu_set_t now, expected = given[index_of(argument)];
        kernels_affinity(&now);
        must(CPU_COUNT(&expected) == 0 || CPU_EQUAL(&expected, &now), "what the creator set is gone");
        compute(&random, 5);
    }
    for (int times = 0; times < 3; times++) {
        cpu_set_t mine, now;
        CPU_ZERO(&mine);
        CPU_SET(nth_allowed((unsigned)(random >> 40)), &mine);
        int by_thread = random >> 20 & 1;
        must(!(by_thread ? pthread_setaffinity_np(pthread_self(), sizeof mine, &mine)
                         : sched_setaffinity(0, sizeof mine, &mine)), "setaffinity");
        nr_set++;
        for (int looks = 0; looks < 40; looks++) {
            kernels_affinity(&now);
            must(CPU_EQUAL(&mine, &now), "somebody set another affinity");
            compute(&random, 5);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int generations = argc > 1 ? atoi(argv[1]) : 8;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
    must(!sched_getaffinity(0, sizeof allowed, &allowed), "sched_getaffinity");
    for (int generation = 0; generation < generations; generation++) {
        pthread_t thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            uint64_t number = seed * THREADS * (uint64_t)generations + (uint64_t)(generation * THREADS + i);
            CPU_ZERO(&given[i]);
            is_given[i] = i % 2;
            must(!pthread_create(&thread[i], NULL, live, (void *)number), "thread");
            // The usual way to pin a thread.
            if (i % 2) continue;
            CPU_SET(nth_allowed((unsigned)(seed + (uint64_t)i)), &given[i]);
            CPU_SET(nth_allowed((unsigned)(seed + (uint64_t)i + 3)), &given[i]);
            must(!pthread_setaffinity_np(thread[i], sizeof given[i], &given[i]), "setaffinity");
            is_given[i] = 1;
        }
        for (int i = 0; i < THREADS; i++) must(!pthread_join(thread[i], NULL), "join");
    }
    printf("ok: %ld affinities were set, seed %llu\n", nr_set, (unsigned long long)seed);
    return 0;
}
