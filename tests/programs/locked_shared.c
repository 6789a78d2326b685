// Locked, shared, copied-on-write, file-backed, growing and wiped-on-fork memory under marks.
#include "hazard.h"

enum { BYTES = 2 * MIB };

static void again(char *memory, const char *when) {
    mark(memory, BYTES);
    check(memory, BYTES, when);
}

int main(void) {
    int both = PROT_READ | PROT_WRITE;
    char *locked = marked(BYTES);
    mlock(locked, BYTES);
    again(locked, "locked");
    munlock(locked, BYTES);
    again(locked, "unlocked");
    char *shared = mmap(NULL, BYTES, both, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fill(shared, BYTES);
    again(shared, "shared");
    int file = memfd_create("locked_shared", 0);
    must(file >= 0 && !ftruncate(file, BYTES), "file");
    char *copied = mmap(NULL, BYTES, both, MAP_PRIVATE, file, 0);
    fill(copied, BYTES);
    again(copied, "private file");
    char *heap = sbrk(BYTES);
    fill(heap, BYTES);
    again(heap, "break");
    must(!brk(heap + BYTES / 2), "brk");
    mark(heap, BYTES / 2);
    must(sbrk(BYTES / 2) == heap + BYTES / 2, "sbrk");
    check(heap, BYTES / 2, "break shrunk and grown");
    for (char *at = heap + BYTES / 2; at < heap + BYTES; at++) must(!*at, "the break's new half");
    char *wiped = marked(BYTES), *gone = marked(BYTES);
    must(!madvise(wiped, BYTES, MADV_WIPEONFORK) && !madvise(gone, BYTES, MADV_DONTFORK), "advice");
    mark(wiped, BYTES);
    pid_t child = fork_child();
    if (!child) {
        for (size_t i = 0; i < BYTES; i += 8) must(!*(uint64_t *)(wiped + i), "not wiped in the child");
        unsigned char resident;
        must(mincore(gone, PAGE, &resident) == -1, "there in the child");
        // What was shared with the parent until now becomes the child's own.
        mark(locked, BYTES);
        check(locked, BYTES, "in the child");
        memset(locked, 1, BYTES);
        _exit(0);
    }
    mark(locked, BYTES);
    must(reap(child) == 0, "child");
    check(locked, BYTES, "after the child wrote its copy");
    check(wiped, BYTES, "wiped on fork, in the parent");
    check(gone, BYTES, "not forked, in the parent");
    return done();
}
