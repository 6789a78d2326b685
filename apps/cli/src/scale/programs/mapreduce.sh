# A map-reduce (the study's was Metis): how often each word is in a text. Each CPU maps one part of it after the other, and shares what it
# found out by words; then each adds up one share after the other.
size NR_PARTS 64 32
size KIB 600 16
# Words have eight lengths, and guests more CPUs than that.
size NR_SHARES 16 32
size SHARE_OF 'length(word) * 31' 'index(letters, substr(word, 2, 1)) * 26 + index(letters, substr(word, 3, 1))'

prepare() {
    need mawk mawk
    mkdir -p "$PLACE/text"
    words >"$PLACE/words"
    for part in $(seq "$NR_PARTS"); do text "$KIB" "$part" <"$PLACE/words" >"$PLACE/text/$part"; done
    cat >"$PLACE/map.awk" <<END
BEGIN { letters = "abcdefghijklmnopqrstuvwxyz" }
{ for (at = 1; at <= NF; at++) found[\$at]++ }
END { for (word in found) print word, found[word] >(out "." ($SHARE_OF) % shares) }
END
    cat >"$PLACE/reduce.awk" <<'END'
{ found[$1] += $2 }
END { for (word in found) print word, found[word] }
END
    hand_over
}

job() {
    [ ! -e "$PLACE/mapped" ] || rm -rf "$PLACE/mapped" "$PLACE/reduced"
    as_owner mkdir "$PLACE/mapped" "$PLACE/reduced"
    seq "$NR_PARTS" | as_owner xargs -P "$QUARTIER_CPUS" -I '{}' \
        mawk -f "$PLACE/map.awk" -v shares="$NR_SHARES" -v out="$PLACE/mapped/{}" "$PLACE/text/{}"
    seq 0 $((NR_SHARES - 1)) | as_owner xargs -P "$QUARTIER_CPUS" -I '{}' \
        sh -c "cat '$PLACE'/mapped/*.{} 2>/dev/null | mawk -f '$PLACE/reduce.awk' >'$PLACE/reduced/{}'"
    echo "work $NR_PARTS"
}

check() {
    expect "$(cat "$PLACE"/text/* | wc -w) words" \
        sh -c "cat '$PLACE'/reduced/* | mawk '{ all += \$2 } END { printf \"%d words\\n\", all }'"
}
