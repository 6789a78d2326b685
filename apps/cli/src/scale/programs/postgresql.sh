# PostgreSQL: a table in memory, and one row by its key for each query. (The study had ten million rows; here is one, so that a run
# does not last for its preparation; in a guest, a tenth of that.) A client has a process of the server's, which takes some ten
# milliseconds to begin and to end: so many queries that this is little.
size SCALE 10 1
size BUFFERS 256MB 64MB
size CLIENTS 8 1
size TRANSACTIONS 2000 800

for folder in /usr/lib/postgresql/*/bin; do PATH=$folder:$PATH; done

prepare() {
    need postgres postgresql
    need pgbench postgresql-contrib
    hand_over
    as_owner initdb --no-sync --auth=trust --username=quartier --pgdata="$PLACE/data" >"$PLACE/said" 2>&1 ||
        refuse "no database could be made: $(tail -n 1 "$PLACE/said")"
    cat >>"$PLACE/data/postgresql.conf" <<END
listen_addresses = '$HOST'
port = $PORT
unix_socket_directories = '$PLACE'
max_connections = 600
shared_buffers = $BUFFERS
fsync = off
autovacuum = off
$SETTINGS
END
    as_owner pg_ctl --silent --wait --pgdata="$PLACE/data" --log="$PLACE/log" start </dev/null
    as_owner pgbench --initialize --quiet --scale="$SCALE" --host="$PLACE" --port="$PORT" --username=quartier postgres >"$PLACE/said" 2>&1 ||
        refuse "the table could not be filled: $(tail -n 1 "$PLACE/said")"
    asked "create extension pg_prewarm" >/dev/null
    as_owner pg_ctl --silent --wait --pgdata="$PLACE/data" stop </dev/null
}

serve() {
    become postgres -D "$PLACE/data"
}

asked() {
    psql --host="$PLACE" --port="$PORT" --username=quartier --no-align --tuples-only --command "$1" postgres
}

# It answers, and has the table and its index in its own memory.
ready() {
    asked "select pg_prewarm('pgbench_accounts') + pg_prewarm('pgbench_accounts_pkey')" >/dev/null
}

load() {
    threads=$(nproc)
    quietly pgbench --select-only --no-vacuum --protocol=prepared --jobs="$threads" --client=$((threads * CLIENTS)) \
        --transactions="$TRANSACTIONS" --host="$PLACE" --port="$PORT" --username=quartier postgres
    sed -n 's/^number of transactions actually processed: \([0-9]*\).*/work \1/p' "$PLACE/said"
}

check() {
    expect "$((SCALE * 100000))" asked "select count(*) from pgbench_accounts"
}
