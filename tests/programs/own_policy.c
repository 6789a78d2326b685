// Memory with a policy of the program's own (mbind, set_mempolicy) stays where the policy put it.
#include "hazard.h"

enum { INTERLEAVE = 3, NODES = 64, BYTES = 4 * MIB };

static void *touch(void *memory) {
    check(memory, BYTES, "in a thread");
    return NULL;
}

static void where(char *memory, int *nodes) {
    for (size_t page = 0; page < BYTES / PAGE; page++) {
        void *address = memory + page * PAGE;
        nodes[page] = -1;
        syscall(SYS_move_pages, 0, 1ul, &address, NULL, &nodes[page], 0);
    }
}

int main(void) {
    static int before[BYTES / PAGE], after[BYTES / PAGE];
    unsigned long all = 0;
    char line[256];
    FILE *file = fopen("/sys/devices/system/node/online", "r");
    if (!file || !fgets(line, sizeof line, file)) skip("no nodes");
    fclose(file);
    int last = 0;
    sscanf(line, "%*d-%d", &last);
    for (int node = 0; node <= last; node++) all |= 1ul << node;
    char *memory = map(BYTES);
    must(!syscall(SYS_mbind, memory, (size_t)BYTES, INTERLEAVE, &all, NODES + 1, 0), "mbind");
    fill(memory, BYTES);
    where(memory, before);
    pthread_t threads[4];
    mark(memory, BYTES);
    for (int i = 0; i < 4; i++) must(!pthread_create(&threads[i], NULL, touch, memory), "thread");
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    where(memory, after);
    must(!memcmp(before, after, sizeof before), "pages were moved");
    return done();
}
