// A program of two threads that says where they are, then waits for its neighbours.
//
//   side_by_side PLACES GO
//
// Appends one line "PID NODE NODE" to the file PLACES (the nodes of the first and the second thread),
// and ends when the file GO exists, or after two minutes. Exit status: 0, or 1 when something failed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *go;
static unsigned node_of_second;
static pthread_barrier_t both_here;

static void wait_for_go(void) {
    for (int tenths = 0; tenths < 1200 && access(go, F_OK) != 0; tenths++)
        usleep(100000);
}

static void *second(void *unused) {
    unsigned cpu;
    (void)unused;
    getcpu(&cpu, &node_of_second);
    pthread_barrier_wait(&both_here);
    wait_for_go();
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    unsigned cpu, node;
    char line[80];
    if (argc != 3)
        return 1;
    go = argv[2];
    pthread_barrier_init(&both_here, NULL, 2);
    if (pthread_create(&thread, NULL, second, NULL) != 0)
        return 1;
    pthread_barrier_wait(&both_here);
    getcpu(&cpu, &node);
    int len = snprintf(line, sizeof line, "%d %u %u\n", (int)getpid(), node, node_of_second);
    int places = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (places < 0 || write(places, line, (size_t)len) != len)
        return 1;
    wait_for_go();
    return pthread_join(thread, NULL) != 0;
}
