// Says on which node each page of a file in memory lies: one line "PAGE NODE" for each that is there.
//
//   pages_of_file FILE
//
// Exit status: 0, or 1 when the file cannot be mapped or the kernel does not say.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

int main(int argc, char **argv) {
    struct stat stat;
    int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0 || fstat(file, &stat) != 0)
        return 1;
    size_t pages = (size_t)stat.st_size / PAGE;
    char *memory = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, file, 0);
    void **addresses = calloc(pages, sizeof *addresses);
    int *nodes = calloc(pages, sizeof *nodes);
    unsigned char *resident = calloc(pages, 1);
    if (memory == MAP_FAILED || !addresses || !nodes || !resident)
        return 1;
    // Only pages that are there: reading a hole of a tmpfs would fill it.
    if (mincore(memory, (size_t)stat.st_size, resident) != 0)
        return 1;
    for (size_t page = 0; page < pages; page++) {
        addresses[page] = memory + page * PAGE;
        if (resident[page] & 1)
            (void)*(volatile char *)addresses[page];
    }
    if (syscall(SYS_move_pages, 0, pages, addresses, NULL, nodes, 0) < 0)
        return 1;
    for (size_t page = 0; page < pages; page++)
        if (nodes[page] >= 0)
            printf("%zu %d\n", page, nodes[page]);
    return 0;
}
