// A thread's stack lies in memory that is marked already, the rest of which waits for its first touch: no
// later round may take the stack, nor the thread block in it, from under the thread.
#include "hazard.h"

enum { BYTES = 16 * MIB, STACK = 2 * MIB };

static int stop;

static void *spin(void *memory) {
    char on_stack[64 * 1024];
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        memset(on_stack, 7, sizeof on_stack);
        __asm__ volatile("" ::"r"(on_stack) : "memory");
        // What it touches elsewhere is served, which takes a look at who it is.
        if (memory) (void)*(volatile char *)memory;
    }
    return NULL;
}

int main(void) {
    cpu_set_t allowed;
    pthread_t other, inside;
    pthread_attr_t attr;
    must(!sched_getaffinity(0, sizeof allowed, &allowed), "getaffinity");
    char *memory = map(BYTES);
    fill(memory, BYTES);
    alarm(60);
    // The process becomes parallel: all is marked.
    must(!pthread_create(&other, NULL, spin, memory), "thread");
    for (int round = 0; round < 4; round++) {
        pthread_attr_init(&attr);
        must(!pthread_attr_setstack(&attr, memory + BYTES / 2, STACK), "stack");
        // Not ours to place: where it is, its own thread block says.
        pthread_attr_setaffinity_np(&attr, sizeof allowed, &allowed);
        stop = 0;
        must(!pthread_create(&inside, &attr, spin, memory + MIB * (size_t)(round + 1)), "thread");
        nap(1000);
        stop = 1;
        pthread_join(inside, NULL);
        pthread_join(other, NULL);
        stop = 0;
        must(!pthread_create(&other, NULL, spin, memory), "thread");
    }
    stop = 1;
    pthread_join(other, NULL);
    check(memory, BYTES / 2, "below the stack");
    return done();
}
