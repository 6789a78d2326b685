// Threads unmap and map their own parts of a large area anew, and fill them, while others mark it all: what
// was filled is there, whether the helper had seen the old mapping or the new one.
#include "hazard.h"

enum { THREADS = 4, PARTS = 8, PART = 256 * 1024 };

static char *area;
static int stop, rounds;

static void *mapper(void *argument) {
    char *own = area + (size_t)argument * PARTS * PART;
    for (int round = 0; round < rounds; round++) {
        char *part = own + (size_t)(round % PARTS) * PART;
        must(!munmap(part, PART), "munmap");
        if (round % 3 == 0) sched_yield();
        char *again = mmap(part, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        must(again == part, "mmap");
        fill(part, PART);
        check(part, PART, "just filled");
        check(own + (size_t)((round + PARTS / 2) % PARTS) * PART, PART, "filled before");
    }
    return NULL;
}

static void *marker(void *nothing) {
    (void)nothing;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) mark(area, (size_t)THREADS * PARTS * PART);
    return NULL;
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atoi(argv[1]) : 400;
    pthread_t mappers[THREADS], markers[2];
    area = map((size_t)THREADS * PARTS * PART);
    for (size_t i = 0; i < THREADS * PARTS; i++) fill(area + i * PART, PART);
    alarm(100);
    for (int i = 0; i < 2; i++) must(!pthread_create(&markers[i], NULL, marker, NULL), "thread");
    for (size_t i = 0; i < THREADS; i++) must(!pthread_create(&mappers[i], NULL, mapper, (void *)i), "thread");
    for (int i = 0; i < THREADS; i++) pthread_join(mappers[i], NULL);
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(markers[i], NULL);
    return done();
}
