// Ends while its threads are there: what was kept for them must be free for others.
#include "hazard.h"

enum { THREADS = 64 };

static void *sleep_on(void *unused) {
    for (;;) nap(1000);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    for (int i = 0; i < THREADS; i++) must(!pthread_create(&thread, &attr, sleep_on, NULL), "thread");
    nap(5);
    return 0;
}
