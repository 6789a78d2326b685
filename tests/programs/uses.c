// Has so many MiB, and uses some of them, over and over, for so many seconds.
//
//     uses MIB_OF_ALL MIB_USED SECONDS
//
// An emulated CPU keeps as many translations as it needs, and nobody sees which of them it uses: after each round they are
// gone, as those of a real CPU would be.
#include "hazard.h"

int main(int argc, char **argv) {
    must(argc == 4, "uses MIB_OF_ALL MIB_USED SECONDS");
    size_t all = strtoul(argv[1], NULL, 10) * MIB, used = strtoul(argv[2], NULL, 10) * MIB;
    double end = seconds_now() + strtod(argv[3], NULL);
    char *data = map(all);
    memset(data, 1, all);
    unsigned long sum = 0;
    while (seconds_now() < end) {
        for (size_t at = 0; at < used; at += 64) sum += data[at]++;
        must(mprotect(data, used, PROT_READ) == 0, "mprotect");
        must(mprotect(data, used, PROT_READ | PROT_WRITE) == 0, "mprotect");
    }
    return sum == 0;
}
