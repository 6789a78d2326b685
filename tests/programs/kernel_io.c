// The kernel reads and writes marked memory on behalf of the program: io_uring, with its own workers and
// with registered buffers (pinned pages), and direct I/O, while the memory is marked again and again.
#include "hazard.h"
#include <linux/io_uring.h>

enum { BYTES = MIB, BLOCK = 64 << 10, BLOCKS = BYTES / BLOCK, ENTRIES = 32 };

struct ring {
    int fd;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *results;
};

static struct ring set_up(void) {
    struct io_uring_params params = {0};
    int both = PROT_READ | PROT_WRITE;
    struct ring ring = {.fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params)};
    if (ring.fd < 0) skip("no io_uring here: %s", strerror(errno));
    size_t sq = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    char *sq_map = mmap(NULL, sq, both, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
    char *cq_map = mmap(NULL, cq, both, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_CQ_RING);
    ring.entries = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), both, MAP_SHARED | MAP_POPULATE,
                        ring.fd, IORING_OFF_SQES);
    must(sq_map != MAP_FAILED && cq_map != MAP_FAILED && ring.entries != MAP_FAILED, "rings");
    ring.sq_tail = (unsigned *)(sq_map + params.sq_off.tail);
    ring.sq_mask = (unsigned *)(sq_map + params.sq_off.ring_mask);
    ring.sq_array = (unsigned *)(sq_map + params.sq_off.array);
    ring.cq_head = (unsigned *)(cq_map + params.cq_off.head);
    ring.cq_tail = (unsigned *)(cq_map + params.cq_off.tail);
    ring.cq_mask = (unsigned *)(cq_map + params.cq_off.ring_mask);
    ring.results = (struct io_uring_cqe *)(cq_map + params.cq_off.cqes);
    return ring;
}

// All blocks at once, by workers of the kernel; marks while they are under way, then waits for them.
static void transfer(struct ring *ring, int opcode, int file, char *memory) {
    unsigned tail = *ring->sq_tail;
    for (unsigned block = 0; block < BLOCKS; block++, tail++) {
        unsigned slot = tail & *ring->sq_mask;
        ring->entries[slot] = (struct io_uring_sqe){
            .opcode = opcode, .flags = IOSQE_ASYNC, .fd = file, .off = block * BLOCK, .len = BLOCK,
            .addr = (uintptr_t)memory + block * BLOCK, .user_data = block,
        };
        ring->sq_array[slot] = slot;
    }
    __atomic_store_n(ring->sq_tail, tail, __ATOMIC_RELEASE);
    must(syscall(SYS_io_uring_enter, ring->fd, BLOCKS, 0, 0, NULL, 0) == BLOCKS, "submit");
    mark(memory, BYTES);
    for (int left = BLOCKS; left > 0;) {
        must(syscall(SYS_io_uring_enter, ring->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) >= 0, "wait");
        unsigned head = *ring->cq_head;
        for (; head != __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE); head++, left--) {
            struct io_uring_cqe *result = &ring->results[head & *ring->cq_mask];
            must(result->res == BLOCK, "opcode %d, block %d: %d", opcode, (int)result->user_data, result->res);
        }
        __atomic_store_n(ring->cq_head, head, __ATOMIC_RELEASE);
    }
}

static void *touch(void *memory) {
    check(memory, BYTES, "in a thread");
    return NULL;
}

static void round_trip(struct ring *ring, int write, int read, int file, char *from, char *to, const char *what) {
    pthread_t thread;
    must(!ftruncate(file, 0) && !ftruncate(file, BYTES), "truncate");
    memset(to, 0, BYTES);
    mark(from, BYTES);
    mark(to, BYTES);
    transfer(ring, write, file, from);
    transfer(ring, read, file, to);
    check(to, BYTES, what);
    must(!pthread_create(&thread, NULL, touch, from), "create");
    pthread_join(thread, NULL);
}

// The program's own calls, with whole blocks, past the page cache.
static void direct(int file, char *from, char *to) {
    mark(from, BYTES);
    must(pwrite(file, from, BYTES, 0) == BYTES, "direct write");
    memset(to, 0, BYTES);
    mark(to, BYTES);
    must(pread(file, to, BYTES, 0) == BYTES, "direct read");
    check(to, BYTES, "direct");
}

int main(void) {
    struct ring ring = set_up();
    int file = memfd_create("kernel_io", 0);
    char *from = marked(BYTES), *to = map(BYTES);
    must(file >= 0, "memfd");
    for (int i = 0; i < 4; i++) round_trip(&ring, IORING_OP_WRITE, IORING_OP_READ, file, from, to, "io_uring");
    struct iovec buffers[] = {{from, BYTES}, {to, BYTES}};
    mark(from, BYTES);
    if (!syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, buffers, 2)) {
        // `buf_index` 0 is `from`: pinned now, so it stays where it is, and is written and read there.
        for (int i = 0; i < 4; i++) {
            must(!ftruncate(file, 0) && !ftruncate(file, BYTES), "truncate");
            mark(from, BYTES);
            transfer(&ring, IORING_OP_WRITE_FIXED, file, from);
            memset(from, 0, BYTES);
            mark(from, BYTES);
            transfer(&ring, IORING_OP_READ_FIXED, file, from);
            check(from, BYTES, "registered buffers");
        }
        must(!syscall(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_BUFFERS, NULL, 0), "unregister");
    } else {
        printf("no registered buffers here: %s\n", strerror(errno));
    }
    int disk = open("/var/tmp", O_TMPFILE | O_RDWR | O_DIRECT, 0600);
    if (disk < 0) disk = open("/tmp", O_TMPFILE | O_RDWR | O_DIRECT, 0600);
    if (disk < 0) {
        printf("no direct I/O here: %s\n", strerror(errno));
        return done();
    }
    direct(disk, from, to);
    round_trip(&ring, IORING_OP_WRITE, IORING_OP_READ, disk, from, to, "direct io_uring");
    return done();
}
