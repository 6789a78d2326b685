// Signals whose default action is a core dump end a program with marked memory, whoever sends them: itself,
// the kernel for an instruction, or the kernel for a limit.
#include "hazard.h"
#include <sys/resource.h>

static void by_raise(void) { raise(SIGQUIT); }
static void by_breakpoint(void) { __asm__ volatile("int3"); }
static void by_instruction(void) { __asm__ volatile("ud2"); }
static void by_address(void) {
    int *volatile nowhere = NULL;
    *(volatile int *)nowhere = 1;
}
static void by_limit(void) {
    struct rlimit limit = {1, RLIM_INFINITY};
    must(!setrlimit(RLIMIT_CPU, &limit), "setrlimit");
    for (double began = 0, now = 0; now - began < 1.8;) {
        struct timespec time;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
        now = (double)time.tv_sec + (double)time.tv_nsec / 1e9;
        if (began == 0) began = now;
    }
}

static const struct {
    void (*end)(void);
    int signal;
} ends[] = {
    {by_raise, SIGQUIT},          {by_breakpoint, SIGTRAP}, {by_instruction, SIGILL},
    {by_address, SIGSEGV},        {by_limit, SIGXCPU},
};

int main(void) {
    // Whoever is started in the background by a shell ignores it.
    signal(SIGQUIT, SIG_DFL);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        pid_t child = fork_child();
        if (!child) {
            // Cores are possible, and too large to be written.
            struct rlimit limit = {1, 1};
            must(!setrlimit(RLIMIT_CORE, &limit), "setrlimit");
            marked(MIB);
            ends[i].end();
            _exit(3);
        }
        int status = reap(child);
        must(status == 128 + ends[i].signal, "signal %d: status %d", ends[i].signal, status);
    }
    return done();
}
