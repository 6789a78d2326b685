// The program goes on when it loses rights in the middle: setuid to nobody, a seccomp filter without
// userfaultfd, a root directory without /proc, no more processes, no more address space. How by argument.
#include "hazard.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/resource.h>

static void *touch(void *memory) {
    check(memory, 4 * MIB, "in a thread");
    return NULL;
}

static void use(char *memory, const char *when) {
    pthread_t threads[4];
    mark(memory, 4 * MIB);
    for (int i = 0; i < 4; i++) must(!(errno = pthread_create(&threads[i], NULL, touch, memory)), "thread %s", when);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    mark(memory, 4 * MIB);
    check(memory, 4 * MIB, when);
}

static void limit(int what, rlim_t value) {
    struct rlimit limit = {value, value};
    must(!setrlimit(what, &limit), "setrlimit");
}

static void filter(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog whole = {sizeof program / sizeof *program, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole), "seccomp");
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "setuid";
    int in_the_middle = argc > 2;
    alarm(60);
    char *memory = map(4 * MIB);
    fill(memory, 4 * MIB);
    if (in_the_middle) use(memory, "before");
    if (in_the_middle) mark(memory, 4 * MIB);
    if (!strcmp(how, "setuid")) {
        if (geteuid()) skip("needs root");
        must(!setgid(65534) && !setuid(65534), "setuid");
    } else if (!strcmp(how, "seccomp")) {
        filter();
    } else if (!strcmp(how, "chroot")) {
        char empty[] = "/tmp/quartier-root-XXXXXX";
        if (geteuid()) skip("needs root");
        int outside = open("/tmp", O_PATH | O_DIRECTORY);
        must(outside >= 0 && mkdtemp(empty) && !chroot(empty) && !chdir("/"), "chroot");
        must(!unlinkat(outside, empty + strlen("/tmp/"), AT_REMOVEDIR) && !close(outside), "rmdir");
    } else if (!strcmp(how, "address-space")) {
        // 80 MiB: room for the threads' stacks, none for a copy of everything.
        limit(RLIMIT_AS, 512 * MIB);
        char *rest = NULL;
        for (size_t bytes = 1 << 30; bytes >= 64 * 1024; bytes /= 2)
            while ((rest = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED) {}
        mark(memory, 4 * MIB);
        check(memory, 4 * MIB, how);
        return done();
    } else if (!strcmp(how, "processes")) {
        if (geteuid() == 0) must(!setgid(65534) && !setuid(65534), "setuid");
        limit(RLIMIT_NPROC, 0);
        mark(memory, 4 * MIB);
        check(memory, 4 * MIB, how);
        return done();
    }
    use(memory, how);
    return done();
}
