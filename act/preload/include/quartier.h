/*
 * quartier.h: what a program may say to the runtime that `quartier run` loads into it.
 *
 * Nothing has to be linked: the symbols are weak, and null in a program that runs by itself.
 *
 *     if (quartier_next_touch)
 *         quartier_next_touch(matrix, bytes);
 */
#ifndef QUARTIER_H
#define QUARTIER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Marks the pages of [address, address + bytes) that are resident, private and anonymous: the first
 * thread to touch a block of them gets the block on its own node (ALMOS thesis, 4.4.2 and 4.4.3).
 * Blocks until the marking is done, about 0.1 microseconds per 4 KiB page. The range need not be
 * aligned: pages that it covers in part are marked whole. May be called from any thread.
 *
 * Returns 0 when the range was marked as far as the kernel allows (`quartier run --report` counts
 * what it did not), and -1 with errno set when it was not:
 *   ENOSYS   this process runs without the runtime;
 *   EPERM    Auto-Next-Touch is off here: another policy, QUARTIER_NEXT_TOUCH=off, no kernel
 *            interface for it, or the program or its user (numactl) placed memory; the report says
 *            which;
 *   EAGAIN   forks, or changes of the process's mappings, went on for a second: try again.
 */
extern int quartier_next_touch(const void *address, size_t bytes) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
