/* A small server as servers are: a first process that binds and listens, without SO_REUSEPORT, and workers that accept.
 *   serves PORT WORKERS [MICROS]   answers each request with its copy, CPU and node, after so much work
 *   serves get PORT COUNT          asks so often, one connection each, and prints the answers
 * SIGTERM: workers finish what they have, and all end. SIGHUP: new workers, and the old ones finish. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MAX = 64 };

static volatile sig_atomic_t ends, reloads;
static pid_t workers[WORKERS_MAX];

static void on_signal(int signal) {
    if (signal == SIGHUP)
        reloads = 1;
    else if (signal == SIGTERM)
        ends = 1;
}

static void fail(const char *what) {
    fprintf(stderr, "serves: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct sockaddr_in here(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void work(long micros) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    long until = now.tv_sec * 1000000 + now.tv_nsec / 1000 + micros;
    while (now.tv_sec * 1000000 + now.tv_nsec / 1000 < until)
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

/* Signals come only while it waits for a connection, so none that was accepted is dropped. */
static void serve(int listener, long micros) {
    const char *copy = getenv("QUARTIER_COPY");
    sigset_t none;
    sigemptyset(&none);
    while (!ends) {
        struct pollfd waits = {.fd = listener, .events = POLLIN};
        if (ppoll(&waits, 1, NULL, &none) < 0)
            continue;
        int fd = accept4(listener, NULL, NULL, 0);
        if (fd < 0)
            continue;
        char question[64];
        if (read(fd, question, sizeof question) > 0) {
            work(micros);
            unsigned cpu, node;
            getcpu(&cpu, &node);
            char answer[128];
            int length = snprintf(answer, sizeof answer, "copy %s cpu %u node %u\n", copy ? copy : "?",
                                  cpu, node);
            if (write(fd, answer, length) < 0)
                perror("serves: write");
        }
        close(fd);
    }
    exit(0);
}

static pid_t start_worker(int listener, long micros) {
    pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0)
        serve(listener, micros);
    return pid;
}

static int server(int port, int nr_workers, long micros) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = here(port);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 512))
        fail("bind");
    struct sigaction action = {.sa_handler = on_signal};
    int signals[] = {SIGTERM, SIGHUP, SIGCHLD};
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int at = 0; at < 3; at++) {
        sigaction(signals[at], &action, NULL);
        sigaddset(&blocked, signals[at]);
    }
    sigset_t before;
    sigprocmask(SIG_BLOCK, &blocked, &before);
    for (int at = 0; at < nr_workers; at++)
        workers[at] = start_worker(listener, micros);
    while (!ends) {
        sigsuspend(&before);
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            for (int at = 0; at < nr_workers && !ends; at++)
                if (workers[at] == pid)
                    workers[at] = start_worker(listener, micros);
        for (int at = 0; at < nr_workers && reloads; at++) {
            pid_t old = workers[at];
            workers[at] = start_worker(listener, micros);
            kill(old, SIGTERM);
        }
        reloads = 0;
    }
    close(listener);
    for (int at = 0; at < nr_workers; at++)
        kill(workers[at], SIGTERM);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    return 0;
}

static int client(int port, int count) {
    for (int at = 0; at < count; at++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in address = here(port);
        char answer[128];
        if (connect(fd, (struct sockaddr *)&address, sizeof address) || write(fd, "?\n", 2) != 2)
            fail("connect");
        ssize_t length = read(fd, answer, sizeof answer - 1);
        if (length <= 0)
            fail("no answer");
        answer[length] = 0;
        fputs(answer, stdout);
        close(fd);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "get"))
        return client(atoi(argv[2]), atoi(argv[3]));
    if (argc < 3 || atoi(argv[2]) < 1 || atoi(argv[2]) > WORKERS_MAX) {
        fprintf(stderr, "usage: serves PORT WORKERS [MICROS] | serves get PORT COUNT\n");
        return 2;
    }
    return server(atoi(argv[1]), atoi(argv[2]), argc > 3 ? atol(argv[3]) : 0);
}
