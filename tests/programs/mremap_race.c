// Threads move and replace their own memory while others mark it all: every byte stays where the
// program has it, and no touch hangs.
#include "hazard.h"

enum { MOVERS = 4, PLACES = 3, PAGES = 256 };

static char *places[MOVERS][PLACES];
static int stop, rounds, past_the_library, nr_marked;

static void *move_there(void *from, size_t bytes, void *to) {
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    return past_the_library ? bare_mremap(from, bytes, bytes, flags, to) : mremap(from, bytes, bytes, flags, to);
}

static void write_some(char *at) {
    for (size_t page = 0; page < PAGES; page += 2) *(uint64_t *)(at + page * PAGE) = word_at(page);
}

static void check_some(char *at, const char *when, int round) {
    for (size_t page = 0; page < PAGES; page++) {
        uint64_t found = *(volatile uint64_t *)(at + page * PAGE);
        must(found == (page % 2 ? 0 : word_at(page)), "%s %d: page %zu of %p is %#lx", when, round, page, (void *)at,
             (unsigned long)found);
    }
}

static void *mover(void *argument) {
    char **place = places[(size_t)argument];
    size_t bytes = PAGES * PAGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    write_some(place[0]);
    for (int round = 0; round < rounds; round++) {
        char *from = place[round % PLACES], *to = place[(round + 1) % PLACES];
        void *got = move_there(from, bytes, to);
        must(got == to || errno == EFAULT, "mremap");
        // More than one mapping: nothing but the target is gone. Begin again there.
        must(mmap(got == to ? from : to, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED, "mmap");
        if (got != to) {
            must(mmap(to, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED, "mmap");
            write_some(to);
        }
        check_some(to, got == to ? "after move" : "instead of move", round);
    }
    return NULL;
}

static void *marker(void *argument) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        int marked = !mark(argument, (size_t)MOVERS * PLACES * PAGES * PAGE);
        __atomic_fetch_add(&nr_marked, marked, __ATOMIC_RELAXED);
    }
    return NULL;
}

int main(int argc, char **argv) {
    past_the_library = argc > 1 && !strcmp(argv[1], "--past-the-library");
    rounds = argc > 1 + past_the_library ? atoi(argv[1 + past_the_library]) : 60;
    pthread_t movers[MOVERS], markers[2];
    size_t each = PAGES * PAGE;
    char *all = map(MOVERS * PLACES * each);
    for (int m = 0; m < MOVERS; m++)
        for (int p = 0; p < PLACES; p++) places[m][p] = all + (size_t)(m * PLACES + p) * each;
    int can_mark = !mark(all, PAGE);
    alarm(100);
    for (int i = 0; i < 2; i++) must(!pthread_create(&markers[i], NULL, marker, all), "thread");
    for (size_t i = 0; i < MOVERS; i++) must(!pthread_create(&movers[i], NULL, mover, (void *)i), "thread");
    for (int i = 0; i < MOVERS; i++) pthread_join(movers[i], NULL);
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(markers[i], NULL);
    must(!can_mark || nr_marked > 0, "nothing was marked meanwhile");
    return done();
}
