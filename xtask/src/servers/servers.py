"""Runs in a guest: a server whose memory was filled on node 0 and whose threads are elsewhere, under load, beside a daemon
that brings them together. A line of JSON for each look at where its threads and memory are, and one at the end.

    servers.py CPUS_PER_NODE NODES SERVER SECONDS FOLDER COMMAND...

SERVER is postgresql, mariadb, memcached or apache, from the machine or FOLDER; COMMAND is the daemon, if there is one. It starts when the load has begun.
"""
import glob
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from guest import all_threads, children, cpu_of, cpu_seconds, moved, pages_on, read, run_on, start, stat, still_there, threads

CPUS_PER_NODE, NODES = map(int, sys.argv[1:3])
SECONDS = int(sys.argv[4])
FOLDER = sys.argv[5]
DAEMON = sys.argv[6:]
EVERY = 2
NOBODY = 65534
HOST = "127.0.0.1"
HOME = set(range(CPUS_PER_NODE))
ANYWHERE = set(range(CPUS_PER_NODE * NODES))
FAR = ANYWHERE - HOME
# What every client does at the same time.
CLIENTS = 4


def run(command, **options):
    """Waits for a command, and ends with what it said if it fails."""
    if "input" not in options:
        options["stdin"] = subprocess.DEVNULL
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **options)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def serve(command, **options):
    """A server, on node 0."""
    log = open("/tmp/server", "w")
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                            preexec_fn=lambda: os.sched_setaffinity(0, HOME), **options)


def wait_for(port):
    until = time.time() + 120
    while time.time() < until:
        try:
            return socket.create_connection((HOST, port), 1).close()
        except OSError:
            time.sleep(0.5)
    sys.exit(f"nobody listens at {port}: {read('/tmp/server')}")


class Postgresql:
    """pgbench's own mix of transactions, which writes. Its backends have little memory of their own: what all of them use
    is shared, and nobody may move that."""
    port = 5432

    def __init__(self):
        folder = sorted(glob.glob(f"{FOLDER}/usr/lib/postgresql/*/bin") + glob.glob("/usr/lib/postgresql/*/bin"))
        if not folder:
            sys.exit("PostgreSQL is not there")
        self.bin = folder[-1]
        self.user = {"user": NOBODY, "group": NOBODY, "env": {**os.environ, "HOME": "/tmp", "PGHOST": "/tmp"}}
        run([f"{self.bin}/initdb", "-D", "/tmp/data", "-U", "postgres", "-A", "trust"], **self.user, cwd="/tmp")
        self.process = serve([f"{self.bin}/postgres", "-D", "/tmp/data", "-k", "/tmp", "-c", "shared_buffers=128MB"],
                             **self.user)
        wait_for(self.port)
        run([f"{self.bin}/pgbench", "-h", "/tmp", "-U", "postgres", "-i", "-q", "-s", "2", "postgres"], **self.user)

    def load(self):
        command = [f"{self.bin}/pgbench", "-h", "/tmp", "-U", "postgres", "-n", "-c", str(CLIENTS), "-T", str(SECONDS),
                   "postgres"]
        said = run(command, **self.user)
        done = int(re.search(r"transactions actually processed: (\d+)", said)[1])
        failed = int(re.search(r"failed transactions: (\d+)", said)[1])
        return done, failed

    def stop(self):
        self.process.send_signal(signal.SIGINT)


