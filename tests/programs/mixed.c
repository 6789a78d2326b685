// Data whose touches are mixed: one thread fills it, then several either read all of it at random, or each change
// parts of 32 KiB that alternate.
//
//     mixed MIB THREADS read|parts SECONDS
//
// Checks every byte, then asks the kernel where each page lies, and prints one line of JSON: pages, those that lie on
// another node than the first page's filler, and those on the node of the thread whose part they are.
// Exit status: 0, or 1 when a byte was wrong.
#include "hazard.h"

enum { PART = 32 << 10, THREADS_MAX = 64 };
enum { WORDS_PER_PART = PART / sizeof(uint64_t) };

static volatile uint64_t *data;
static size_t words, nr_threads;
static int is_read;
static double seconds;
static int node_of_thread[THREADS_MAX];
static unsigned long nr_wrong[THREADS_MAX];
static uint64_t rounds[THREADS_MAX];

static void read_some(size_t me, uint64_t *random) {
    for (int i = 0; i < 100000; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        size_t at = (*random >> 20) % words;
        nr_wrong[me] += data[at] != at;
    }
}

static void change_own(size_t me) {
    for (size_t part = me; part < words / WORDS_PER_PART; part += nr_threads)
        for (size_t at = part * WORDS_PER_PART; at < (part + 1) * WORDS_PER_PART; at++) {
            nr_wrong[me] += data[at] != at + rounds[me];
            data[at]++;
        }
    rounds[me]++;
}

static void *work(void *argument) {
    size_t me = (size_t)argument;
    uint64_t random = me + 1;
    for (double began = seconds_now(); seconds_now() - began < seconds;) is_read ? read_some(me, &random) : change_own(me);
    node_of_thread[me] = own_node();
    return NULL;
}

// OS id, negative where there is no page.
static int node_of(size_t word) {
    void *page = (void *)(data + word);
    int node = -1;
    syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0);
    return node;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    words = (strtoul(argv[1], NULL, 10) << 20) / sizeof *data;
    nr_threads = strtoul(argv[2], NULL, 10);
    is_read = !strcmp(argv[3], "read");
    seconds = strtod(argv[4], NULL);
    // A block that lies across two parts could be right for one of them only.
    data = aligned_alloc(PART, words * sizeof *data);
    if (!data || !words || !nr_threads || nr_threads > THREADS_MAX) return 2;
    for (size_t at = 0; at < words; at++) data[at] = at;
    int filled_on = own_node();

    pthread_t threads[THREADS_MAX];
    for (size_t i = 1; i < nr_threads; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 2;
    work(NULL);
    for (size_t i = 1; i < nr_threads; i++) pthread_join(threads[i], NULL);

    unsigned long pages = 0, away = 0, right = 0, all_wrong = 0;
    for (size_t at = 0; at < words; at += PAGE / sizeof *data, pages++) {
        size_t owner = at / WORDS_PER_PART % nr_threads;
        nr_wrong[owner] += data[at] != at + (is_read ? 0 : rounds[owner]);
        int node = node_of(at);
        away += node != filled_on;
        right += node == node_of_thread[owner];
    }
    for (size_t t = 0; t < nr_threads; t++) all_wrong += nr_wrong[t];
    printf("{\"pages\": %lu, \"away\": %lu, \"right_percent\": %.2f, \"wrong_bytes\": %lu}\n", pages, away,
           100.0 * (double)right / (double)pages, all_wrong);
    return all_wrong != 0;
}
