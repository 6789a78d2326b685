"""The largest eigenvalue of a matrix by power iteration: NumPy with OpenBLAS.

    power.py SIZE ROUNDS [by-hand]

One thread fills the matrix; every product is computed in all threads, each on its own rows. With
`by-hand` the program binds the rows of thread i of n to node i * nodes / n before it fills them, as
somebody would who knows how OpenBLAS divides them. OpenMP binds its threads itself (OMP_PLACES); threads
that are there already, as OpenBLAS makes them without OpenMP, are bound to CPU i. What it computed is
printed, and added to results.txt if that may be written.
"""

import ctypes
import os
import sys

import numpy

SYS_MBIND = 237
MPOL_BIND = 2
PAGE = 4096
NODES = 4


def bind(array):
    libc = ctypes.CDLL(None, use_errno=True)
    page = -(-array.ctypes.data // PAGE)
    pages = (array.ctypes.data + array.nbytes) // PAGE - page
    for node in range(NODES):
        # Borders between threads of one node need none.
        first, end = (page + pages * part // NODES for part in (node, node + 1))
        mask = ctypes.c_ulong(1 << node)
        arguments = first * PAGE, (end - first) * PAGE, MPOL_BIND, ctypes.byref(mask), 64, 0
        if libc.syscall(SYS_MBIND, *map(as_long, arguments)) != 0:
            sys.exit(f"mbind: {os.strerror(ctypes.get_errno())}")


def pin():
    threads = sorted(int(thread) for thread in os.listdir("/proc/self/task"))
    if len(threads) > 1:
        for cpu, thread in enumerate(threads):
            os.sched_setaffinity(thread, [cpu])


def as_long(argument):
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def main():
    size, rounds = int(sys.argv[1]), int(sys.argv[2])
    matrix = numpy.empty((size, size))
    if "by-hand" in sys.argv:
        bind(matrix)
        pin()
    numpy.random.default_rng(1).random(out=matrix)
    vector = numpy.ones(size)
    for _ in range(rounds):
        product = matrix @ vector
        vector = product / numpy.linalg.norm(product)
    result = float(numpy.linalg.norm(matrix @ vector))
    print(result)
    if os.access("results.txt", os.W_OK):
        with open("results.txt", "a") as file:
            print(result, file=file)


main()
