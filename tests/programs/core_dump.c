// A program with marked memory dumps core: the core holds what the memory held. Needs a core pattern
// that writes a file; as root the pattern is set for the test (it is the machine's: only in a guest, or
// with --set-pattern) and put back.
#include "hazard.h"
#include <elf.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { BYTES = 4 * MIB };

// The contents of an address in a core; NULL when it is not in there.
static const char *in_core(const char *core, size_t size, uintptr_t address) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)core;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(core + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *segment = &segments[i];
        uintptr_t offset = address - segment->p_vaddr;
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && offset < segment->p_filesz &&
            segment->p_offset + offset < size)
            return core + segment->p_offset + offset;
    }
    return NULL;
}

static void read_pattern(char *pattern, size_t size) {
    FILE *file = fopen("/proc/sys/kernel/core_pattern", "r");
    if (!file || !fgets(pattern, (int)size, file)) skip("no core pattern");
    fclose(file);
    pattern[strcspn(pattern, "\n")] = 0;
}

static void *holder(void *nothing) {
    for (;;) nap(1000);
    return nothing;
}

int main(int argc, char **argv) {
    char directory[] = "/tmp/quartier-core-XXXXXX", pattern[256], name[300];
    (void)argv;
    read_pattern(pattern, sizeof pattern);
    if (pattern[0] == '|' || strchr(pattern, '%') || strchr(pattern, '/')) {
        FILE *file = argc > 1 ? fopen("/proc/sys/kernel/core_pattern", "w") : NULL;
        if (!file) skip("cores go elsewhere (%s); --set-pattern changes that for the whole machine", pattern);
        fputs("core", file);
        fclose(file);
    }
    must(mkdtemp(directory) && !chdir(directory), "directory");
    char *memory = marked(BYTES);
    pid_t child = fork_child();
    if (!child) {
        struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
        setrlimit(RLIMIT_CORE, &all);
        pthread_t thread;
        must(!pthread_create(&thread, NULL, holder, NULL), "thread");
        mark(memory, BYTES);
        abort();
    }
    must(reap(child) == 128 + SIGABRT, "the aborting child");
    snprintf(name, sizeof name, "core");
    int fd = open(name, O_RDONLY);
    if (fd < 0) {
        snprintf(name, sizeof name, "core.%d", child);
        fd = open(name, O_RDONLY);
    }
    struct stat stat;
    int there = fd >= 0 && !fstat(fd, &stat) && stat.st_size > 0;
    if (!there) skip("no core was written");
    char *core = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    must(core != MAP_FAILED, "core");
    unlink(name);
    rmdir(directory);
    long missing = 0, differ = 0;
    for (size_t page = 0; page < BYTES / PAGE; page++) {
        const char *found = in_core(core, (size_t)stat.st_size, (uintptr_t)memory + page * PAGE);
        missing += !found;
        differ += found && memcmp(found, memory + page * PAGE, PAGE) != 0;
    }
    must(!missing && !differ, "of %d pages %ld are not in the core and %ld are not right", BYTES / PAGE, missing, differ);
    return done();
}
