// A program that does not scale, for a reason that is known (what is to be found of each: stops_scaling.json):
//
//   stops_scaling REASON THREADS UNITS [stay]
//
// REASON: counter (every thread counts in one variable), mutex (a short section, one lock), serial (one thread prepares
// what all work on), imbalance (one thread has four times the work), sharing (each thread has a counter of its own, all
// in one line), structs (of two variables in one line every second thread writes one, the others the other), localtime (a
// lock of the C library's own), arena (the allocator's, which all threads share), mapping (one address space that all
// change), or nothing. UNITS are shared out among the threads; prints `units: UNITS`. With `stay` each thread has a CPU of its
// own: of a short run on several nodes the kernel may leave all of them on one, which is a reason of its own.
#include "stay.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

enum { THREADS_MAX = 64 };

static atomic_long global_count;
static pthread_mutex_t total_mutex = PTHREAD_MUTEX_INITIALIZER;
static long total;
static struct { volatile long of[8]; } neighbours __attribute__((aligned(64)));
// Side by side: where a compiler puts two variables is its own affair.
__asm__(".pushsection .data\n"
        ".balign 64\n"
        ".type reads, @object\n.size reads, 32\nreads: .zero 32\n"
        ".type writes, @object\n.size writes, 32\nwrites: .zero 32\n"
        ".popsection");
struct traffic { volatile long nr, bytes; };
extern struct traffic reads __attribute__((visibility("hidden")));
extern struct traffic writes __attribute__((visibility("hidden")));
static pthread_barrier_t barrier;
static const char *reason;
static int nr_threads;
static long nr_units;
static int stays;

// Nothing but arithmetic: as fast on every CPU at once as on one.
static NOINLINE long compute(long rounds) {
    unsigned long x = 88172645463325252u;
    for (long i = 0; i < rounds; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        __asm__ volatile("" : "+r"(x)); // Or the compiler would do it once for all units.
    }
    return (long)x;
}

static NOINLINE void count_unit(void) {
    for (int i = 0; i < 50; i++) atomic_fetch_add(&global_count, 1);
}

static NOINLINE void add_to_total(long value) {
    pthread_mutex_lock(&total_mutex);
    total += value + compute(200);
    pthread_mutex_unlock(&total_mutex);
}

static NOINLINE void count_beside_others(long me) {
    for (int i = 0; i < 2000; i++) neighbours.of[me % 8]++;
}

static NOINLINE void count_traffic(struct traffic *of) {
    for (int i = 0; i < 1000; i++) of->nr++, of->bytes += 100;
}

// So large that no thread keeps them for itself.
static NOINLINE void allocate_some(void) {
    enum { SOME = 8 };
    char *all[SOME];
    for (int i = 0; i < SOME; i++) {
        all[i] = malloc(4000);
        if (!all[i]) exit(1);
        ((volatile char *)all[i])[0] = 1;
    }
    for (int i = 0; i < SOME; i++) free(all[i]);
}

static NOINLINE long tell_time(void) {
    time_t now = 1700000000;
    struct tm then;
    long sum = 0;
    for (int i = 0; i < 4; i++) sum += localtime_r(&now, &then)->tm_hour;
    return sum;
}

static NOINLINE void use_pages(void) {
    char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) exit(1);
    for (int i = 0; i < 4; i++) ((volatile char *)pages)[i * 4096] = 1;
    munmap(pages, 4 * 4096);
}

static NOINLINE long prepare_batch(long units) {
    return compute(units * 100) + 1; // So that this function is still there meanwhile.
}

static NOINLINE long do_units(long me, long units) {
    long sum = 0;
    for (long i = 0; i < units; i++) {
        sum += compute(100);
        if (!strcmp(reason, "counter")) count_unit();
        if (!strcmp(reason, "mutex")) add_to_total(i);
        if (!strcmp(reason, "localtime")) sum += tell_time();
        if (!strcmp(reason, "mapping")) use_pages();
        if (!strcmp(reason, "arena")) allocate_some();
        if (!strcmp(reason, "sharing")) count_beside_others(me);
        if (!strcmp(reason, "structs")) count_traffic((nr_threads > 1 ? me : i) % 2 ? &writes : &reads);
    }
    return sum;
}

static void *work(void *argument) {
    long me = (long)argument, sum = 0;
    if (stays) stay_on(me);
    enum { BATCHES = 20 };
    long batch = nr_units / BATCHES;
    for (int i = 0; i < BATCHES; i++) {
        if (!strcmp(reason, "serial")) {
            if (me == 0) sum += prepare_batch(batch / 2);
            pthread_barrier_wait(&barrier);
        }
        long share = batch / nr_threads;
        // Of two threads one gets 0.2 and the other 0.8 of it.
        if (!strcmp(reason, "imbalance") && nr_threads > 1) {
            long small = batch / (nr_threads + 3);
            share = me == 0 ? batch - (nr_threads - 1) * small : small;
        }
        sum += do_units(me, share);
        if (!strcmp(reason, "serial")) pthread_barrier_wait(&barrier);
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    stays = argc == 5 && !strcmp(argv[4], "stay");
    if (argc != 4 + stays) return fprintf(stderr, "usage: stops_scaling REASON THREADS UNITS [stay]\n"), 2;
    if (look_what_is_allowed()) return 1;
    reason = argv[1];
    nr_threads = atoi(argv[2]);
    nr_units = atol(argv[3]);
    if (nr_threads < 1 || nr_threads > THREADS_MAX) return 2;
    if (!strcmp(reason, "arena")) mallopt(M_ARENA_MAX, 1);
    pthread_t threads[THREADS_MAX];
    pthread_barrier_init(&barrier, NULL, (unsigned)nr_threads);
    for (long i = 0; i < nr_threads; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    for (int i = 0; i < nr_threads; i++) pthread_join(threads[i], NULL);
    printf("units: %ld\n", nr_units);
    return 0;
}
