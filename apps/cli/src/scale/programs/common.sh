# What the programs of the study share. Each is a script of functions, put behind this one:
#   prepare   makes all that is needed below $PLACE, an empty folder, in memory where there is such; once
#   serve     becomes the server, on $HOST:$PORT and $QUARTIER_CPUS CPUs
#   load      loads it, and prints `work N`; fails as long as it does not answer
#   job       instead of the two: does a fixed job on $QUARTIER_CPUS CPUs, and prints `work N`
#   ready     in a guest, some servers only: fails until it may be loaded, and does what only the first who ask have to wait for
#   check     looks whether what it answers, or has done, is right
# What cannot be is one sentence on standard error, and status 3. Before this are $PLACE, $PORT, whether all this is for guests of
# the lab ($IN_GUEST, or nothing), the words by which root becomes nobody ($BECOME, or nothing for anybody else), and what whoever
# measures has a server's configuration say too ($SETTINGS, line by line).
set -eu
export LC_ALL=C
HOST=127.0.0.1
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

refuse() {
    echo "$1" >&2
    exit 3
}

# need PROGRAM PACKAGE
need() {
    command -v "$1" >/dev/null 2>&1 || refuse "\`$1\` is not here: apt-get install --no-install-recommends $2"
}

# Some refuse to be root, and nothing here needs it.
[ -z "$BECOME" ] || need setpriv util-linux
# shellcheck disable=SC2086 # Words; none are none.
as_owner() { $BECOME "$@"; }
# shellcheck disable=SC2086
become() { exec $BECOME "$@"; }
hand_over() { [ -z "$BECOME" ] || chown -R nobody:nogroup "$PLACE"; }

# size NAME HERE THERE: how much of something there is: on a machine's CPUs, and in a guest, which is some hundred times slower.
size() {
    if [ -n "$IN_GUEST" ]; then eval "$1=\$3"; else eval "$1=\$2"; fi
}

# quietly COMMAND...: what it says is said only if it fails, and of that the end.
quietly() {
    "$@" >"$PLACE/said" 2>&1 || { tail -n 1 "$PLACE/said" >&2; return 1; }
}

# expect WHAT COMMAND...: the answer of the command has it.
expect() {
    wanted=$1
    shift
    said=$("$@" 2>&1) || refuse "its check failed: \`$*\` said: $(echo "$said" | tail -n 1)"
    case $said in
    *"$wanted"*) ;;
    *) refuse "its check failed: \`$*\` does not say $wanted" ;;
    esac
}

# Words to make texts of, the same everywhere: 20,000 of them.
words() {
    awk 'BEGIN {
        state = 7
        for (at = 0; at < 20000; at++) {
            word = ""
            state = (state * 16807) % 2147483647
            for (left = 3 + state % 8; left > 0; left--) {
                state = (state * 16807) % 2147483647
                word = word substr("etaoinshrdlucmfwypvbgkqjxz", 1 + int((state % 676) ^ 0.5), 1)
            }
            print word
        }
    }'
}

# text KIB SEED: so much text of the words on standard input, the first ones most often.
text() {
    awk -v bytes=$(($1 * 1024)) -v seed="$2" '{ words[NR] = $1 } END {
        state = 1 + seed
        for (nr = 1; bytes > 0; nr++) {
            state = (state * 16807) % 2147483647
            word = words[1 + int(NR * (state / 2147483647) ^ 3)]
            bytes -= length(word) + 1
            printf "%s%s", word, nr % 12 ? " " : "\n"
        }
    }'
}
