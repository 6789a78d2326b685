// exec from a program with threads and marked memory: the old memory goes away soon, with no helper
// left. Run again by itself, it looks for one for a second.
#include "hazard.h"

enum { BYTES = 64 * MIB };

static void *hold(void *memory) {
    for (;;) {
        mark(memory, BYTES);
        nap(50);
    }
    return NULL;
}

// Helpers whose memory is larger than BYTES: those of the program that is gone.
static int old_helpers(void) {
    int count = 0;
    DIR *directory = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[300], name[64] = "", line[128];
        long size = 0;
        snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
        FILE *file = atoi(entry->d_name) > 0 ? fopen(path, "r") : NULL;
        if (!file) continue;
        if (!fgets(name, sizeof name, file)) name[0] = 0;
        fclose(file);
        if (strcmp(name, "quartier-helper\n")) continue;
        snprintf(path, sizeof path, "/proc/%s/status", entry->d_name);
        if (!(file = fopen(path, "r"))) continue;
        while (fgets(line, sizeof line, file)) sscanf(line, "VmRSS: %ld", &size);
        fclose(file);
        count += size > BYTES / 1024;
    }
    closedir(directory);
    return count;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        for (int tenths = 0; tenths < 30; tenths++) {
            if (!old_helpers()) return done();
            nap(100);
        }
        fail("the old memory is still held after 3 s");
    }
    pthread_t thread;
    char *memory = marked(BYTES);
    for (int i = 0; i < 4; i++) must(!pthread_create(&thread, NULL, hold, memory), "thread");
    nap(100);
    execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    fail("exec");
}
