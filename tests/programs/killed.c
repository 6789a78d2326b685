// Marks memory for ever, to be killed in the middle: nothing may stay behind. Used by a test.
#include "hazard.h"

static void *hold(void *memory) {
    for (;;) {
        mark(memory, 16 * MIB);
        check(memory, 16 * MIB, "while marking");
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    char *memory = marked(16 * MIB);
    for (int i = 0; i < 3; i++) must(!pthread_create(&thread, NULL, hold, memory), "thread");
    puts("ready");
    fflush(stdout);
    hold(memory);
}
