// SIGSTOP and SIGCONT to the whole process group while memory is marked, from outside it.
#include "hazard.h"

static void *toucher(void *memory) {
    for (int round = 0; round < 20; round++) {
        mark(memory, 4 * MIB);
        check(memory, 4 * MIB, "between stops");
        nap(10);
    }
    return NULL;
}

int main(void) {
    pid_t child = fork_child();
    if (!child) {
        setpgid(0, 0);
        char *memory = marked(4 * MIB);
        pthread_t thread;
        must(!pthread_create(&thread, NULL, toucher, memory), "thread");
        toucher(memory);
        pthread_join(thread, NULL);
        _exit(0);
    }
    setpgid(child, child);
    for (int i = 0; i < 25; i++) {
        nap(7);
        kill(-child, SIGSTOP);
        nap(5);
        kill(-child, SIGCONT);
    }
    must(reap(child) == 0, "the stopped program");
    return done();
}
