// Allocates memory in ways that are known, and prints `units: UNITS` if all was right:
//
//   allocates sharing THREADS UNITS   each thread counts in a block of 16 bytes of its own, all of them allocated as one
//   allocates counter THREADS UNITS   all threads count in one word that was allocated
//   allocates lock THREADS UNITS      all threads take one lock that was allocated, for a short section
//   allocates all SEED                every function that allocates, with threads and forks at random, does what it has to
//
// UNITS are shared out among the threads; of `all` it is one unit. What is wrong is said, and the exit status is 1 then.
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define CHECK(what) ((what) ? (void)0 : wrong(#what, __LINE__))

enum { THREADS_MAX = 64, LINE_BYTES = 64, PER_UNIT = 2000, TOGETHER_PER_UNIT = 50 };

struct counter { volatile long nr, nr_units; };
struct queue { pthread_mutex_t mutex; long nr; };

static struct counter *counters;
static atomic_long *total;
static struct queue *queue;
static int nr_threads;
static long nr_units;

static void wrong(const char *what, int line) {
    fprintf(stderr, "line %d: not so: %s\n", line, what);
    _exit(1);
}

// Or a compiler, which knows these functions, would do without them.
static NOINLINE void *opaque(void *pointer) {
    __asm__ volatile("" : "+r"(pointer));
    return pointer;
}

// The first one begins a cache line.
static NOINLINE struct counter *make_counters(int nr) {
    char *all = malloc((size_t)nr * sizeof(struct counter) + LINE_BYTES);
    CHECK(all != NULL);
    all += -(uintptr_t)all % LINE_BYTES;
    memset(all, 0, (size_t)nr * sizeof(struct counter));
    return (struct counter *)all;
}

static NOINLINE atomic_long *make_total(void) {
    atomic_long *made = calloc(1, 2 * LINE_BYTES);
    CHECK(made != NULL);
    return made;
}

static NOINLINE struct queue *make_queue(void) {
    struct queue *made = calloc(1, sizeof *made);
    CHECK(made != NULL && pthread_mutex_init(&made->mutex, NULL) == 0);
    return made;
}

// Nothing but arithmetic.
static NOINLINE long compute(long rounds) {
    unsigned long x = 88172645463325252u;
    for (long i = 0; i < rounds; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        __asm__ volatile("" : "+r"(x)); // Or the compiler would do it once for all units.
    }
    return x == 0;
}

static NOINLINE void count_own(struct counter *own) {
    for (int i = 0; i < PER_UNIT; i++) own->nr++;
    own->nr_units++;
}

static NOINLINE void count_together(atomic_long *of_all) {
    for (int i = 0; i < TOGETHER_PER_UNIT; i++) atomic_fetch_add(of_all, 1);
}

static NOINLINE void add_to_queue(struct queue *of_all) {
    pthread_mutex_lock(&of_all->mutex);
    of_all->nr += 1 + compute(200);
    pthread_mutex_unlock(&of_all->mutex);
}

static void *share(void *argument) {
    long me = (long)argument;
    for (long i = 0; i < nr_units / nr_threads; i++) count_own(&counters[me]);
    return NULL;
}

static void *count(void *argument) {
    (void)argument;
    for (long i = 0; i < nr_units / nr_threads; i++) count_together(total);
    return NULL;
}

static void *queue_up(void *argument) {
    (void)argument;
    for (long i = 0; i < nr_units / nr_threads; i++) {
        CHECK(compute(40) == 0);
        add_to_queue(queue);
    }
    return NULL;
}

static void in_threads(void *(*work)(void *), int nr) {
    pthread_t threads[THREADS_MAX];
    for (long i = 0; i < nr; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < nr; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

// Blocks that are full of their number.
enum { BLOCKS = 64, STEPS = 20000, LARGE_BYTES = 300000 };

static unsigned long next(unsigned long *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static int is_full_of(const unsigned char *block, size_t bytes, int of) {
    return bytes == 0 || (block[0] == of && memcmp(block, block + 1, bytes - 1) == 0);
}

static size_t some_bytes(unsigned long *state) {
    return next(state) % (next(state) % 16 == 0 ? LARGE_BYTES : 500) + 1;
}

static void storm(unsigned long state, int nr_steps) {
    unsigned char *blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    void *made;
    for (int i = 0; i < nr_steps; i++) {
        int at = (int)(next(&state) % BLOCKS);
        CHECK(is_full_of(blocks[at], sizes[at], at));
        size_t bytes = some_bytes(&state), kept = sizes[at] < bytes ? sizes[at] : bytes;
        errno = 77;
        switch (next(&state) % 4) {
        case 0:
            free(blocks[at]);
            blocks[at] = NULL, sizes[at] = 0;
            continue;
        case 1:
            free(blocks[at]);
            blocks[at] = calloc(1, bytes);
            CHECK(blocks[at] != NULL && is_full_of(blocks[at], bytes, 0));
            break;
        case 2:
            free(blocks[at]);
            made = NULL;
            CHECK(posix_memalign(&made, 256, bytes) == 0 && (uintptr_t)made % 256 == 0);
            blocks[at] = made;
            break;
        default:
            blocks[at] = realloc(blocks[at], bytes);
            CHECK(blocks[at] != NULL && is_full_of(blocks[at], kept, at));
        }
        CHECK(errno == 77);
        memset(blocks[at], at, bytes);
        sizes[at] = bytes;
    }
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
}

static unsigned long seed;

static void *storm_of(void *argument) {
    storm(seed * 31 + (unsigned long)argument + 1, STEPS);
    return NULL;
}

// A child has what its parent had, and allocates by itself.
static void *fork_often(void *argument) {
    unsigned long state = seed * 37 + (unsigned long)argument + 1;
    for (int i = 0; i < 30; i++) {
        char *kept = malloc(1000);
        CHECK(kept != NULL);
        memset(kept, i, 1000);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(is_full_of((unsigned char *)kept, 1000, i));
            storm(next(&state) | 1, 200);
            _exit(0);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        free(kept);
    }
    return NULL;
}

static void *storm_or_fork(void *argument) {
    return (long)argument % 2 ? fork_often(argument) : storm_of(argument);
}

static void each_function(void) {
    volatile size_t too_much = SIZE_MAX / 2, half = SIZE_MAX / 2 + 2;
    errno = 0;
    CHECK(opaque(malloc(too_much)) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(opaque(calloc(half, 2)) == NULL && errno == ENOMEM);
    unsigned char *block = malloc(100);
    CHECK(block != NULL && malloc_usable_size(block) >= 100);
    memset(block, 5, 100);
    unsigned char *volatile same = block;
    errno = 0;
    CHECK(opaque(realloc(block, too_much)) == NULL && errno == ENOMEM && is_full_of(same, 100, 5));
    block = realloc(same, 100000);
    CHECK(block != NULL && is_full_of(block, 100, 5));
    free(block);
    void *none = &none;
    errno = 77;
    CHECK(posix_memalign(&none, 24, 8) == EINVAL && posix_memalign(&none, 4, 8) == EINVAL && none == &none);
    CHECK(posix_memalign(&none, 64, too_much) == ENOMEM && none == &none);
    for (size_t alignment = 16; alignment <= 65536; alignment *= 2) {
        void *aligned[3] = {aligned_alloc(alignment, 2 * alignment), memalign(alignment, 10), NULL};
        CHECK(posix_memalign(&aligned[2], alignment, 100) == 0);
        for (int i = 0; i < 3; i++) {
            CHECK(aligned[i] != NULL && (uintptr_t)aligned[i] % alignment == 0);
            free(aligned[i]);
        }
    }
    free(opaque(malloc(0)));
    free(NULL);
}

int main(int argc, char **argv) {
    int is_untroubled = errno == 0;
    if (argc == 3 && !strcmp(argv[1], "all")) {
        CHECK(is_untroubled);
        seed = strtoul(argv[2], NULL, 10);
        each_function();
        in_threads(storm_or_fork, 4);
        printf("seed %lu\nunits: 1\n", seed);
        return 0;
    }
    if (argc != 4) return fprintf(stderr, "usage: allocates sharing|counter|lock THREADS UNITS, allocates all SEED\n"), 2;
    nr_threads = atoi(argv[2]);
    nr_units = atol(argv[3]);
    if (nr_threads < 1 || nr_threads > THREADS_MAX) return 2;
    long nr_each = nr_units / nr_threads;
    if (!strcmp(argv[1], "sharing")) {
        counters = make_counters(nr_threads);
        in_threads(share, nr_threads);
        for (int i = 0; i < nr_threads; i++) CHECK(counters[i].nr == nr_each * PER_UNIT && counters[i].nr_units == nr_each);
    } else if (!strcmp(argv[1], "counter")) {
        total = make_total();
        in_threads(count, nr_threads);
        CHECK(atomic_load(total) == nr_each * nr_threads * TOGETHER_PER_UNIT);
    } else if (!strcmp(argv[1], "lock")) {
        queue = make_queue();
        in_threads(queue_up, nr_threads);
        CHECK(queue->nr == nr_each * nr_threads);
    } else {
        return 2;
    }
    printf("units: %ld\n", nr_units);
    return 0;
}
