"""The largest eigenvalue of a matrix by power iteration: NumPy with OpenBLAS.

    power.py SIZE ROUNDS [by-hand]

One thread fills the matrix; every product is computed in all threads, each on its own rows. With
`by-hand` the program moves the rows of thread i of n to node i * nodes / n before the first product, as
somebody would who knows how OpenBLAS divides them, and who binds its threads (OMP_PLACES).
"""

import ctypes
import os
import sys

import numpy

SYS_MOVE_PAGES = 279
MPOL_MF_MOVE = 2
PAGE = 4096


def move(array, threads, nodes):
    first = -(-array.ctypes.data // PAGE)
    count = (array.ctypes.data + array.nbytes) // PAGE - first
    pages = (ctypes.c_void_p * count)(*range(first * PAGE, (first + count) * PAGE, PAGE))
    homes = (ctypes.c_int * count)(*(i * threads // count * nodes // threads for i in range(count)))
    status = (ctypes.c_int * count)()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(SYS_MOVE_PAGES, 0, ctypes.c_ulong(count), pages, homes, status, MPOL_MF_MOVE)


def main():
    size, rounds = int(sys.argv[1]), int(sys.argv[2])
    matrix = numpy.random.default_rng(1).random((size, size))
    vector = numpy.ones(size)
    if "by-hand" in sys.argv:
        move(matrix, int(os.environ["OMP_NUM_THREADS"]), 4)
    for _ in range(rounds):
        product = matrix @ vector
        vector = product / numpy.linalg.norm(product)
    print(numpy.linalg.norm(matrix @ vector))


main()
