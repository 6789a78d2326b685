// Threads resize and free large blocks of `malloc`, which the C library moves about among each other's places: every
// byte follows.
#include "hazard.h"
#include <malloc.h>

enum { THREADS = 8, TIMES = 12, KIB = 1024 };

static int rounds = 10;

static void check_block(const uint64_t *block, size_t words, size_t seed) {
    for (size_t i = 0; i < words; i += 64)
        must(block[i] == word_at(seed + i), "word %zu of %zu at %p is %#lx", i, words, (const void *)block,
             (unsigned long)block[i]);
}

static void *work(void *argument) {
    unsigned random = (unsigned)(size_t)argument;
    for (int round = 0; round < rounds; round++) {
        size_t words = 0, seed = (size_t)rand_r(&random);
        uint64_t *block = NULL;
        for (int times = 0; times < TIMES; times++) {
            size_t more = (160 + (size_t)rand_r(&random) % 256) * KIB / sizeof *block;
            int shrinks = words > more && rand_r(&random) % 4 == 0;
            size_t resized = shrinks ? words - more / 2 : words + more;
            block = reallocarray(block, resized, sizeof *block);
            must(block, "reallocarray");
            for (size_t i = words; i < resized; i++) block[i] = word_at(seed + i);
            words = resized;
            if (times % 3 == 0) mark(block, words * sizeof *block);
            if (times % 4 == 0) check_block(block, words, seed);
        }
        check_block(block, words, seed);
        free(block);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) rounds = atoi(argv[1]);
    pthread_t threads[THREADS];
    // As it begins; what is freed would raise it.
    mallopt(M_MMAP_THRESHOLD, 128 * KIB);
    alarm(100);
    for (size_t i = 0; i < THREADS; i++) must(!pthread_create(&threads[i], NULL, work, (void *)(i + 1)), "thread");
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return done();
}
