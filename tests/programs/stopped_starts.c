// SIGSTOP to the whole process group of programs whose helper is just being started; half of them are
// killed before they may go on.
#include "hazard.h"

enum { KILLED_EACH = 2, PATIENCE_S = 8 };

static void *toucher(void *memory) {
    check(memory, MIB, "in the thread");
    return NULL;
}

static void program(void) {
    char *memory = map(MIB);
    fill(memory, MIB);
    pthread_t thread;
    must(!pthread_create(&thread, NULL, toucher, memory), "thread");
    pthread_join(thread, NULL);
    check(memory, MIB, "after the thread");
    _exit(0);
}

int main(int argc, char **argv) {
    int programs = argc > 1 ? atoi(argv[1]) : 200;
    double longest = 0;
    for (int i = 0; i < programs; i++) {
        pid_t child = fork_child();
        if (!child) {
            setpgid(0, 0);
            program();
        }
        setpgid(child, child);
        double began = seconds_now();
        // Stopped at many moments of its first milliseconds, other ones for each program.
        struct timespec later = {0, i * 499 % 100 * 1000};
        for (int stops = 0; stops < 40; stops++) {
            nanosleep(&later, NULL);
            kill(-child, SIGSTOP);
            sched_yield();
            if (stops < 30 || !(i % KILLED_EACH)) kill(-child, SIGCONT);
        }
        if (i % KILLED_EACH) kill(child, SIGKILL);
        kill(-child, SIGCONT);
        int status = reap(child);
        must(status == 0 || status == 128 + SIGKILL, "program %d: status %d", i, status);
        if (seconds_now() - began > longest) longest = seconds_now() - began;
    }
    must(longest < PATIENCE_S, "a program took %.1f s: its helper was still stopped", longest);
    return done();
}
