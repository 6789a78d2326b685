// A program with very many mappings: marking leaves it most of those that the kernel still allows, and
// takes nothing of the runtime's own for the program's.
//
//     many_mappings [NR]
#include "hazard.h"

// With 4100 and more, a mapping for each of their pages would be more than the kernel allows by default.
enum { MAPPINGS = 12000, PAGES = 16 };

static size_t count_mappings(void) {
    size_t count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    must(file, "maps");
    for (int c; (c = getc(file)) != EOF;) count += c == '\n';
    fclose(file);
    return count;
}

static size_t limit(void) {
    size_t value = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    must(file && fscanf(file, "%zu", &value) == 1, "max_map_count");
    fclose(file);
    return value;
}

static void *idle(void *argument) { return argument; }

// A second thread: all that is there is marked.
static void mark_all(void) {
    pthread_t thread;
    must(!pthread_create(&thread, NULL, idle, NULL), "thread");
    must(!pthread_join(thread, NULL), "join");
}

int main(int argc, char **argv) {
    size_t each = (PAGES + 1) * PAGE, mappings = argc > 1 ? strtoul(argv[1], NULL, 10) : MAPPINGS;
    char *all = mmap(NULL, mappings * each, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(all != MAP_FAILED, "mmap");
    if (limit() < 4 * mappings) skip("this machine allows few mappings");
    for (size_t i = 0; i < mappings; i++) {
        must(!mprotect(all + i * each, PAGES * PAGE, PROT_READ | PROT_WRITE), "mprotect");
        for (size_t page = 0; page < PAGES; page++) *(uint64_t *)(all + i * each + page * PAGE) = word_at(i + page);
    }
    size_t left = limit() - count_mappings(), more = 0;
    alarm(100);
    mark_all();
    mark_all();
    // Every other one is readable, so that none joins its neighbour.
    while (more < left && mmap(NULL, PAGE, more % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) more++;
    must(more > left / 2, "of %zu mappings only %zu are left to the program", left, more);
    for (size_t i = 0; i < mappings; i++)
        for (size_t page = 0; page < PAGES; page++) {
            uint64_t found = *(volatile uint64_t *)(all + i * each + page * PAGE);
            must(found == word_at(i + page), "page %zu of mapping %zu is %#lx", page, i, (unsigned long)found);
        }
    return done();
}
