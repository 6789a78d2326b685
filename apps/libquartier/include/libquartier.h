/*
 * libquartier.h: the decision tree (DQDT) of Quartier for C programs.
 *
 * The tree tells where a thread, a process or pages should go on a machine with several memory nodes,
 * from three estimates of each neighbourhood (ALMOS thesis, 4.3.1):
 *
 *   T  active threads, exact; counted by whoever places them
 *   U  utilisation of CPUs, 0 to 100 percent, a moving average over four ticks
 *   M  free memory, in base pages
 *
 * It lies in memory that processes share (/dev/shm/quartier, or one of the user's own), so programs see
 * each other's threads. Where there is none to share, a process has its own. A decision makes no
 * system call and takes no lock. All functions may be called from any thread.
 *
 * CPUs and nodes are the kernel's own numbers. Link with -lquartier.
 *
 *     struct quartier_tree *tree = quartier_tree_open(NULL, NULL, 0);
 *     struct quartier_place place;
 *     if (tree && quartier_place_thread(tree, sched_getcpu(), QUARTIER_THESIS, NULL, 0, &place) == 0) {
 *         ... create a thread that runs on place.cpu ...
 *         quartier_release(tree, &place);        // when it has ended
 *     }
 *
 * Errors are negative errno values:
 *   -EINVAL   a pointer or a value that is none
 *   -ENODEV   no CPU, or no node, that is allowed and will do
 *   -ENODATA  the estimate is not known (absent is not zero)
 */
#ifndef LIBQUARTIER_H
#define LIBQUARTIER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A decision tree with its estimates. */
struct quartier_tree;

/* Where something goes. */
struct quartier_place {
    int32_t cpu;      /* the CPU; -1 for pages */
    int32_t node;     /* its node; -1 where the kernel does not tell */
    int32_t attempt;  /* 1, 2 or 3: which attempt of the thesis succeeded; 0 for pages */
    uint32_t visited; /* clusters whose estimates were read */
    int64_t record;   /* for quartier_release; -1: not counted (the tree may only be read, or is full) */
};

/* Which node a thread goes to when its creator's has no idle CPU. */
enum quartier_strategy {
    QUARTIER_THESIS = 0, /* the emptiest */
    QUARTIER_PACKED = 1, /* the fullest that has an idle CPU */
    QUARTIER_SPREAD = 2  /* the emptiest of all, from the start */
};

/*
 * Opens the tree in a directory; NULL: the machine's if there is one, else one that the user's programs
 * share, else one of this process. Returns NULL when a directory was named and cannot be used; `why`
 * (if not NULL, `why_bytes` long) then holds one sentence. With NULL for the directory it fails only
 * where the machine cannot be read, and `why` may say why nothing is shared.
 */
struct quartier_tree *quartier_tree_open(const char *directory, char *why, size_t why_bytes);

/* Takes every thread of this process that was placed through it off, and closes it. NULL is ignored. */
void quartier_tree_close(struct quartier_tree *tree);

/* 1 if other processes share it, 0 if it is this process's own. */
int quartier_tree_is_shared(const struct quartier_tree *tree);

/*
 * Chooses a CPU for a new thread of a thread on `creator_cpu` (-1: unknown) and counts it there
 * (thesis 4.3.3, item 1). `allowed` is a mask as sched_getaffinity(2) gives it, `allowed_bytes` long;
 * NULL: the calling thread's own. Returns 0.
 */
int quartier_place_thread(struct quartier_tree *tree, int creator_cpu, enum quartier_strategy strategy,
                          const void *allowed, size_t allowed_bytes, struct quartier_place *place);

/* The same for a process that one on `parent_cpu` forks (item 2). */
int quartier_place_fork(struct quartier_tree *tree, int parent_cpu, const void *allowed,
                        size_t allowed_bytes, struct quartier_place *place);

/*
 * The same for a new program (item 3), on a node with more than `free_pages_min` free base pages if
 * there is one (0: not asked for). `seed` decides among equals: give another one each time.
 */
int quartier_place_exec(struct quartier_tree *tree, uint64_t free_pages_min, uint64_t seed,
                        const void *allowed, size_t allowed_bytes, struct quartier_place *place);

/* A CPU to which a thread of the overloaded `initiator_cpu` may move (4.3.4); it is counted there, and
 * the caller releases its former place. */
int quartier_place_balance(struct quartier_tree *tree, int initiator_cpu, const void *allowed,
                           size_t allowed_bytes, struct quartier_place *place);

/*
 * The nearest node to `from_node` (-1: unknown) that has `nr_pages` free base pages and, if
 * `block_order` is not negative, a free block of 2^block_order of them (4.3.2). Nothing is counted.
 */
int quartier_place_pages(struct quartier_tree *tree, int from_node, uint64_t nr_pages, int block_order,
                         struct quartier_place *place);

/* A place is not used any more. Returns 0, or -EINVAL when it was not counted, or was released. */
int quartier_release(struct quartier_tree *tree, struct quartier_place *place);

/* T of a CPU; negative: an error. */
int64_t quartier_threads_on_cpu(const struct quartier_tree *tree, int cpu);

/* T of a node. */
int64_t quartier_threads_on_node(const struct quartier_tree *tree, int node);

/* U of a CPU, in percent. */
int quartier_usage_of_cpu(const struct quartier_tree *tree, int cpu);

/* U of a node, in percent. */
int quartier_usage_of_node(const struct quartier_tree *tree, int node);

/* M of a node, in base pages. */
int64_t quartier_free_pages_of_node(const struct quartier_tree *tree, int node);

#ifdef __cplusplus
}
#endif

#endif
