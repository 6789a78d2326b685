// Two threads and nothing else: what a program that the runtime cannot be loaded into must still do.
#include <pthread.h>
#include <stdio.h>

static void *work(void *nothing) { return nothing; }

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL)) return 1;
    puts("ok");
    return 0;
}
