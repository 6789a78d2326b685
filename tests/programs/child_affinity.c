// Children that a placed thread starts (fork, posix_spawn, vfork and exec, system) may use the CPUs that
// the user allows, not those that the thread was narrowed to. Run with "look MASK", it compares.
#include "hazard.h"
#include <spawn.h>

extern char **environ;
static char mask[64], *self;

static void own_mask(char *text) {
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) sscanf(line, "Cpus_allowed_list: %60s", text);
    fclose(file);
}

static void compare(const char *how) {
    char now[64] = "";
    own_mask(now);
    if (strcmp(now, mask)) {
        fprintf(stderr, "FAILED: a child by %s may use %s, not %s\n", how, now, mask);
        _exit(1);
    }
}

static void *placed(void *memory) {
    char *argv[] = {self, "look", mask, "", NULL};
    char command[400];
    pid_t child = fork_child();
    if (!child) {
        compare("fork");
        _exit(0);
    }
    must(!reap(child), "fork");
    argv[3] = "posix_spawn";
    must(!posix_spawn(&child, self, NULL, NULL, argv, environ) && !reap(child), "posix_spawn");
    argv[3] = "vfork";
    child = vfork();
    if (!child) {
        execve(self, argv, environ);
        _exit(127);
    }
    must(!reap(child), "vfork");
    snprintf(command, sizeof command, "%s look %s system", self, mask);
    must(system(command) == 0, "system");
    check(memory, MIB, "after the children");
    return NULL;
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 3) {
        strncpy(mask, argv[2], sizeof mask - 1);
        compare(argv[3]);
        return 0;
    }
    own_mask(mask);
    pthread_t threads[3];
    char *memory = marked(MIB);
    for (int i = 0; i < 3; i++) must(!pthread_create(&threads[i], NULL, placed, memory), "thread");
    placed(memory);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    return done();
}
