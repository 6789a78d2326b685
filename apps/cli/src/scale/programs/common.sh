# What the programs of the study share. Each is a script of functions, put behind this one:
#   prepare   makes all that is needed below $PLACE, an empty folder, in memory where there is such; once
#   serve     becomes the server, on $HOST:$PORT and $QUARTIER_CPUS CPUs
#   load      loads it, and prints `work N`; fails as long as it does not answer
#   job       instead of the two: does a fixed job on $QUARTIER_CPUS CPUs, and prints `work N`
#   check     looks whether what it answers, or has done, is right
# What cannot be is one sentence on standard error, and status 3.
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
if [ "$(id -u)" = 0 ]; then
    owner=nobody
    need setpriv util-linux
    as_owner() { setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all "$@"; }
    become() { exec setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all "$@"; }
    hand_over() { chown -R nobody:nogroup "$PLACE"; }
else
    owner=$(id -un)
    as_owner() { "$@"; }
    become() { exec "$@"; }
    hand_over() { :; }
fi

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
