// Do threads wait for a CPU while others are idle? Each worker only computes, so a worker that waits was held
// where there is no CPU for it.
//
//   busy_nodes crew THREADS SETTLE_S SECONDS      the first thread sleeps, the others work
//   busy_nodes sleepers THREADS SETTLE_S SECONDS  so do three more, which were there before the workers
//   busy_nodes crowd THREADS SETTLE_S SECONDS     two processes come, each onto a CPU of the first worker's node,
//                                                 where they stay
//
// Prints, of the SECONDS after SETTLE_S: {"waited_percent":[…],"cpu":[…]} by worker.
#include "hazard.h"
#include <stdatomic.h>

enum { THREADS_MAX = 64, SLEEPERS = 3 };

static atomic_int phase; // 0: settling, 1: watched, 2: over
static int nr_threads;
static double waited_percent[THREADS_MAX];
static atomic_int cpu_of[THREADS_MAX];

// Time on a CPU, and waiting for one, in nanoseconds.
static void times(long long *ran, long long *waited) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", (int)syscall(SYS_gettid));
    FILE *file = fopen(path, "r");
    must(file && fscanf(file, "%lld %lld", ran, waited) == 2, "%s", path);
    fclose(file);
}

static void compute(void) {
    for (volatile int i = 0; i < 100000; i++) {}
}

static void *work(void *argument) {
    long me = (long)argument;
    long long ran, waited, ran_then, waited_then;
    while (phase == 0) {
        compute();
        cpu_of[me] = sched_getcpu();
    }
    times(&ran_then, &waited_then);
    while (phase == 1) {
        compute();
        cpu_of[me] = sched_getcpu();
    }
    times(&ran, &waited);
    ran -= ran_then, waited -= waited_then;
    // One that got no CPU at all meanwhile is not accounted for until it does.
    waited_percent[me] = ran + waited ? 100.0 * (double)waited / (double)(ran + waited) : 100;
    return NULL;
}

static void *rest(void *unused) {
    while (phase < 2) nap(10);
    return unused;
}

// Occupies one CPU, on purpose: nobody is to move it.
static pid_t occupy(int cpu) {
    pid_t child = fork_child();
    if (child == 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
        for (;;) compute();
    }
    return child;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: busy_nodes crew|sleepers|crowd THREADS SETTLE_S SECONDS\n"), 2;
    nr_threads = atoi(argv[2]);
    int settle_s = atoi(argv[3]), seconds = atoi(argv[4]);
    must(nr_threads > 0 && nr_threads <= THREADS_MAX, "threads");
    pthread_t thread[THREADS_MAX], sleeper;
    for (int i = 0; i < SLEEPERS && !strcmp(argv[1], "sleepers"); i++)
        must(!pthread_create(&sleeper, NULL, rest, NULL), "thread");
    for (long i = 0; i < nr_threads; i++) must(!pthread_create(&thread[i], NULL, work, (void *)i), "thread");
    pid_t crowd[2] = {0, 0};
    if (!strcmp(argv[1], "crowd")) {
        nap(500);
        // CPUs of a node are neighbours here.
        int cpu = cpu_of[0] & ~1;
        for (int i = 0; i < 2; i++) crowd[i] = occupy(cpu + i);
    }
    nap(1000L * settle_s);
    phase = 1;
    nap(1000L * seconds);
    phase = 2;
    for (int i = 0; i < nr_threads; i++) must(!pthread_join(thread[i], NULL), "join");
    for (int i = 0; i < 2; i++) {
        if (crowd[i]) kill(crowd[i], SIGKILL), reap(crowd[i]);
    }
    printf("{\"waited_percent\":[");
    for (int i = 0; i < nr_threads; i++) printf("%s%.1f", i ? "," : "", waited_percent[i]);
    printf("],\"cpu\":[");
    for (int i = 0; i < nr_threads; i++) printf("%s%d", i ? "," : "", cpu_of[i]);
    printf("]}\n");
    return 0;
}
