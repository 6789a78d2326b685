"""Runs in a guest: half of the processes compute, half go over memory that is far from them. Whoever is asked to mends
that, and it is looked who comes to be beside its memory, and when. A line of JSON for each look, and one at the end.

    mix.py CPUS_PER_NODE NODES POLICY MIB SECONDS COMMAND...

COMMAND is the daemon that mends it. All memory is filled on node 0, whose CPUs are given to those that compute; as many
processes as there are CPUs run. Nobody has an affinity when it begins.
"""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time

from guest import children, cpu_of, cpu_seconds, keep_in_memory, moved, pages_on, read, run_on, start, stat

CPUS_PER_NODE, NODES = map(int, sys.argv[1:3])
POLICY = sys.argv[3]
MIB, SECONDS = map(int, sys.argv[4:6])
DAEMON = sys.argv[6:]
CPUS = CPUS_PER_NODE * NODES
HALF = CPUS // 2
EVERY = 2


def own_pages(pid):
    return pages_on(pid, NODES)


def stress(cpus, *options):
    """Its children inherit the CPUs."""
    name = f"/tmp/stress-{len(mix)}"
    with open(name, "w") as said:
        process = subprocess.Popen(
            ["stress-ng", *options, "--metrics-brief", "--temp-path", "/tmp", "--timeout", "3600"],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    mix.append((process, name))
    return process


def worker(process):
    """The one of its processes that has its memory, or computes."""
    return max(children(process.pid), key=lambda pid: (sum(own_pages(pid)), pid))


def begin():
    """Starts all, fills memory on node 0, and leaves each where it is worst."""
    home = set(range(CPUS_PER_NODE))
    bound = []
    for at in range(HALF):
        kind = ["--vm", "1", "--vm-keep", "--vm-method", "write64", "--vm-bytes", f"{MIB}M"]
        if at % 2:
            kind = ["--memrate", "1", "--memrate-bytes", f"{MIB}M"]
        bound.append(stress(home, *kind))
    until = time.time() + 300
    while any(sum(own_pages(worker(process))) < MIB << 20 for process in bound):
        if time.time() > until:
            sys.exit("memory is not filled after 300 s")
        time.sleep(1)
    methods = ["matrixprod", "int64", "queens", "prime"]
    anywhere = set(range(CPUS))
    computing = [stress(anywhere, "--cpu", "1", "--cpu-method", methods[at % 4]) for at in range(HALF)]
    time.sleep(3)
    # Those with memory on node 0 run elsewhere, one on each CPU.
    far = list(range(CPUS_PER_NODE, CPUS))
    step = len(far) / HALF
    places = [far[int(at * step)] for at in range(HALF)]
    rest = sorted(set(range(CPUS)) - set(places))
    for process, cpu in [*zip(bound, places), *zip(computing, rest)]:
        run_on(process.pid, {cpu})
    time.sleep(3)
    for process, _ in mix:
        run_on(process.pid, anywhere)
    return [worker(process) for process in bound + computing]


def look(since, workers):
    per_process = [(cpu_of(stat(pid)) // CPUS_PER_NODE, own_pages(pid)) for pid in workers]
    local = sum(on[node] for node, on in per_process)
    resident = sum(sum(on) for _, on in per_process)
    line = {"seconds": round(time.time() - since, 2), "local_bytes": local, "resident_bytes": resident}
    print(json.dumps({"look": line}), flush=True)


def work():
    """Bogo operations of each kind, by stress-ng's own count."""
    done = {}
    for process, _ in mix:
        process.send_signal(signal.SIGINT)
    for process, name in mix:
        process.wait(60)
        for kind, operations in re.findall(r"\] +(vm|memrate|cpu) +(\d+) ", read(name)):
            done[kind] = done.get(kind, 0) + int(operations)
    return done


mix = []
with open("/proc/sys/kernel/numa_balancing", "w") as file:
    file.write("1" if POLICY == "numa-balancing" else "0")
if DAEMON:
    keep_in_memory(DAEMON[0])
workers = begin()
filled = [sum(own_pages(pid)) for pid in workers[:HALF]]
moved_before, since = moved(), time.time()
look(since, workers)
said = []
if DAEMON:
    os.chdir("/tmp")
    _, said = start(DAEMON, since)
while time.time() < since + SECONDS:
    time.sleep(EVERY)
    look(since, workers)
moved_bytes = moved() - moved_before
spent = 0.0
if DAEMON:
    name = os.path.basename(DAEMON[0])
    # numad goes into the background.
    pids = [int(path.split("/")[2]) for path in glob.glob("/proc/[0-9]*/comm") if read(path).strip() == name]
    spent = sum(cpu_seconds(stat(pid)) for pid in pids)
    if not pids:
        sys.exit(f"{name} has ended: {said}")
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
end = {
    "policy": POLICY,
    # As many as node 0 has CPUs can go home; the rest has to take its memory along.
    "least_bytes": sum(sorted(filled)[: max(0, HALF - CPUS_PER_NODE)]),
    "moved_bytes": moved_bytes,
    "daemon_cpu_seconds": spent,
    "work": work(),
}
for line in said:
    print(json.dumps({"said": line}), flush=True)
print(json.dumps({"end": end}), flush=True)
