# memcached: one server, a thread for each CPU; small values, nine of ten requests are gets. (The study ran one server for
# each core, and left what a shared table costs out.) In a guest the load is a script of ours: the tool fills ten megabytes with chance
# and has its threads look all the time, which there is minutes before the first request and most of the work after it.
size CONNECTIONS 16 1
size REQUESTS 100000 400

prepare() {
    need memcached memcached
    need memcaslap libmemcached-tools
    [ -z "$IN_GUEST" ] || need python3 python3
    cat >"$PLACE/requests" <<'END'
key
20 20 1
value
64 64 1
cmd
0 0.1
1 0.9
END
    # A connection for each process; who asks is told its number, so that keys are the same each time.
    cat >"$PLACE/ask.py" <<'END'
import os, socket, sys

host = sys.argv[1]
port, processes, requests = (int(word) for word in sys.argv[2:5])


def ask(number):
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(requests):
            key = b"key%d.%012d" % (number % 8, at // 10 % 8)
            if at % 10 == 0:
                connection.sendall(b"set %s 0 0 64\r\n%s\r\n" % (key, b"v" * 64))
                ends, right = b"\r\n", b"STORED\r\n"
            else:
                connection.sendall(b"get %s\r\n" % key)
                ends, right = b"END\r\n", b"VALUE %s 0 64\r\n%s\r\nEND\r\n" % (key, b"v" * 64)
            answer = b""
            while not answer.endswith(ends):
                got = connection.recv(4096)
                if not got:
                    sys.exit("a connection has ended")
                answer += got
            if answer != right:
                sys.exit(f"a request was answered {answer!r}")


children = []
for number in range(processes):
    child = os.fork()
    if child == 0:
        ask(number)
        os._exit(0)
    children.append(child)
if any([os.waitpid(child, 0)[1] for child in children]):
    sys.exit("somebody who asked has failed")
print("work", processes * requests)
END
    echo "at home" >"$PLACE/quartier"
    hand_over
}

serve() {
    # shellcheck disable=SC2086 # Words.
    become memcached -l "$HOST" -p "$PORT" -U 0 -m 256 -c 4096 -t "$QUARTIER_CPUS" $SETTINGS
}

load() {
    threads=$(nproc)
    if [ -n "$IN_GUEST" ]; then
        exec python3 "$PLACE/ask.py" "$HOST" "$PORT" "$((threads * CONNECTIONS))" "$REQUESTS"
    fi
    quietly memcaslap --servers="$HOST:$PORT" --threads="$threads" --concurrency=$((threads * CONNECTIONS)) \
        --execute_number="$REQUESTS" --win_size=10k --cfg_cmd="$PLACE/requests"
    sed -n 's/.* Ops: \([0-9]*\) TPS: .*/work \1/p' "$PLACE/said"
}

check() {
    memccp --servers="$HOST:$PORT" "$PLACE/quartier"
    expect "at home" memccat --servers="$HOST:$PORT" quartier
}
