// A program whose threads wait for memory, for a reason that is known (what is to be found of each: stops_scaling.json):
//
//   waits_for_memory REASON THREADS UNITS
//
// REASON: first-touch or bandwidth (the first thread fills what all read, so that all of it is on its node: where the others
// are elsewhere it is far, and where they are on that node they ask its memory for more than it gives), or cached (each reads
// few pages, which stay in its CPU's caches). A unit is a page that is read; prints `units: UNITS`. Sizes are those of the
// small machine in waits_for_memory.toml.
#include "stay.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))

enum { THREADS_MAX = 64, PAGE_BYTES = 4096, LINE_BYTES = 64, PAGES = 1024, PAGES_CACHED = 4 };

static volatile char table[PAGES][PAGE_BYTES] __attribute__((aligned(PAGE_BYTES)));
static pthread_barrier_t barrier;
static const char *reason;
static int nr_threads;
static long nr_units;

static NOINLINE void fill_pages(void) {
    for (long page = 0; page < PAGES; page++)
        for (long at = 0; at < PAGE_BYTES; at += LINE_BYTES) table[page][at] = 1;
}

static NOINLINE long sum_page(long page) {
    long sum = 0;
    for (long at = 0; at < PAGE_BYTES; at += LINE_BYTES) sum += table[page][at];
    return sum;
}

static void *work(void *argument) {
    long me = (long)argument, sum = 0;
    long part = PAGES / nr_threads, pages = strcmp(reason, "cached") ? part : PAGES_CACHED;
    stay_on(me);
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < nr_units / nr_threads; i++) sum += sum_page(me * part + i % pages);
    return (void *)sum;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: waits_for_memory REASON THREADS UNITS\n"), 2;
    reason = argv[1];
    nr_threads = atoi(argv[2]);
    nr_units = atol(argv[3]);
    if (nr_threads < 1 || nr_threads > THREADS_MAX) return 2;
    if (look_what_is_allowed()) return 1;
    stay_on(0);
    fill_pages(); // Before there are others: what the kernel does for it is not theirs.
    pthread_t threads[THREADS_MAX];
    pthread_barrier_init(&barrier, NULL, (unsigned)nr_threads);
    for (long i = 0; i < nr_threads; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    for (int i = 0; i < nr_threads; i++) pthread_join(threads[i], NULL);
    printf("units: %ld\n", nr_units / nr_threads * nr_threads);
    return 0;
}
