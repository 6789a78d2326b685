// Marked memory is unmapped before anybody has touched it, and other data is mapped in its place: that
// goes to the threads that use it. Also by halves, which leaves a part of what was marked.
#include "hazard.h"

enum { BYTES = 8 * MIB, THREADS = 8, PAGES = BYTES / PAGE };

static int best_percent;
static pthread_barrier_t all_are_there;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

// How many percent of the memory are on the node of the calling thread.
static int percent_here(char *memory) {
    static void *pages[PAGES];
    static int status[PAGES];
    unsigned node = 0;
    int here = 0;
    for (int i = 0; i < PAGES; i++) pages[i] = memory + (size_t)i * PAGE;
    must(!syscall(SYS_getcpu, NULL, &node, NULL), "getcpu");
    must(!syscall(SYS_move_pages, 0, (long)PAGES, pages, NULL, status, 0), "move_pages");
    for (int i = 0; i < PAGES; i++) here += status[i] == (int)node;
    return here * 100 / PAGES;
}

static void *use(void *memory) {
    pthread_barrier_wait(&all_are_there);
    pthread_mutex_lock(&turn);
    int before = percent_here(memory);
    must(!mark(memory, BYTES), "mark");
    check(memory, BYTES, "in a thread");
    // A thread that finds the data on its own node shows nothing.
    if (before < 50 && percent_here(memory) > best_percent) best_percent = percent_here(memory);
    pthread_mutex_unlock(&turn);
    return NULL;
}

static void map_again(char *at, size_t bytes) {
    must(!munmap(at, bytes), "munmap");
    char *again = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    must(again == at, "mmap");
}

int main(void) {
    for (int half = 0; half < 2; half++) {
        char *memory = map(BYTES);
        fill(memory, BYTES);
        if (mark(memory, BYTES)) skip("nothing can be marked");
        map_again(memory + half * BYTES / 2, BYTES - (size_t)half * BYTES / 2);
        fill(memory, BYTES);
        best_percent = -1;
        pthread_t threads[THREADS];
        pthread_barrier_init(&all_are_there, NULL, THREADS);
        for (int i = 0; i < THREADS; i++) must(!pthread_create(&threads[i], NULL, use, memory), "thread");
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        if (best_percent < 0) skip("no thread was on another node than the data");
        must(best_percent >= 90, "%d %% went to the thread that used it (half: %d)", best_percent, half);
        munmap(memory, BYTES);
    }
    return done();
}
