// Ends while its threads are there: what was kept for them must be free for others.
#include "hazard.h"

enum { THREADS = 64 };

static int started;

static void *sleep_on(void *unused) {
    __atomic_fetch_add(&started, 1, __ATOMIC_RELEASE);
    for (;;) nap(1000);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    for (int i = 0; i < THREADS; i++) must(!pthread_create(&thread, &attr, sleep_on, NULL), "thread");
    // A thread is placed by the time its own code runs, which on a busy machine may take a while.
    while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) < THREADS) nap(1);
    return 0;
}
