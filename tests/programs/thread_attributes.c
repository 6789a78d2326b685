// What the program asks of its threads it gets: detached, own stack, stack and guard sizes, scheduling,
// an affinity of its own, its creator's memory policy; and sched_getaffinity shows what the user allows,
// not what is narrowed.
#include "hazard.h"

extern int pthread_getattr_np(pthread_t, pthread_attr_t *);
static cpu_set_t allowed;

struct seen {
    int detached, policy, memory_policy;
    size_t stack_size, guard;
    void *stack;
    cpu_set_t affinity, by_pthread, raw;
    int done;
};

static void *look(void *argument) {
    struct seen *seen = argument;
    struct sched_param parameter;
    pthread_attr_t attr;
    must(!pthread_getattr_np(pthread_self(), &attr), "getattr");
    pthread_attr_getdetachstate(&attr, &seen->detached);
    pthread_attr_getstack(&attr, &seen->stack, &seen->stack_size);
    pthread_attr_getguardsize(&attr, &seen->guard);
    pthread_getschedparam(pthread_self(), &seen->policy, &parameter);
    must(!sched_getaffinity(0, sizeof(cpu_set_t), &seen->affinity), "getaffinity");
    must(!pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), &seen->by_pthread), "getaffinity");
    must(!syscall(SYS_get_mempolicy, &seen->memory_policy, NULL, 0UL, NULL, 0UL), "get_mempolicy");
    CPU_ZERO(&seen->raw);
    must(syscall(SYS_sched_getaffinity, 0, sizeof(cpu_set_t), &seen->raw) > 0, "raw getaffinity");
    pthread_attr_destroy(&attr);
    __atomic_store_n(&seen->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static struct seen create(pthread_attr_t *attr) {
    pthread_t thread;
    struct seen seen = {0};
    int detached = PTHREAD_CREATE_JOINABLE;
    if (attr) pthread_attr_getdetachstate(attr, &detached);
    must(!(errno = pthread_create(&thread, attr, look, &seen)), "create");
    if (detached == PTHREAD_CREATE_JOINABLE) pthread_join(thread, NULL);
    while (!__atomic_load_n(&seen.done, __ATOMIC_ACQUIRE)) nap(1);
    int memory_policy;
    must(!syscall(SYS_get_mempolicy, &memory_policy, NULL, 0UL, NULL, 0UL), "get_mempolicy");
    must(seen.memory_policy == memory_policy, "memory policy %d, not %d", seen.memory_policy, memory_policy);
    return seen;
}

int main(void) {
    must(!sched_getaffinity(0, sizeof allowed, &allowed), "getaffinity");
    struct seen seen = create(NULL);
    must(CPU_EQUAL(&seen.affinity, &allowed), "sched_getaffinity shows %d CPUs, not %d", CPU_COUNT(&seen.affinity), CPU_COUNT(&allowed));
    must(CPU_EQUAL(&seen.by_pthread, &allowed), "pthread_getaffinity_np shows %d CPUs", CPU_COUNT(&seen.by_pthread));
    must(CPU_EQUAL(&seen.raw, &allowed), "syscall(SYS_sched_getaffinity) shows %d CPUs", CPU_COUNT(&seen.raw));

    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    must(create(&attr).detached == PTHREAD_CREATE_DETACHED, "not detached");
    nap(20);

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 3 * MIB);
    pthread_attr_setguardsize(&attr, 5 * PAGE);
    seen = create(&attr);
    must(seen.guard == 5 * PAGE, "guard of %zu", seen.guard);
    must(seen.stack_size + seen.guard >= 3 * MIB, "stack of %zu", seen.stack_size);

    size_t bytes = MIB;
    char *stack = marked(bytes);
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, stack, bytes);
    seen = create(&attr);
    must(seen.stack == stack && seen.stack_size == bytes, "another stack");

    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) cpu++;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_attr_init(&attr);
    pthread_attr_setaffinity_np(&attr, sizeof one, &one);
    seen = create(&attr);
    must(CPU_EQUAL(&seen.affinity, &one) && CPU_EQUAL(&seen.raw, &one), "the attribute's affinity is not kept");

    struct sched_param parameter = {.sched_priority = 1};
    pthread_attr_init(&attr);
    pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
    pthread_attr_setschedparam(&attr, &parameter);
    if (geteuid() == 0) {
        pthread_t thread;
        struct seen real_time = {0};
        int status = pthread_create(&thread, &attr, look, &real_time);
        if (!status) pthread_join(thread, NULL);
        must(status == EPERM || real_time.policy == SCHED_FIFO, "policy %d", real_time.policy);
    }
    // A thread's own choice is kept, and so is a later look at it.
    must(!sched_setaffinity(0, sizeof one, &one), "setaffinity");
    seen = create(NULL);
    must(CPU_EQUAL(&seen.affinity, &one), "a thread of a pinned thread is elsewhere");
    return done();
}
