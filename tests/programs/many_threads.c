// N threads one after another (first argument) and M at once (second), with a big static TLS block:
// all run, all see their data.
#include "hazard.h"

static __thread char big[256 * 1024] = {1};
static char *memory;
static pthread_barrier_t here;

static void *brief(void *nothing) {
    must(big[0] == 1 && !big[sizeof big - 1], "TLS");
    big[sizeof big - 1] = 7;
    must(((volatile uint64_t *)memory)[512] == word_at(512), "data");
    return nothing;
}

static void *together(void *nothing) {
    brief(NULL);
    pthread_barrier_wait(&here);
    return nothing;
}

int main(int argc, char **argv) {
    int one_by_one = argc > 1 ? atoi(argv[1]) : 10000, at_once = argc > 2 ? atoi(argv[2]) : 1000;
    memory = marked(4 * MIB);
    for (int i = 0; i < one_by_one; i++) {
        pthread_t thread;
        must(!(errno = pthread_create(&thread, NULL, brief, NULL)), "thread %d", i);
        pthread_join(thread, NULL);
    }
    pthread_t *threads = malloc((size_t)at_once * sizeof *threads);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 512 * 1024);
    pthread_barrier_init(&here, NULL, (unsigned)at_once + 1);
    for (int i = 0; i < at_once; i++) {
        int status = pthread_create(&threads[i], &attr, together, NULL);
        if (status == EAGAIN) skip("this machine does not take %d threads", at_once);
        must(!status, "thread %d: %d", i, status);
    }
    mark(memory, 4 * MIB);
    pthread_barrier_wait(&here);
    for (int i = 0; i < at_once; i++) pthread_join(threads[i], NULL);
    check(memory, 4 * MIB, "at the end");
    return done();
}
