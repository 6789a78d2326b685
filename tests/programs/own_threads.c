// The program's own threads and children are all it sees: no thread, child or name of the runtime's.
#include "hazard.h"

enum { THREADS = 5 };
static pthread_barrier_t here;

static void *work(void *memory) {
    pthread_barrier_wait(&here);
    check(memory, MIB, "in a thread");
    pthread_barrier_wait(&here);
    return NULL;
}

static int tasks(void) {
    int count = 0;
    char path[300], name[64];
    DIR *directory = opendir("/proc/self/task");
    must(directory, "task");
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue;
        count++;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        must(file && fgets(name, sizeof name, file), "comm");
        fclose(file);
        must(!strcmp(name, "own_threads\n"), "a thread is called %s", name);
    }
    closedir(directory);
    return count;
}

static int children(void) {
    char path[64];
    int child, count = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    while (fscanf(file, "%d", &child) == 1) count++;
    fclose(file);
    return count;
}

int main(void) {
    pthread_t threads[THREADS];
    char *memory = marked(MIB);
    pthread_barrier_init(&here, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) must(!pthread_create(&threads[i], NULL, work, memory), "thread");
    mark(memory, MIB);
    must(tasks() == THREADS + 1, "%d tasks", tasks());
    must(status_line("Threads") == THREADS + 1, "%ld threads", status_line("Threads"));
    must(children() == 0, "%d children", children());
    must(waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD, "a child to wait for");
    must(wait(NULL) == -1 && errno == ECHILD, "a child to wait for");
    pthread_barrier_wait(&here);
    mark(memory, MIB);
    pthread_barrier_wait(&here);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    // The kernel wakes who joins a thread a moment before it takes the thread off its list.
    for (int tries = 0; tries < 100 && status_line("Threads") != 1; tries++) nap(20);
    must(status_line("Threads") == 1, "%ld threads at the end", status_line("Threads"));
    must(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD, "a child to wait for at the end");
    // A signal from a child of ours that ends would show here.
    pid_t child = fork_child();
    if (!child) _exit(7);
    must(waitpid(-1, NULL, __WALL) == child, "not our child");
    return done();
}
