// Marked memory is moved away in so many pieces that any table of a fixed size runs over: every byte
// follows.
#include "hazard.h"

// A sample of the pages is checked at the end: in an emulated guest each touch takes a millisecond.
enum { PIECES = 3000, SAMPLE = 7 };

int main(void) {
    // Between two pieces lies a page that stays, so that none joins its neighbour.
    size_t bytes = (size_t)PIECES * 2 * PAGE;
    char *memory = map(bytes);
    char *away = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(away != MAP_FAILED, "mmap");
    for (size_t page = 0; page < 2 * PIECES; page++) *(uint64_t *)(memory + page * PAGE) = word_at(page);
    mark(memory, bytes);
    alarm(100);
    // From the end, so that a table in order has to be moved up each time, and the other way round.
    for (size_t piece = 0; piece < PIECES; piece++) {
        size_t at = (piece % 2 ? piece : PIECES - 1 - piece) / 2 * 2 + piece % 2;
        size_t offset = at * 2 * PAGE;
        void *got = bare_mremap(memory + offset, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, away + offset);
        if (got == MAP_FAILED && errno == ENOMEM) skip("this machine allows fewer mappings");
        must(got == away + offset, "mremap of piece %zu", piece);
    }
    for (size_t page = 0; page < 2 * PIECES; page += SAMPLE) {
        char *at = (page % 2 ? memory : away) + page * PAGE;
        uint64_t found = *(volatile uint64_t *)at;
        must(found == word_at(page), "page %zu at %p is %#lx", page, (void *)at, (unsigned long)found);
    }
    return done();
}
