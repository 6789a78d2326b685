"""The largest eigenvalue of a matrix by power iteration, and where the matrix ended up.

The matrix is filled by one thread; every product is computed by OpenBLAS in all threads. Nothing
here places anything: after each product the kernel is asked where each page of the matrix is, and
where each thread ran last.
"""

import ctypes
import json
import os
import sys

import numpy

SYS_MOVE_PAGES = 279
PAGE = 4096


def thread_nodes():
    """The node on which each thread ran last, in the order in which the threads began."""
    nodes = []
    for thread in sorted(int(name) for name in os.listdir("/proc/self/task")):
        with open(f"/proc/self/task/{thread}/stat") as stat:
            cpu = stat.read().rpartition(")")[2].split()[36]
        folder = os.listdir(f"/sys/devices/system/cpu/cpu{cpu}")
        nodes.append(next(int(name[4:]) for name in folder if name.startswith("node")))
    return nodes


class Pages:
    """The pages of an array, and on which nodes they are."""

    def __init__(self, array):
        first = -(-array.ctypes.data // PAGE)
        last = (array.ctypes.data + array.nbytes) // PAGE
        self.pages = (ctypes.c_void_p * (last - first))(*range(first * PAGE, last * PAGE, PAGE))
        self.libc = ctypes.CDLL(None, use_errno=True)

    def nodes(self):
        """move_pages(2) without targets moves nothing and tells."""
        count = ctypes.c_ulong(len(self.pages))
        nodes = (ctypes.c_int * len(self.pages))()
        if self.libc.syscall(SYS_MOVE_PAGES, 0, count, self.pages, None, nodes, 0) != 0:
            raise OSError(ctypes.get_errno(), "move_pages")
        return numpy.array(nodes)


def main():
    size, rounds, nr_nodes = (int(word) for word in sys.argv[1:])
    matrix = numpy.random.default_rng(1).random((size, size))
    vector = numpy.ones(size)
    pages = Pages(matrix)
    changes, before, right_after = 0, None, []
    for _ in range(rounds):
        product = matrix @ vector
        eigenvalue = numpy.linalg.norm(product)
        vector = product / eigenvalue
        now = thread_nodes()
        changes += sum(old != new for old, new in zip(before or now, now))
        before = now
        parts = numpy.array_split(pages.nodes(), len(now))
        right_after.append(sum(int((part == node).sum()) for part, node in zip(parts, now)))
    print(json.dumps({
        "eigenvalue": repr(float(eigenvalue)),
        "thread_nodes": now,
        "node_changes": changes,
        "right_after": right_after,
        "parts": [[int((part == node).sum()) for node in range(nr_nodes)] for part in parts],
    }))


main()
