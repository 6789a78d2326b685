// What the hazard programs share. Each program prints `ok`, or what went wrong; exit status 0, 1, or
// 77 when the machine cannot do what it tests. All run plainly too, where they must pass as well.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20, SKIPPED = 77 };

#define fail(...) (fprintf(stderr, "FAILED line %d: ", __LINE__), fprintf(stderr, __VA_ARGS__), \
                   fprintf(stderr, " (errno %d, %s)\n", errno, strerror(errno)), _exit(1))
#define must(condition, ...) ((condition) ? (void)0 : fail(__VA_ARGS__))
#define skip(...) (printf("skipped: "), printf(__VA_ARGS__), printf("\n"), exit(SKIPPED))

typedef int next_touch_fn(const void *, size_t);

// Marks a range for next touch where there is a runtime.
static inline int mark(void *address, size_t bytes) {
    next_touch_fn *next_touch = (next_touch_fn *)dlsym(RTLD_DEFAULT, "quartier_next_touch");
    return next_touch ? next_touch(address, bytes) : -1;
}

static inline uint64_t word_at(size_t index) { return index * 0x9E3779B97F4A7C15u + 1; }

static inline void fill(void *memory, size_t bytes) {
    for (size_t i = 0; i < bytes / 8; i++) ((uint64_t *)memory)[i] = word_at(i);
}

// The index of the first wrong word, or -1.
static inline long wrong(const void *memory, size_t bytes) {
    for (size_t i = 0; i < bytes / 8; i++)
        if (((const volatile uint64_t *)memory)[i] != word_at(i)) return (long)i;
    return -1;
}

static inline void check(const void *memory, size_t bytes, const char *when) {
    long at = wrong(memory, bytes);
    must(at < 0, "%s: word %ld of %p is %#lx", when, at, memory, (unsigned long)((const uint64_t *)memory)[at]);
}

static inline char *map(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    return memory;
}

// Filled memory, marked.
static inline char *marked(size_t bytes) {
    char *memory = map(bytes);
    fill(memory, bytes);
    mark(memory, bytes);
    return memory;
}

// The exit status of a child, or 128 + signal.
static inline int reap(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) must(errno == EINTR, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&time, &time)) {}
}

static inline double seconds_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static inline int own_node(void) {
    unsigned cpu, node;
    must(!syscall(SYS_getcpu, &cpu, &node, NULL), "getcpu");
    return (int)node;
}

// The value of a line of /proc/self/status.
static inline long status_line(const char *name) {
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    must(file, "status");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
            value = strtol(line + strlen(name) + 1, NULL, 10);
    fclose(file);
    return value;
}

// A child that does not outlive the program, whatever happens to it.
static inline pid_t fork_child(void) {
    pid_t child = fork();
    must(child >= 0, "fork");
    if (!child) prctl(PR_SET_PDEATHSIG, SIGKILL);
    return child;
}

// From now on the kernel tells nobody of forks.
static inline void drop_ptrace(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    must(!syscall(SYS_capget, &header, sets), "capget");
    sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
    sets[0].permitted &= ~(1u << CAP_SYS_PTRACE);
    must(!syscall(SYS_capset, &header, sets), "capset");
}

// A system call that no interposed function sees: its value, or -errno.
static inline long bare_call(long number, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long got;
    __asm__ volatile("syscall" : "=a"(got) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return got;
}

static inline long bare_fork(void) { return bare_call(SYS_fork, 0, 0, 0, 0, 0); }

// As mremap, but past the C library: nobody gives anything back first, or holds off marking meanwhile.
static inline void *bare_mremap(void *from, size_t bytes, size_t bytes_new, int flags, void *to) {
    long got = bare_call(SYS_mremap, (long)from, (long)bytes, (long)bytes_new, flags, (long)to);
    if (got >= 0 || got < -4095) return (void *)got;
    errno = (int)-got;
    return MAP_FAILED;
}

static inline int done(void) {
    puts("ok");
    return 0;
}
