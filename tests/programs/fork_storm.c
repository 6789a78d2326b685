// Forks while other threads create threads: a child that inherits a lock of the runtime's in the hands
// of a thread that it does not have would never get on.
#include "hazard.h"

static int stop;

static void *brief(void *nothing) { return nothing; }

static void *creator(void *nothing) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        pthread_t thread;
        must(!pthread_create(&thread, NULL, brief, NULL), "thread");
        pthread_join(thread, NULL);
    }
    return nothing;
}

int main(int argc, char **argv) {
    int forks = argc > 1 ? atoi(argv[1]) : 300;
    pthread_t threads[3];
    char *memory = marked(MIB);
    for (int i = 0; i < 3; i++) must(!pthread_create(&threads[i], NULL, creator, NULL), "thread");
    for (int i = 0; i < forks; i++) {
        pid_t child = fork_child();
        if (!child) {
            alarm(20);
            // A process of its own, which may have threads too.
            pthread_t thread;
            _exit(wrong(memory, MIB) >= 0 || (i % 8 == 0 && (pthread_create(&thread, NULL, brief, NULL) || pthread_join(thread, NULL))));
        }
        int status = reap(child);
        must(status == 0, "child %d ends with %d", i, status);
        if (i % 16 == 0) mark(memory, MIB);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    return done();
}
