# How a program comes into guests of the lab: its folder is packed here, once, and each guest unpacks it at the same path, which
# is in the guest's own memory. Before this are $PLACE and $BECOME, as for the programs, and where guests see them:
#   ARCHIVE    the packed folder
#   UNPACKED   a pipe: what is counted waits there, doing nothing, until it hears that all is unpacked
set -eu

# Whoever has become nobody becomes nothing more. What is temporary (a compiler's files) is in memory too: a guest's /tmp is this
# machine's, through an overlay.
begin() {
    words=$BECOME
    export QUARTIER_BECOME=
    export TMPDIR="$PLACE"
    # shellcheck disable=SC2086 # Words; none are none.
    exec $words sh "$PLACE/program.sh" "$1"
}

case $1 in
pack)
    mkfifo "$UNPACKED"
    # shellcheck disable=SC2086
    tar --create --file="$ARCHIVE" ${BECOME:+--owner=nobody --group=nogroup} --directory="${PLACE%/*}" "${PLACE##*/}"
    ;;
unpack)
    # Spread over the nodes where numactl is here: else all of it lies on one, and that is what would be counted.
    spread=
    if numactl --interleave=all true >/dev/null 2>&1; then spread="numactl --interleave=all"; fi
    # shellcheck disable=SC2086
    if said=$($spread tar --extract --file="$ARCHIVE" --directory="${PLACE%/*}" 2>&1); then said=unpacked; fi
    echo "$said" >"$UNPACKED"
    ;;
load | ready)
    begin "$1"
    ;;
*)
    read -r said <"$UNPACKED" || said="nothing is said of why"
    [ "$said" = unpacked ] || {
        echo "its files are not in the guest, which may need more memory (--mem): $said" >&2
        exit 3
    }
    begin "$1"
    ;;
esac
