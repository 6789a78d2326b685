// A debugger stops all threads of a program with marked memory and reads it, by PTRACE_PEEKDATA and by
// process_vm_readv, and gets the right bytes. (The runtime's helper must work while they are stopped.)
#include "hazard.h"
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { THREADS = 3, BYTES = 4 * MIB };
static int fds[2];

static void *sleeper(void *nothing) {
    for (;;) nap(1000);
    return nothing;
}

static void debuggee(void) {
    pthread_t thread;
    for (int i = 0; i < THREADS; i++) must(!pthread_create(&thread, NULL, sleeper, NULL), "thread");
    char *memory = map(BYTES);
    fill(memory, BYTES);
    mark(memory, BYTES);
    // Gone to the debugger by a page that is not marked.
    must(write(fds[1], &memory, sizeof memory) == sizeof memory, "pipe");
    sleeper(NULL);
}

static int attach_all(pid_t child) {
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", child);
    DIR *directory = opendir(path);
    must(directory, "task");
    for (struct dirent *entry; (entry = readdir(directory));) {
        pid_t thread = atoi(entry->d_name);
        if (thread <= 0) continue;
        if (ptrace(PTRACE_ATTACH, thread, NULL, NULL)) {
            if (errno == EPERM) skip("ptrace is not permitted");
            fail("attach");
        }
        must(waitpid(thread, NULL, __WALL) == thread, "attach wait");
        count++;
    }
    closedir(directory);
    return count;
}

int main(void) {
    must(!pipe(fds), "pipe");
    pid_t child = fork_child();
    if (!child) debuggee();
    char *memory;
    must(read(fds[0], &memory, sizeof memory) == sizeof memory, "pipe");
    alarm(60);
    must(attach_all(child) == THREADS + 1, "not all threads");
    // On the move rung the first reads may fail with EIO (docs/run.md, limit 2), but never give wrong
    // bytes, and not for longer than the helper takes to see that the program is traced.
    for (int tries = 0; tries < 40; tries++) {
        errno = 0;
        ptrace(PTRACE_PEEKDATA, child, memory, NULL);
        if (errno != EIO) break;
        nap(50);
    }
    for (size_t word = 0; word < BYTES / 2 / 8; word += 512) {
        errno = 0;
        long found = ptrace(PTRACE_PEEKDATA, child, memory + word * 8, NULL);
        must(!errno && (uint64_t)found == word_at(word), "peek of word %zu gives %#lx", word, found);
    }
    char *copy = map(BYTES);
    struct iovec local = {copy, BYTES}, remote = {memory, BYTES};
    must(process_vm_readv(child, &local, 1, &remote, 1, 0) == BYTES, "process_vm_readv");
    check(copy, BYTES, "read from another process");
    must(ptrace(PTRACE_POKEDATA, child, memory + BYTES - 8, 42l) == 0, "poke");
    must(ptrace(PTRACE_PEEKDATA, child, memory + BYTES - 8, NULL) == 42, "peek after poke");
    kill(child, SIGKILL);
    while (waitpid(-1, NULL, __WALL) > 0) {}
    return done();
}
