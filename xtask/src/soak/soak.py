"""Runs in a guest: processes begin far from their memory and end again, one after the other, while quartierd brings them
together. A line of JSON now and then says what quartierd has, and one at the end what it left behind.

    soak.py CPUS_PER_NODE NODES SECONDS EVERY COMMAND...

COMMAND is quartierd; its journal is /tmp/journal, its log /tmp/log.
"""
import glob
import json
import os
import signal
import subprocess
import sys
import time

from guest import all_threads, cpu_seconds, moved, read, run_on, start, stat, still_there

CPUS_PER_NODE, NODES, SECONDS, EVERY = map(int, sys.argv[1:5])
DAEMON = sys.argv[5:]
ANYWHERE = set(range(CPUS_PER_NODE * NODES))
MIB = 16
LIVES = 30
BEGINS_EVERY = 5


def on_node(node):
    return set(range(node % NODES * CPUS_PER_NODE, (node % NODES + 1) * CPUS_PER_NODE))


def begin(nr):
    """Fills its memory on one node, and is on another then."""
    process = subprocess.Popen(
        ["stress-ng", "--vm", "1", "--vm-keep", "--vm-method", "write64", "--vm-bytes", f"{MIB}M", "--timeout",
         str(LIVES), "--temp-path", "/tmp"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, on_node(nr)))
    time.sleep(2)
    run_on(process.pid, on_node(nr + 1 + nr % (NODES - 1)))
    time.sleep(0.2)
    run_on(process.pid, ANYWHERE)
    return process


def look(nr, pid):
    status = dict(line.split(":", 1) for line in read(f"/proc/{pid}/status").splitlines() if ":" in line)
    line = {
        "seconds": round(time.time() - since, 1),
        "processes_begun": nr,
        "cpu_seconds": cpu_seconds(stat(pid)),
        "resident_bytes": int(status["VmRSS"].split()[0]) << 10,
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "journal_bytes": os.path.getsize("/tmp/journal"),
        "log_bytes": sum(map(os.path.getsize, glob.glob("/tmp/log*"))),
        "moved_bytes": moved() - moved_before,
    }
    print(json.dumps({"look": line}), flush=True)


with open("/proc/sys/kernel/numa_balancing", "w") as file:
    file.write("0")
os.chdir("/tmp")
since, moved_before = time.time(), moved()
daemon, said = start(DAEMON, since)
alive, nr, next_look = [], 0, EVERY
while time.time() < since + SECONDS:
    began = time.time()
    alive = [process for process in alive if process.poll() is None]
    alive.append(begin(nr))
    nr += 1
    if daemon.poll() is not None:
        sys.exit(f"quartierd has ended: {said[-5:]}")
    if time.time() >= since + next_look:
        look(nr, daemon.pid)
        next_look += EVERY
    time.sleep(max(0.0, began + BEGINS_EVERY - time.time()))
daemon.send_signal(signal.SIGTERM)
status = daemon.wait(120)
alive_tids = [tid for process in alive for tid in all_threads(process.pid)]
held = sum(cpus != ANYWHERE for cpus in still_there(os.sched_getaffinity, alive_tids))
for process in alive:
    process.terminate()
print(json.dumps({"end": {"status": status, "left_behind": held}}), flush=True)
