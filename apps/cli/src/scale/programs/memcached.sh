# memcached: one server, a thread for each CPU; small values, nine of ten requests are gets. (The study ran one server for
# each core, and left what a shared table costs out.)
size CONNECTIONS 16 2
size REQUESTS 100000 20000
size WINDOW 10k 1k

prepare() {
    need memcached memcached
    need memcaslap libmemcached-tools
    cat >"$PLACE/requests" <<'END'
key
20 20 1
value
64 64 1
cmd
0 0.1
1 0.9
END
    echo "at home" >"$PLACE/quartier"
    hand_over
}

serve() {
    become memcached -l "$HOST" -p "$PORT" -U 0 -m 256 -c 4096 -t "$QUARTIER_CPUS"
}

load() {
    threads=$(nproc)
    quietly memcaslap --servers="$HOST:$PORT" --threads="$threads" --concurrency=$((threads * CONNECTIONS)) \
        --execute_number="$REQUESTS" --win_size="$WINDOW" --cfg_cmd="$PLACE/requests"
    sed -n 's/.* Ops: \([0-9]*\) TPS: .*/work \1/p' "$PLACE/said"
}

check() {
    memccp --servers="$HOST:$PORT" "$PLACE/quartier"
    expect "at home" memccat --servers="$HOST:$PORT" quartier
}
