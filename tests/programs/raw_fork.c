// syscall(SYS_fork) with marked memory that is closed, read-only and open: the child has all of it.
#include "hazard.h"

static int child_checks(char *memory, size_t bytes) {
    mprotect(memory, bytes, PROT_READ);
    return wrong(memory, bytes) >= 0;
}

int main(void) {
    size_t bytes = 4 * MIB;
    char *memory = marked(bytes);
    must(!mprotect(memory + MIB, MIB, PROT_NONE), "mprotect");
    must(!mprotect(memory + 2 * MIB, MIB, PROT_READ), "mprotect");
    must(!mlock(memory + 3 * MIB, 64 * 1024), "mlock");
    pid_t child = (pid_t)syscall(SYS_fork);
    must(child >= 0, "fork");
    if (!child) _exit(child_checks(memory, bytes));
    must(reap(child) == 0, "the child's memory differs");
    must(!mprotect(memory, bytes, PROT_READ), "mprotect");
    check(memory, bytes, "in the parent");
    return done();
}
