// Many tasks for quartierd to watch: so many processes with so many threads each, of which BUSY in all compute and
// the rest sleep. Each process has a MiB of memory. They end with whoever started them.
//
//     crowd PROCESSES THREADS_EACH BUSY
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { STACK = 32 << 10, MEMORY = 1 << 20 };

static void *compute(void *unused) {
    for (volatile unsigned long round = 0;; round++) {
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
    if (argc != 4) return 2;
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
