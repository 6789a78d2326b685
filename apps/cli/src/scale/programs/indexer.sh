# A file indexer (the study's was Psearchy's pedsort): texts are shared out among processes, one for each CPU, of which each makes an index of
# its own; at the end these become one.
size NR_PARTS 64 32
size KIB 40 4

prepare() {
    need omindex xapian-omega
    need xapian-compact xapian-tools
    mkdir -p "$PLACE/text"
    words >"$PLACE/words"
    for part in $(seq "$NR_PARTS"); do
        mkdir "$PLACE/text/$part"
        text "$KIB" "$part" <"$PLACE/words" | split --lines=40 --additional-suffix=.txt - "$PLACE/text/$part/"
    done
    hand_over
}

job() {
    [ ! -e "$PLACE/index" ] || rm -rf "$PLACE/index"
    as_owner mkdir "$PLACE/index"
    seq "$NR_PARTS" | quietly as_owner xargs -P "$QUARTIER_CPUS" -I '{}' \
        omindex --db "$PLACE/index/{}" --url "/{}" --no-delete "$PLACE/text/{}"
    quietly as_owner xapian-compact "$PLACE"/index/[0-9]* "$PLACE/index/all"
    echo "work $NR_PARTS"
}

check() {
    nr=$(find "$PLACE/text" -name '*.txt' | wc -l)
    expect "number of documents = $nr" xapian-delve "$PLACE/index/all"
}
