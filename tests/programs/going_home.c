// Marks again and again, as often just when a helper that stays for a millisecond (`--helper-idle-ms 1`)
// goes home: every mark comes to an end, and every byte stays.
#include "hazard.h"

enum { BYTES = 64 * 1024 };

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1500;
    char *memory = map(BYTES);
    fill(memory, BYTES);
    alarm(60);
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < rounds; round++) {
        mark(memory, BYTES);
        check(memory, BYTES, "after a mark");
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        // The helper notices the last touch at some moment, then waits a millisecond: from 0.9 to 1.4.
        struct timespec now, end;
        clock_gettime(CLOCK_MONOTONIC, &end);
        long nanoseconds = end.tv_nsec + 900000 + (long)(random % 500000);
        end.tv_sec += nanoseconds / 1000000000, end.tv_nsec = nanoseconds % 1000000000;
        do clock_gettime(CLOCK_MONOTONIC, &now);
        while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
    }
    return done();
}
