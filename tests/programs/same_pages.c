// Pages that the kernel has merged with equal ones (KSM), marked, read and written. `--merge` turns the
// machine's merging on and off again: guests only.
#include "hazard.h"

enum { BYTES = 4 * MIB, PAGES = BYTES / PAGE };

static const char *const RUN = "/sys/kernel/mm/ksm/run";

static long number(const char *path, const char *value) {
    char text[32] = "";
    int file = open(path, value ? O_WRONLY : O_RDONLY);
    if (file < 0) return -1;
    ssize_t got = value ? write(file, value, strlen(value)) : read(file, text, sizeof text - 1);
    close(file);
    return got < 0 ? -1 : value ? 0 : strtol(text, NULL, 10);
}

// Every page of a kind of its own, and each kind several times.
static void fill_same(char *memory) {
    for (size_t page = 0; page < PAGES; page++)
        for (size_t at = 0; at < PAGE; at += 8) *(uint64_t *)(memory + page * PAGE + at) = word_at(page % 16 * 512 + at);
}

static void check_same(const char *memory, const char *when) {
    for (size_t page = 0; page < PAGES; page++)
        for (size_t at = 0; at < PAGE; at += 8)
            must(*(volatile uint64_t *)(memory + page * PAGE + at) == word_at(page % 16 * 512 + at), "%s: page %zu", when, page);
}

static void *work(void *memory) {
    check_same(memory, "in a thread");
    fill_same(memory);
    return NULL;
}

int main(int count, char **arguments) {
    int merge = count > 1 && !strcmp(arguments[1], "--merge");
    if (merge && (number(RUN, "1") || number("/sys/kernel/mm/ksm/pages_to_scan", "4000") || number("/sys/kernel/mm/ksm/sleep_millisecs", "2")))
        skip("no merging of pages here");
    char *memory = map(BYTES);
    must(!madvise(memory, BYTES, MADV_NOHUGEPAGE), "advice");
    fill_same(memory);
    if (madvise(memory, BYTES, MADV_MERGEABLE)) skip("no merging of pages here");
    for (int i = 0; i < 20; i++) {
        for (int wait = 0; merge && wait < 500 && number("/sys/kernel/mm/ksm/pages_sharing", NULL) < PAGES / 2; wait++) nap(10);
        mark(memory, BYTES);
        check_same(memory, "marked");
        mark(memory, BYTES);
        pthread_t thread;
        must(!pthread_create(&thread, NULL, work, memory), "create");
        mark(memory, BYTES);
        pthread_join(thread, NULL);
        check_same(memory, "written");
    }
    if (merge) {
        must(number("/sys/kernel/mm/ksm/pages_sharing", NULL) >= 0, "count");
        number(RUN, "2");
        check_same(memory, "unmerged");
    }
    return done();
}
