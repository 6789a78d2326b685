// What children do to memory that is marked: one that shares it (as vfork's does) sets its own memory
// policy and moves a mapping; one of a fork that nobody sees has a copy, and no helper.
#include "hazard.h"

enum { BYTES = 8 * MIB };

static char *memory, *other;

static int shares(void *nothing) {
    unsigned long node = 1;
    (void)nothing;
    syscall(SYS_set_mempolicy, 1 /* preferred */, &node, 64UL);
    char *moved = mremap(other, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) return 1;
    other = moved;
    return 0;
}

// Everything by which a thread asks the helper; it must come back.
static void unseen(void) {
    unsigned long node = 1;
    alarm(20);
    mark(memory, BYTES);
    mremap(other, 2 * BYTES, BYTES, 0);
    syscall(SYS_mbind, other, (long)BYTES, 0, NULL, 0UL, 0);
    syscall(SYS_set_mempolicy, 1, &node, 64UL);
    _exit(0);
}

int main(void) {
    memory = map(BYTES);
    fill(memory, BYTES);
    int marks = mark(memory, BYTES);
    other = marked(BYTES);
    alarm(60);

    char *stack = map(MIB);
    pid_t child = clone(shares, stack + MIB, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    must(child > 0 && reap(child) == 0, "the child that shares memory");
    must(mark(memory, BYTES) == marks, "marking changed by the child's policy");
    check(other, BYTES, "moved by the child");
    child = fork_child();
    if (!child) _exit(wrong(memory, BYTES) >= 0 || wrong(other, BYTES) >= 0);
    must(reap(child) == 0, "the forked child's memory differs");

    child = (pid_t)bare_fork();
    must(child >= 0, "fork");
    if (!child) unseen();
    must(reap(child) == 0, "the unseen child");
    must(mark(memory, BYTES) == marks, "marking changed by the unseen child");
    check(memory, BYTES, "at the end");
    check(other, BYTES, "at the end");
    return done();
}
