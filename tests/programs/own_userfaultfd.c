// The program uses userfaultfd itself, by the system call or by /dev/userfaultfd, on memory that was
// marked: its own handler gets its faults, and other data stays right.
#include "hazard.h"
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>

enum { BYTES = MIB };
static int uffd;

static void *handler(void *nothing) {
    static char page[PAGE] __attribute__((aligned(PAGE)));
    for (size_t i = 0; i < BYTES / PAGE; i++) {
        struct uffd_msg message;
        if (read(uffd, &message, sizeof message) != sizeof message) break;
        must(message.event == UFFD_EVENT_PAGEFAULT, "event %d", message.event);
        memset(page, 'u', sizeof page);
        struct uffdio_copy copy = {.dst = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1),
                                   .src = (uint64_t)page, .len = PAGE};
        must(!ioctl(uffd, UFFDIO_COPY, &copy), "copy");
    }
    return nothing;
}

static int open_one(int by_device) {
    if (!by_device) return (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (device < 0) return -1;
    int fd = ioctl(device, _IO(0xAA, 0), O_CLOEXEC);
    close(device);
    return fd;
}

static void serve_ourselves(int by_device) {
    char *other = marked(4 * MIB), *memory = marked(BYTES);
    pthread_t thread;
    uffd = open_one(by_device);
    if (uffd < 0) skip("no userfaultfd of the program's own");
    struct uffdio_api api = {.api = UFFD_API};
    must(!ioctl(uffd, UFFDIO_API, &api), "api");
    check(memory, BYTES, "before it is the program's");
    must(!madvise(memory, BYTES, MADV_DONTNEED), "dontneed");
    struct uffdio_register range = {.range = {(uint64_t)memory, BYTES}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    int registered = ioctl(uffd, UFFDIO_REGISTER, &range);
    must(!registered, "the program cannot register what was marked (by %s)", by_device ? "device" : "call");
    must(!pthread_create(&thread, NULL, handler, NULL), "thread");
    mark(memory, BYTES);
    for (size_t i = 0; i < BYTES; i += PAGE) must(memory[i] == 'u', "page %zu is not as the handler made it", i / PAGE);
    mark(memory, BYTES);
    for (size_t i = 0; i < BYTES; i += PAGE) must(memory[i] == 'u', "page %zu, marked again", i / PAGE);
    pthread_join(thread, NULL);
    check(other, 4 * MIB, "other memory");
    close(uffd);
}

int main(int argc, char **argv) {
    alarm(30);
    int by_device = argc > 1 && !strcmp(argv[1], "device");
    serve_ourselves(by_device);
    return done();
}
