// Begins as many processes as it can for so many seconds, one after the other, each of which writes a few pages and ends.
// Says how many.
//
//     forks SECONDS
#include "hazard.h"

int main(int argc, char **argv) {
    must(argc == 2, "forks SECONDS");
    double end = seconds_now() + strtod(argv[1], NULL);
    long nr = 0;
    for (; seconds_now() < end; nr++) {
        pid_t child = fork();
        must(child >= 0, "fork");
        if (!child) {
            memset(map(16 * PAGE), 1, 16 * PAGE);
            _exit(0);
        }
        must(waitpid(child, NULL, 0) == child, "waitpid");
    }
    printf("%ld\n", nr);
    return 0;
}