class Mariadb:
    """sysbench's own mix of transactions, which writes (UNAS has MySQL beside Apache). All its memory is the own one of one process
    with a thread for each client."""
    port = 3306
    TABLES = ["--tables=4", "--table-size=20000"]

    def __init__(self):
        base = next((root for root in (f"{FOLDER}/usr", "/usr") if os.path.exists(f"{root}/sbin/mariadbd")), None)
        if not base:
            sys.exit("MariaDB is not there")
        # Nothing of the machine's configuration, and messages where they are.
        own = ["--no-defaults", "--user=nobody", "--datadir=/tmp/data", f"--lc-messages-dir={base}/share/mysql"]
        os.makedirs("/tmp/data")
        os.chown("/tmp/data", NOBODY, NOBODY)
        # mariadb-install-db does this, and more that a test has no need of.
        tables = [f"{base}/share/mysql/{name}.sql" for name in ("mysql_system_tables", "mysql_system_tables_data")]
        script = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n" + "".join(map(read, tables))
        run([f"{base}/sbin/mariadbd", *own, "--bootstrap", "--skip-grant-tables"], input=script)
        self.process = serve([f"{base}/sbin/mariadbd", *own, f"--bind-address={HOST}", f"--port={self.port}",
                              "--socket=/tmp/mariadb", "--skip-grant-tables", "--skip-networking=0",
                              "--innodb-buffer-pool-size=128M", "--pid-file=/tmp/data/pid"])
        wait_for(self.port)
        run([f"{base}/bin/mariadb", "--no-defaults", "-h", HOST, "-P", str(self.port), "-u", "root", "-e",
             "CREATE DATABASE sbtest"])
        self.bench("prepare")

    def bench(self, *what):
        folder = next(filter(os.path.exists, (f"{FOLDER}/usr/share/sysbench", "/usr/share/sysbench")))
        return run(["sysbench", f"{folder}/oltp_read_write.lua", f"--mysql-host={HOST}", f"--mysql-port={self.port}",
                    "--mysql-user=root", *self.TABLES, *what], env={**os.environ, "LUA_PATH": f"{folder}/?.lua"})

    def load(self):
        said = self.bench("--db-ps-mode=disable", f"--threads={CLIENTS}", f"--time={SECONDS}", "run")
        done = int(re.search(r"transactions: +(\d+)", said)[1])
        # A deadlock between two clients is told to one of them, which begins once more: that is no failure.
        failed = int(re.search(r"reconnects: +(\d+)", said)[1])
        return done, failed

    def stop(self):
        self.process.send_signal(signal.SIGTERM)


class Memcached:
    """Every value that comes back is compared with what was stored."""
    port = 11211
    ITEMS = 40_000
    COPIES = 500

    def __init__(self):
        self.process = serve(["memcached", "-u", "nobody", "-m", "1024", "-t", "2", "-l", HOST])
        wait_for(self.port)
        with socket.create_connection((HOST, self.port)) as server:
            for item in range(self.ITEMS):
                value = self.value(item)
                server.sendall(b"set %d 0 0 %d noreply\r\n%s\r\n" % (item, len(value), value))
            server.sendall(b"get %d\r\n" % (self.ITEMS - 1))
            server.makefile("rb").readline()

    def value(self, item):
        return b"%08d" % item * self.COPIES

    def client(self, seed):
        chosen = random.Random(seed)
        done = failed = 0
        with socket.create_connection((HOST, self.port), 60) as server:
            answers = server.makefile("rb")
            until = time.time() + SECONDS
            while time.time() < until:
                item = chosen.randrange(self.ITEMS)
                value = self.value(item)
                # One of ten is written again.
                if chosen.randrange(10) == 0:
                    server.sendall(b"set %d 0 0 %d\r\n%s\r\n" % (item, len(value), value))
                    failed += answers.readline() != b"STORED\r\n"
                else:
                    server.sendall(b"get %d\r\n" % item)
                    expected = b"VALUE %d 0 %d\r\n%s\r\nEND\r\n" % (item, len(value), value)
                    answer = answers.readline()
                    answer += answers.read(len(expected) - len(answer)) if answer != b"END\r\n" else b""
                    failed += answer != expected
                done += 1
        return done, failed

    def load(self):
        """Each client is a process of its own."""
        pipes = []
        for seed in range(CLIENTS):
            reads, writes = os.pipe()
            if os.fork() == 0:
                answer = "0 1"
                try:
                    answer = "{} {}".format(*self.client(seed))
                finally:
                    os.write(writes, answer.encode())
                    os._exit(0)
            os.close(writes)
            pipes.append(reads)
        answers = [os.fdopen(pipe).read().split() for pipe in pipes]
        return sum(int(done) for done, _ in answers), sum(int(failed) for _, failed in answers)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)


