// close_range(3, ~0) at the start and while memory is marked, then a daemon with no descriptor.
#include "hazard.h"

static void *touch(void *memory) {
    check(memory, 4 * MIB, "in a thread");
    return NULL;
}

static void in_threads(char *memory, const char *when) {
    pthread_t thread;
    must(!pthread_create(&thread, NULL, touch, memory), "thread");
    pthread_join(thread, NULL);
    check(memory, 4 * MIB, when);
}

int main(void) {
    syscall(SYS_close_range, 3u, ~0u, 0u);
    char *memory = marked(4 * MIB);
    in_threads(memory, "after the first");
    mark(memory, 4 * MIB);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    in_threads(memory, "after the second");
    mark(memory, 4 * MIB);
    int report[2];
    must(!pipe(report), "pipe");
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            // All but the report; the daemon marks and reads.
            for (int fd = 0; fd < 1024; fd++)
                if (fd != report[1]) close(fd);
            mark(memory, 4 * MIB);
            char well = wrong(memory, 4 * MIB) < 0;
            pthread_t thread;
            well &= !pthread_create(&thread, NULL, touch, memory);
            pthread_join(thread, NULL);
            if (write(report[1], &well, 1) != 1) _exit(1);
            nap(100);
            _exit(0);
        }
        _exit(0);
    }
    close(report[1]);
    char well = 0;
    must(read(report[0], &well, 1) == 1 && well, "the daemon");
    while (wait(NULL) > 0) {}
    return done();
}
