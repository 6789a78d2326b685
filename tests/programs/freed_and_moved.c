// Threads free memory and grow others' into its place at the same moment, past the C library: what moved keeps
// every byte, what is new reads as zero. Once nothing is marked any more there is nothing to lose, so it begins again, in
// a process of its own.
#include "hazard.h"

enum { THREADS = 8, PAGES_MIN = 16, PAGES_MORE = 32, GROWN_TIMES = 12, ROUNDS = 4 };

static int nr_moved;

static char *grow(char *from, size_t pages, size_t pages_new) {
    char *to = bare_mremap(from, pages * PAGE, pages_new * PAGE, MREMAP_MAYMOVE, NULL);
    // While all is given back, one mapping may be cut into several for a moment.
    must(to != MAP_FAILED || errno == EFAULT, "mremap");
    return to == MAP_FAILED ? NULL : to;
}

static void check_grown(char *at, size_t pages, size_t pages_new, size_t seed) {
    for (size_t page = 0; page < pages_new; page++) {
        uint64_t found = *(volatile uint64_t *)(at + page * PAGE), due = page < pages ? word_at(seed + page) : 0;
        must(found == due, "grown: page %zu of %zu (%zu) at %p is %#lx, not %#lx", page, pages, pages_new, (void *)at,
             (unsigned long)found, (unsigned long)due);
    }
}

static void *work(void *argument) {
    unsigned random = (unsigned)(size_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        size_t pages = PAGES_MIN + (size_t)rand_r(&random) % PAGES_MORE, seed = (size_t)rand_r(&random);
        char *at = map(pages * PAGE);
        for (size_t page = 0; page < pages; page++) *(uint64_t *)(at + page * PAGE) = word_at(seed + page);
        mark(at, pages * PAGE);
        size_t grown = pages;
        char *moved = at;
        for (int times = 0; times < GROWN_TIMES; times++) {
            char *from = moved;
            size_t more = 1 + (size_t)rand_r(&random) % 8;
            char *to = grow(from, grown, grown + more);
            if (!to) continue;
            moved = to;
            grown += more;
            __atomic_fetch_add(&nr_moved, moved != from, __ATOMIC_RELAXED);
        }
        // Some stays marked while it is freed.
        if (round % 3) check_grown(moved, pages, grown, seed);
        must(!bare_call(SYS_munmap, (long)moved, (long)(grown * PAGE), 0, 0, 0), "munmap");
    }
    return NULL;
}

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 6;
    pthread_t threads[THREADS];
    alarm(100);
    for (size_t i = 0; i < THREADS; i++) {
        void *seed = (void *)((size_t)times * THREADS + i + 1);
        must(!pthread_create(&threads[i], NULL, work, seed), "thread");
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    must(nr_moved > 0, "nothing was moved");
    if (times <= 1) return done();
    char left[12];
    snprintf(left, sizeof left, "%d", times - 1);
    execl("/proc/self/exe", argv[0], left, NULL);
    fail("exec");
}
