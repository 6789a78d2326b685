// A server of several processes: each has memory of its own, serves one connection at a time, and reads
// all of that memory for it.
//
//   prefork serve PORT PROCESSES MIB   serves until it is told to end
//   prefork ask PORT CONNECTIONS       has so many served at once that each process serves one
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(int is_good, const char *what) {
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

static struct sockaddr_in loopback(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

// Fills its memory, says so, and serves when everybody may.
static void serve(int listener, size_t bytes, int ready, int go) {
    volatile long *own = malloc(bytes);
    char answer;
    check(own != NULL, "malloc");
    memset((void *)own, 1, bytes);
    check(write(ready, "", 1) == 1, "write");
    check(read(go, &answer, 1) == 0, "read");
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        check(connection >= 0, "accept");
        long sum = 0;
        for (size_t line = 0; line < bytes / 64; line++)
            sum += own[line * 8];
        answer = (char)sum;
        check(write(connection, &answer, 1) == 1, "write");
        // Until the client has closed this one, others serve.
        check(read(connection, &answer, 1) == 0, "read");
        close(connection);
    }
}

static void ask(const char *port, int connections) {
    struct sockaddr_in address = loopback(port);
    int *open = calloc((size_t)connections, sizeof *open);
    char answer;
    for (int i = 0; i < connections; i++) {
        open[i] = socket(AF_INET, SOCK_STREAM, 0);
        check(connect(open[i], (struct sockaddr *)&address, sizeof address) == 0, "connect");
    }
    for (int i = 0; i < connections; i++)
        check(read(open[i], &answer, 1) == 1, "read");
    free(open);
    printf("%d served\n", connections);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "ask") == 0) {
        ask(argv[2], atoi(argv[3]));
        return 0;
    }
    if (argc != 5 || strcmp(argv[1], "serve") != 0)
        return 2;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = loopback(argv[2]);
    check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    int ready[2], go[2], processes = atoi(argv[3]);
    check(pipe(ready) == 0 && pipe(go) == 0, "pipe");
    for (int i = 0; i < processes; i++)
        if (fork() == 0) {
            close(go[1]);
            serve(listener, (size_t)atoi(argv[4]) << 20, ready[1], go[0]);
        }
    char word;
    for (int i = 0; i < processes; i++)
        check(read(ready[0], &word, 1) == 1, "read");
    check(listen(listener, 100) == 0, "listen");
    close(go[1]);
    puts("listening");
    fflush(stdout);
    pause();
    return 0;
}
