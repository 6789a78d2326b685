// A limit on the program's memory (`address-space`, `data`, or the machine's own, `commit`) leaves it
// little more than it has: what it has is marked, and what it may still map it can. With `in-pieces` what
// it has lies in many small pieces, each of which costs more bookkeeping than it holds.
#include "hazard.h"
#include <sys/resource.h>

enum { HAS = 48 * MIB, LEFT = 64 * MIB, TAKES = 40 * MIB };

static size_t step = HAS, piece = HAS;

static void check_all(char *memory, const char *when) {
    for (size_t at = 0; at < HAS; at += step) check(memory + at, piece, when);
}

static void *touch(void *memory) {
    check_all(memory, "in a thread");
    return NULL;
}

static void limit(int what, long used_kib) {
    rlim_t value = (rlim_t)used_kib * 1024 + LEFT;
    struct rlimit limit = {value, value};
    must(!setrlimit(what, &limit), "setrlimit");
}

// Takes what the machine still commits itself to for this program, but for LEFT.
static void take_commit(void) {
    char mode = '0';
    int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY);
    must(read(file, &mode, 1) == 1, "overcommit_memory");
    if (mode != '2') skip("the machine commits itself to more than it has");
    for (size_t bytes = 64UL << 30; bytes >= MIB; bytes /= 2) {
        void *taken = mmap(NULL, bytes + LEFT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (taken != MAP_FAILED) munmap((char *)taken + bytes, LEFT);
    }
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "address-space";
    pthread_t threads[4];
    pthread_attr_t small;
    alarm(60);
    char *memory = map(HAS);
    if (argc > 2 && !strcmp(argv[2], "in-pieces")) {
        step = 192 * 1024;
        piece = 64 * 1024;
    }
    for (size_t at = 0; at < HAS; at += step) fill(memory + at, piece);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, MIB);
    if (!strcmp(how, "data")) limit(RLIMIT_DATA, status_line("VmData"));
    else if (!strcmp(how, "commit")) take_commit();
    else limit(RLIMIT_AS, status_line("VmSize"));
    mark(memory, HAS);
    // At once: what is marked is out of place now.
    munmap(map(TAKES), TAKES);
    for (int i = 0; i < 4; i++) must(!pthread_create(&threads[i], &small, touch, memory), "thread");
    munmap(map(TAKES), TAKES);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    check_all(memory, "at the end");
    return done();
}
