# memcached: one server, a thread for each CPU; small values, nine of ten requests are gets. (The study ran one server for
# each core, and left what a shared table costs out.)
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
    become memcached -l 127.0.0.1 -p "$PORT" -U 0 -m 256 -c 4096 -t "$QUARTIER_CPUS"
}

load() {
    threads=$(nproc)
    memcaslap --servers="127.0.0.1:$PORT" --threads="$threads" --concurrency=$((threads * 16)) --execute_number=100000 \
        --cfg_cmd="$PLACE/requests" >"$PLACE/said" 2>&1 || { tail -n 1 "$PLACE/said" >&2; return 1; }
    sed -n 's/.* Ops: \([0-9]*\) TPS: .*/work \1/p' "$PLACE/said"
}

check() {
    memccp --servers="127.0.0.1:$PORT" "$PLACE/quartier"
    expect "at home" memccat --servers="127.0.0.1:$PORT" quartier
}
