// Somebody kills the helper while memory is marked. Where the helper held data, the launcher ends the
// program; where it held none (`--holds-nothing`), the program goes on, whatever it does next. With `--forks`
// it forks meanwhile: no child may find zeros.
#include "hazard.h"
#include <linux/kcmp.h>

static void *touch(void *memory) {
    check(memory, MIB, "in a thread");
    return NULL;
}

// The helper of this process: the process of that name that has the same memory.
static pid_t helper(void) {
    DIR *processes = opendir("/proc");
    must(processes, "/proc");
    pid_t found = 0;
    for (struct dirent *entry; !found && (entry = readdir(processes));) {
        pid_t pid = atoi(entry->d_name);
        if (pid > 0 && pid != getpid() && !syscall(SYS_kcmp, getpid(), pid, KCMP_VM, 0, 0)) found = pid;
    }
    closedir(processes);
    return found;
}

static void go_on(char *memory) {
    pid_t pid = helper();
    if (!pid) skip("no helper");
    kill(pid, SIGKILL);
    while (helper()) nap(1);
    // Longer than a launcher that ends the program takes.
    nap(500);
    alarm(30);
    char *moved = mremap(memory, 8 * MIB, 16 * MIB, MREMAP_MAYMOVE);
    must(moved != MAP_FAILED, "mremap");
    check(moved, 8 * MIB, "after mremap");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) must(!pthread_create(&threads[i], NULL, touch, moved), "thread");
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    pid_t child = fork_child();
    if (!child) _exit(wrong(moved, 8 * MIB) >= 0);
    must(reap(child) == 0, "the child's memory differs");
    must(mark(moved, 8 * MIB) < 0, "marked without a helper");
    check(moved, 8 * MIB, "at the end");
    must(!helper(), "a new helper where one was killed");
}

static int *wrong_children;

static void *fork_on(void *memory) {
    for (;;) {
        mark(memory, 8 * MIB);
        pid_t child = fork();
        if (!child) {
            if (wrong(memory, 8 * MIB) >= 0) __atomic_fetch_add(wrong_children, 1, __ATOMIC_RELAXED);
            _exit(0);
        }
        reap(child);
    }
    return NULL;
}

static void kill_while_forking(char *memory) {
    pthread_t thread;
    pid_t pid = helper();
    if (!pid) skip("no helper");
    must(!pthread_create(&thread, NULL, fork_on, memory), "thread");
    nap(getpid() % 50);
    kill(pid, SIGKILL);
    nap(1000);
}

int main(int argc, char **argv) {
    int holds_nothing = argc > 1 && !strcmp(argv[1], "--holds-nothing");
    int forks = argc > 1 && !strcmp(argv[1], "--forks");
    wrong_children = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < (forks ? 10 : 1); round++) {
        pid_t child = fork_child();
        if (!child) {
            if (forks) drop_ptrace();
            (forks ? kill_while_forking : go_on)(marked(8 * MIB));
            _exit(0);
        }
        int status = reap(child);
        if (status == SKIPPED) skip("no helper");
        must(status == 0 || (!holds_nothing && status == 128 + SIGKILL), "status %d", status);
    }
    must(!*wrong_children, "%d children found zeros", *wrong_children);
    return done();
}
