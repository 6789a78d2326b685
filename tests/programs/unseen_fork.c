// A fork that no interposed function sees, with marked memory whose mappings were split since: the
// child has all of it. The runtime sees such forks with root's rights only.
#include "hazard.h"

static void bare_exit(long status) {
    bare_call(SYS_exit_group, status, 0, 0, 0, 0);
    __builtin_unreachable();
}

int main(void) {
    if (geteuid() != 0) skip("needs root");
    size_t bytes = 8 * MIB;
    char *memory = marked(bytes);
    // Splits the mapping into many.
    for (size_t at = 5 * PAGE; at + PAGE < bytes; at += 37 * PAGE)
        must(!mprotect(memory + at, PAGE, PROT_READ), "mprotect");
    alarm(60);
    long child = bare_fork();
    must(child >= 0, "fork");
    if (!child) {
        long at = wrong(memory, bytes);
        if (at >= 0) fprintf(stderr, "in the child word %ld (page %ld) is wrong\n", at, at / 512);
        bare_exit(at >= 0);
    }
    int status = reap((pid_t)child);
    must(status == 0, "the child's memory differs (%d)", status);
    check(memory, bytes, "in the parent");
    return done();
}
