# Apache: one file of 300 bytes, and a new connection for each request, as in the study. Threads and processes as Debian has them.
size REQUESTS 10000 200
size CONCURRENT 32 2

prepare() {
    need apache2 apache2-bin
    need ab apache2-utils
    need python3 python3
    modules=/usr/lib/apache2/modules
    [ -d "$modules" ] || refuse "Apache's modules are not in $modules: apt-get install --no-install-recommends apache2-bin"
    mkdir -p "$PLACE/root"
    head -c 300 /dev/zero | tr '\0' q >"$PLACE/root/file"
    cat >"$PLACE/apache.conf" <<END
ServerName localhost
ServerRoot $PLACE
Listen $HOST:$PORT
PidFile $PLACE/apache.pid
DefaultRuntimeDir $PLACE
ErrorLog $PLACE/error.log
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
DocumentRoot $PLACE/root
ServerLimit 16
ThreadsPerChild 25
MaxRequestWorkers 400
$SETTINGS
END
    hand_over
}

serve() {
    become apache2 -f "$PLACE/apache.conf" -DFOREGROUND
}

# It answers, and has the threads that do.
ready() {
    quietly ab -q -n $((8 * $(nproc))) -c "$(nproc)" "http://$HOST:$PORT/file"
}

load() {
    processes=$(nproc)
    for at in $(seq "$processes"); do
        ab -q -n "$REQUESTS" -c "$CONCURRENT" "http://$HOST:$PORT/file" >"$PLACE/said.$at" 2>&1 &
    done
    wait
    for at in $(seq "$processes"); do
        grep -q "Failed requests: *0" "$PLACE/said.$at" || { tail -n 1 "$PLACE/said.$at" >&2; return 1; }
    done
    cat "$PLACE"/said.* | awk '/^Complete requests:/ { done += $3 } END { print "work", done }'
}

check() {
    expect qqqqq python3 -c "import urllib.request as r; print(r.urlopen('http://$HOST:$PORT/file').read())"
}
