// pthread_cancel, pthread_exit and detached threads on marked memory; clean-up handlers run, results
// arrive, the last thread out of main ends the process with its status.
#include "hazard.h"

enum { BYTES = 2 * MIB };
static char *memory;
static int cleaned, ready;

static void clean(void *nothing) {
    (void)nothing;
    check(memory, BYTES, "in a clean-up handler");
    __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
}

static void *cancelled(void *asynchronous) {
    pthread_setcanceltype(asynchronous ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, NULL);
    pthread_cleanup_push(clean, NULL);
    __atomic_fetch_add(&ready, 1, __ATOMIC_RELEASE);
    for (;;) nap(1000);
    pthread_cleanup_pop(1);
    return NULL;
}

static void *exits(void *result) {
    pthread_cleanup_push(clean, NULL);
    check(memory, BYTES, "in a thread that exits");
    pthread_exit(result);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *last(void *nothing) {
    (void)nothing;
    nap(700);
    check(memory, BYTES, "after main's thread ended");
    puts("ok");
    fflush(stdout);
    return NULL;
}

int main(void) {
    memory = marked(BYTES);
    for (size_t round = 0; round < 50; round++) {
        pthread_t one, two, three;
        void *result;
        mark(memory, BYTES);
        must(!pthread_create(&one, NULL, cancelled, NULL), "thread");
        must(!pthread_create(&two, NULL, cancelled, (void *)1), "thread");
        must(!pthread_create(&three, NULL, exits, (void *)round), "thread");
        while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < 2 * (int)round + 2) nap(1);
        pthread_cancel(one);
        pthread_cancel(two);
        must(!pthread_join(one, &result) && result == PTHREAD_CANCELED, "cancel");
        must(!pthread_join(two, &result) && result == PTHREAD_CANCELED, "cancel");
        must(!pthread_join(three, &result) && result == (void *)round, "exit");
    }
    must(cleaned == 150, "%d clean-ups", cleaned);
    pthread_t thread;
    must(!pthread_create(&thread, NULL, last, NULL), "thread");
    pthread_detach(thread);
    mark(memory, BYTES);
    pthread_exit(NULL);
}
