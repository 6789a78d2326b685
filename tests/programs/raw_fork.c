// syscall(SYS_fork), or clone(3) with `clone`, with marked memory that is closed, read-only and open: the
// child has all of it, though the kernel tells nobody of forks (that takes CAP_SYS_PTRACE).
#include "hazard.h"

enum { BYTES = 4 * MIB };

static int child_checks(void *memory) {
    mprotect(memory, BYTES, PROT_READ);
    return wrong(memory, BYTES) >= 0;
}

static pid_t fork_raw(char *memory, int by_clone) {
    if (by_clone) {
        char *stack = map(MIB);
        return clone(child_checks, stack + MIB, SIGCHLD, memory);
    }
    pid_t child = (pid_t)syscall(SYS_fork);
    if (!child) _exit(child_checks(memory));
    return child;
}

int main(int argc, char **argv) {
    size_t bytes = BYTES;
    drop_ptrace();
    char *memory = marked(bytes);
    must(!mprotect(memory + MIB, MIB, PROT_NONE), "mprotect");
    must(!mprotect(memory + 2 * MIB, MIB, PROT_READ), "mprotect");
    must(!mlock(memory + 3 * MIB, 64 * 1024), "mlock");
    pid_t child = fork_raw(memory, argc > 1 && !strcmp(argv[1], "clone"));
    must(child >= 0, "fork");
    must(reap(child) == 0, "the child's memory differs");
    must(!mprotect(memory, bytes, PROT_READ), "mprotect");
    check(memory, bytes, "in the parent");
    return done();
}
