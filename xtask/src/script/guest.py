"""What scripts that run in a guest ask of its kernel."""
import os
import re
import subprocess
import threading
import time

PAGE = 4096
TICKS = os.sysconf("SC_CLK_TCK")
# As its unit starts it.
NICE = {"quartierd": -10}


def read(path):
    with open(path) as file:
        return file.read()


def children(pid):
    """A process with all that descend from it, as far as they are still there."""
    try:
        below = read(f"/proc/{pid}/task/{pid}/children").split()
    except OSError:
        return []
    return [pid] + [each for child in below for each in children(int(child))]


def threads(pid):
    """Those of a process that is still there."""
    try:
        return [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def still_there(ask, tasks):
    """What is to be known of tasks, of those that have not ended meanwhile."""
    answers = []
    for task in tasks:
        try:
            answers.append(ask(task))
        except OSError:
            pass
    return answers


def all_threads(pid):
    """Those of a process and of all that descend from it."""
    return [tid for each in children(pid) for tid in threads(each)]


def run_on(pid, cpus):
    """Gives all of them these CPUs."""
    still_there(lambda tid: os.sched_setaffinity(tid, cpus), all_threads(pid))


def pages_on(pid, nodes, is_counted=lambda line: "file=" not in line):
    """Bytes per node of some of its mappings; what is its own if nobody says which."""
    on = [0] * nodes
    for line in read(f"/proc/{pid}/numa_maps").splitlines():
        if not is_counted(line):
            continue
        size = int(re.search(r"kernelpagesize_kB=(\d+)", line)[1]) << 10 if "kernelpagesize" in line else PAGE
        for node, pages in re.findall(r" N(\d+)=(\d+)", line):
            on[int(node)] += int(pages) * size
    return on


def stat(pid, tid=None):
    """Fields of proc(5) stat after the name, of a process or one of its threads: the first is field 3."""
    path = f"/proc/{pid}/stat" if tid is None else f"/proc/{pid}/task/{tid}/stat"
    return read(path).rsplit(")", 1)[1].split()


def cpu_of(fields):
    """Where it ran last: field 39."""
    return int(fields[36])


def cpu_seconds(fields):
    return (int(fields[11]) + int(fields[12])) / TICKS


def moved():
    """Bytes that the kernel has moved between nodes since it started."""
    return int(re.search(r"^pgmigrate_success (\d+)", read("/proc/vmstat"), re.M)[1]) * PAGE


def keep_in_memory(program):
    """A daemon that a machine starts with does not have to be read first while all its CPUs are busy."""
    with open(program, "rb") as file:
        while file.read(1 << 20):
            pass


def start(command, since):
    """A daemon, and what it says from now on: lines, and when."""
    nice = NICE.get(os.path.basename(command[0]), 0)
    daemon = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: os.nice(nice))
    said = []

    def listen():
        for line in daemon.stdout:
            said.append({"seconds": round(time.time() - since, 2), "line": line.rstrip()})

    threading.Thread(target=listen, daemon=True).start()
    return daemon, said