class Apache:
    """ab asks for a file of 64 KiB, on a new connection each time."""
    port = 8080

    def __init__(self):
        modules = next(iter(glob.glob("/usr/lib/apache2/modules") + glob.glob(f"{FOLDER}/usr/lib/apache2/modules")), None)
        if not modules:
            sys.exit("Apache is not there")
        os.makedirs("/tmp/www/logs", exist_ok=True)
        os.chmod("/tmp/www", 0o755)
        with open("/tmp/www/file", "w") as file:
            file.write("0123456789abcdef" * 4096)
        loaded = "\n".join(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in ("mpm_event", "authz_core"))
        with open("/tmp/www/conf", "w") as file:
            file.write(f"""ServerRoot /tmp/www
ServerName localhost
Listen {HOST}:{self.port}
{loaded}
DocumentRoot /tmp/www
PidFile /tmp/www/pid
ErrorLog /tmp/www/logs/error
User nobody
Group nogroup
StartServers 2
ThreadsPerChild 2
MaxRequestWorkers 8
""")
        self.process = serve(["apache2", "-f", "/tmp/www/conf", "-DFOREGROUND"])
        wait_for(self.port)
        run(["ab", "-q", "-n", "200", "-c", str(CLIENTS), f"http://{HOST}:{self.port}/file"])

    def load(self):
        said = run(["ab", "-q", "-n", "10000000", "-t", str(SECONDS), "-c", str(CLIENTS),
                    f"http://{HOST}:{self.port}/file"])
        done = int(re.search(r"Complete requests: +(\d+)", said)[1])
        failed = int(re.search(r"Failed requests: +(\d+)", said)[1])
        others = re.search(r"Non-2xx responses: +(\d+)", said)
        return done, failed + (int(others[1]) if others else 0)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)


def each_thread(pid):
    """Its threads that are still there, with their stat."""
    return still_there(lambda tid: (tid, stat(pid, tid)), threads(pid))


def look(server, since, before):
    """Of what is a process's own, the part on nodes where its threads ran since they were looked at before."""
    local = own = 0
    for pid in children(server.process.pid):
        try:
            on = pages_on(pid, NODES)
            ran = [0.0] * NODES
            for tid, fields in each_thread(pid):
                spent = cpu_seconds(fields)
                ran[cpu_of(fields) // CPUS_PER_NODE] += spent - before.get(tid, 0.0)
                before[tid] = spent
        except OSError:
            continue
        if sum(ran) > 0:
            own += sum(on)
            local += sum(part * there for part, there in zip(ran, on)) / sum(ran)
    line = {"seconds": round(time.time() - since, 2), "local_bytes": int(local), "resident_bytes": own}
    print(json.dumps({"look": line}), flush=True)


def shared(server):
    """Bytes per node that its processes share, of the one that has most."""
    is_shared = re.compile(r"file=(/dev/zero|/SYSV|/memfd|/dev/shm)").search
    each = still_there(lambda pid: pages_on(pid, NODES, is_shared), children(server.process.pid))
    return max(each, key=sum)


def left_behind(server):
    """Threads that are still held."""
    return sum(cpus != ANYWHERE for cpus in still_there(os.sched_getaffinity, all_threads(server.process.pid)))


os.environ["PATH"] = f"{FOLDER}/usr/bin:{FOLDER}/usr/sbin:{os.environ['PATH']}"
os.environ["LD_LIBRARY_PATH"] = f"{FOLDER}/usr/lib/x86_64-linux-gnu"
os.chdir("/tmp")
server = {"postgresql": Postgresql, "mariadb": Mariadb, "memcached": Memcached, "apache": Apache}[sys.argv[3]]()
run_on(server.process.pid, FAR)
answer, said = [], []
load = threading.Thread(target=lambda: answer.extend(server.load()))
load.start()
time.sleep(5)
run_on(server.process.pid, ANYWHERE)
since, before, moved_before = time.time(), {}, moved()
look(server, since, before)
daemon = None
if DAEMON:
    daemon, said = start(DAEMON, since)
while load.is_alive():
    load.join(EVERY)
    # Whoever served it may have gone with the load.
    if load.is_alive():
        look(server, since, before)
if not answer:
    sys.exit(f"the load did not end well: {read('/tmp/server')}")
moved_bytes = moved() - moved_before
daemon_cpu_seconds = 0.0
if daemon:
    daemon_cpu_seconds = cpu_seconds(stat(daemon.pid))
    daemon.send_signal(signal.SIGTERM)
    if daemon.wait(120):
        sys.exit(f"the daemon ended with {daemon.returncode}: {said}")
end = {
    "server": sys.argv[3],
    "done": answer[0],
    "failed": answer[1],
    "moved_bytes": moved_bytes,
    "daemon_cpu_seconds": daemon_cpu_seconds,
    "left_behind": left_behind(server),
    "shared_bytes": shared(server),
}
server.stop()
# Its own exit status says whether it came to harm.
end["status"] = server.process.wait(60)
for line in said:
    print(json.dumps({"said": line}), flush=True)
print(json.dumps({"end": end}), flush=True)
