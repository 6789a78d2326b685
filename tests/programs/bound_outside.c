// The user has bound the program from outside (numactl, a cpuset): its threads stay on those CPUs and its
// memory on those nodes, also what is marked and touched by many.
#include "hazard.h"

enum { BIND = 2, MEMS_ALLOWED = 4, NODES = 1024, BITS = 8 * sizeof(long), BYTES = 4 * MIB, THREADS = 6 };

static unsigned long nodes[NODES / BITS];
static cpu_set_t allowed;
static char *memory;

static void *work(void *nothing) {
    for (int i = 0; i < 20; i++) {
        must(CPU_ISSET(sched_getcpu(), &allowed), "on CPU %d, which is not allowed", sched_getcpu());
        check(memory, BYTES, "in a thread");
    }
    return nothing;
}

static void check_places(const char *when) {
    for (size_t at = 0; at < BYTES; at += PAGE) {
        void *address = memory + at;
        int node = -1;
        must(!syscall(SYS_move_pages, 0, 1ul, &address, NULL, &node, 0), "move_pages");
        must(node < 0 || nodes[node / BITS] >> node % BITS & 1, "%s: page %zu is on node %d", when, at / PAGE, node);
    }
}

// The helper that shares our memory, if there is one, is bound as we are.
static void check_helper(void) {
    DIR *processes = opendir("/proc");
    must(processes, "/proc");
    for (struct dirent *entry; (entry = readdir(processes));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        cpu_set_t its, common;
        // KCMP_VM.
        if (pid <= 0 || pid == getpid() || syscall(SYS_kcmp, getpid(), pid, 1, 0, 0)) continue;
        if (sched_getaffinity(pid, sizeof its, &its)) continue;
        CPU_AND(&common, &its, &allowed);
        must(CPU_EQUAL(&common, &its), "the helper may run on %d CPUs, %d of them ours", CPU_COUNT(&its), CPU_COUNT(&common));
    }
    closedir(processes);
}

int main(void) {
    int mode = 0, count = 0;
    // On most machines this fails only where the kernel has no NUMA.
    if (syscall(SYS_get_mempolicy, &mode, nodes, NODES, 0, 0)) skip("no memory policies here");
    if (mode != BIND) must(!syscall(SYS_get_mempolicy, NULL, nodes, NODES, 0, MEMS_ALLOWED), "get_mempolicy");
    for (int node = 0; node < NODES; node++) count += nodes[node / BITS] >> node % BITS & 1;
    printf("%d node(s) allowed\n", count);
    must(!sched_getaffinity(0, sizeof allowed, &allowed), "getaffinity");
    memory = marked(BYTES);
    check_places("filled");
    for (int round = 0; round < 3; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) must(!pthread_create(&threads[i], NULL, work, NULL), "create");
        mark(memory, BYTES);
        check_helper();
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        check_places("touched");
    }
    return done();
}
