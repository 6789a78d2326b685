// The demo's self-checking program: one thread initialises, several each work on their own part.
//
//   eighths [MIB [THREADS [WHEN SECONDS]]]        (default: 256 MiB, 8 threads)
//
// WHEN: `pool`: the threads begin before there is data, and go over their parts for that long, or until SIGTERM;
// `roam`: the same, but each goes over the next one's part the next time.
//
// Checks every byte, then asks the kernel on which node each page lies, and prints one line of JSON:
// pages, pages that lie on the node of the thread that worked on them, pages per node. A pool does so after SIGUSR1 too, and goes on.
// Exit status: 0, or 1 when a byte was wrong.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, NODES_MAX = 64, THREADS_MAX = 1024 };

static uint64_t *data;
static size_t words_per_thread;
static size_t nr_threads;
static int node_of_thread[THREADS_MAX];
static int *node_of_page;
static unsigned long wrong[THREADS_MAX];
static pthread_barrier_t all_here;
static int is_pool, roams, stop;
static double seconds;
static volatile sig_atomic_t is_told_to_end, is_asked;

static void end_soon(int signal) {
    (void)signal;
    is_told_to_end = 1;
}

static void tell(int signal) {
    (void)signal;
    is_asked = 1;
}

static uint64_t expected(size_t word) { return word * 0x9E3779B97F4A7C15u + 1; }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void go_over(size_t me, size_t part, uint64_t round) {
    uint64_t *words = data + part * words_per_thread;
    for (size_t i = 0; i < words_per_thread; i++) {
        wrong[me] += words[i] != expected(part * words_per_thread + i) + round;
        words[i]++;
    }
}

// OS id, negative where there is no page.
static int node_of(size_t offset) {
    void *page = (char *)data + offset;
    int node = -1;
    syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0);
    return node;
}

// Notes where each page is. What was just marked may be taken out until somebody touches it, and is on no node
// then: gives whether none is.
static int all_there(void) {
    size_t nr_pages = words_per_thread * nr_threads * sizeof *data / PAGE;
    int all = 1;
    for (size_t page = 0; page < nr_pages; page++) {
        node_of_page[page] = node_of(page * PAGE);
        all &= node_of_page[page] >= 0;
    }
    return all;
}

// A pool may have something marked again at any time, so it is over when all of it was there.
static int is_over(uint64_t round, double began) {
    if (!is_pool) return round == 1;
    if (is_told_to_end && seconds > now() - began) seconds = now() - began;
    double over = now() - began - seconds;
    return over >= 0 && (all_there() || over >= 10);
}

// All others wait meanwhile, or are gone. Gives the number of wrong bytes.
static unsigned long say(void) {
    unsigned long pages = 0, right = 0, per_node[NODES_MAX] = {0}, all_wrong = 0;
    for (size_t t = 0; t < nr_threads; t++) {
        all_wrong += wrong[t];
        for (size_t at = 0; at < words_per_thread * sizeof *data / PAGE; at++, pages++) {
            int node = node_of_page[pages];
            if (node >= 0 && node < NODES_MAX) per_node[node]++;
            right += node == node_of_thread[t];
        }
    }
    printf("{\"pages\": %lu, \"right\": %lu, \"right_percent\": %.2f, \"wrong_bytes\": %lu, \"pages_per_node\": [", pages,
           right, 100.0 * (double)right / (double)pages, all_wrong);
    int nodes = NODES_MAX;
    while (nodes > 1 && !per_node[nodes - 1]) nodes--;
    for (int n = 0; n < nodes; n++) printf("%s%lu", n ? ", " : "", per_node[n]);
    printf("], \"node_of_thread\": [");
    for (size_t t = 0; t < nr_threads; t++) printf("%s%d", t ? ", " : "", node_of_thread[t]);
    printf("]}\n");
    fflush(stdout);
    return all_wrong;
}

static void *work(void *argument) {
    size_t me = (size_t)argument;
    unsigned cpu, node;
    pthread_barrier_wait(&all_here);
    double began = now();
    for (uint64_t round = 0; !stop; round++) {
        go_over(me, roams ? (me + round) % nr_threads : me, round);
        syscall(SYS_getcpu, &cpu, &node, NULL);
        node_of_thread[me] = (int)node;
        pthread_barrier_wait(&all_here);
        if (me == 0 && is_asked) {
            is_asked = 0;
            all_there();
            say();
        }
        if (me == 0) stop = is_over(round, began);
        pthread_barrier_wait(&all_here);
    }
    return NULL;
}

int main(int argc, char **argv) {
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 256) << 20;
    nr_threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 8;
    if (bytes == 0 || nr_threads == 0 || nr_threads > THREADS_MAX) return 2;
    is_pool = argc > 4 && (!strcmp(argv[3], "pool") || !strcmp(argv[3], "roam"));
    roams = is_pool && !strcmp(argv[3], "roam");
    seconds = argc > 4 ? strtod(argv[4], NULL) : 0;
    if (is_pool) signal(SIGTERM, end_soon), signal(SIGUSR1, tell);
    words_per_thread = bytes / sizeof *data / nr_threads / (PAGE / sizeof *data) * (PAGE / sizeof *data);
    size_t words = words_per_thread * nr_threads;
    data = aligned_alloc(PAGE, words * sizeof *data);
    node_of_page = malloc(words * sizeof *data / PAGE * sizeof *node_of_page);
    if (!data || !node_of_page) return 2;
    if (!is_pool)
        for (size_t i = 0; i < words; i++) data[i] = expected(i);

    pthread_t threads[THREADS_MAX];
    pthread_barrier_init(&all_here, NULL, (unsigned)nr_threads);
    for (size_t i = 1; i < nr_threads; i++)
        if ((errno = pthread_create(&threads[i], NULL, work, (void *)i))) {
            perror("pthread_create");
            return 2;
        }
    if (is_pool)
        for (size_t i = 0; i < words; i++) data[i] = expected(i);
    work((void *)0);
    for (size_t i = 1; i < nr_threads; i++) pthread_join(threads[i], NULL);

    if (!is_pool) all_there();
    return say() != 0;
}
