// Many tasks for quartierd to watch: so many processes with so many threads each, of which BUSY in all compute and
// the rest sleep. Each process has a MiB of memory. They end with whoever started them. Those that compute always do, or
// for so many microseconds of each 50 ms.
//
//     crowd PROCESSES THREADS_EACH BUSY MICROSECONDS
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { STACK = 32 << 10, MEMORY = 1 << 20 };

enum { PERIOD_US = 50000 };
static long busy_us;

static long ran_us(void) {
    struct timespec ran;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    return ran.tv_sec * 1000000 + ran.tv_nsec / 1000;
}

static void *compute(void *unused) {
    struct timespec rest = {0, (PERIOD_US - busy_us) * 1000};
    for (long end = ran_us() + busy_us;;) {
        if (ran_us() < end) continue;
        if (busy_us < PERIOD_US) nanosleep(&rest, NULL);
        end = ran_us() + busy_us;
    }
    return unused;
}

static void *rest(void *unused) {
    for (;;) pause();
    return unused;
}

static void process(long threads, long busy) {
    char *memory = malloc(MEMORY);
    if (!memory) _exit(1);
    memset(memory, 1, MEMORY);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    for (long at = 1; at < threads; at++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, at < busy ? compute : rest, NULL)) _exit(1);
    }
    (busy > 0 ? compute : rest)(NULL);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    busy_us = atol(argv[4]);
    if (busy_us < 1 || busy_us > PERIOD_US) return 2;
    long processes = atol(argv[1]), threads = atol(argv[2]), busy = atol(argv[3]);
    for (long at = 0; at < processes; at++) {
        long here = busy * (at + 1) / processes - busy * at / processes;
        pid_t parent = getpid(), pid = fork();
        if (pid < 0) {
            perror("crowd: fork");
            kill(0, SIGTERM);
            return 1;
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent) process(threads, here);
            _exit(0);
        }
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    puts("here");
    fflush(stdout);
    for (;;) pause();
}
