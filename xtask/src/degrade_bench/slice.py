"""Runs a command whose threads have time slices of their own (EEVDF, from Linux 6.12 on): slice.py NANOSECONDS COMMAND..."""
import ctypes
import os
import sys

SYS_SCHED_SETATTR, SYS_SCHED_GETATTR = 314, 315


class Attributes(ctypes.Structure):
    """struct sched_attr of <linux/sched/types.h>; what it calls the run time is the slice of an ordinary task."""
    _fields_ = [("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64),
                ("nice", ctypes.c_int32), ("priority", ctypes.c_uint32), ("runtime", ctypes.c_uint64),
                ("deadline", ctypes.c_uint64), ("period", ctypes.c_uint64)]


def call(number, attributes, last):
    if libc.syscall(number, 0, ctypes.byref(attributes), *last) != 0:
        sys.exit(f"slice.py: {os.strerror(ctypes.get_errno())}")


libc = ctypes.CDLL(None, use_errno=True)
wanted = int(sys.argv[1])
attributes = Attributes(size=ctypes.sizeof(Attributes), runtime=wanted)
call(SYS_SCHED_SETATTR, attributes, [0])
call(SYS_SCHED_GETATTR, attributes, [ctypes.sizeof(Attributes), 0])
if attributes.runtime != wanted:
    sys.exit(f"slice.py: the kernel has no slices for each task (Linux 6.12): it says {attributes.runtime} ns")
os.execvp(sys.argv[2], sys.argv[2:])
