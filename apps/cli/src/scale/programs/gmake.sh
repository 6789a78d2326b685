# Parallel make: C files of which each is compiled by itself, and one program that is linked of them all at the end. Twice as many jobs as
# CPUs, as in the study (which built a kernel; its limits were the serial parts, and who comes last). In a guest a compiler would take
# minutes for each file, so what it makes of them is there before, and is assembled.
size NR_FILES 120 32
size NR_FUNCTIONS 12 2
size SUFFIX c s

prepare() {
    need make make
    need cc gcc
    mkdir -p "$PLACE/source"
    for file in $(seq "$NR_FILES"); do
        {
            echo "#include <stdio.h>"
            echo "#include <stdlib.h>"
            echo "#include <string.h>"
            for function in $(seq "$NR_FUNCTIONS"); do
                echo "static long f$function(const char *text, long seed) {"
                echo "    long sum = seed * $function;"
                echo "    for (size_t at = 0; at < strlen(text); at++) {"
                echo "        switch (text[at] % $((function + 3))) {"
                for case in $(seq 0 $((function + 2))); do
                    echo "        case $case: sum = sum * $((case + 3)) + $file; break;"
                done
                echo "        }"
                echo "    }"
                echo "    return sum;"
                echo "}"
            done
            echo "long file$file(long seed) {"
            echo "    char text[64];"
            echo "    snprintf(text, sizeof text, \"%ld\", seed);"
            echo "    return f1(text, seed)$(for function in $(seq 2 "$NR_FUNCTIONS"); do printf ' ^ f%d(text, seed)' "$function"; done);"
            echo "}"
        } >"$PLACE/source/file$file.c"
    done
    {
        echo "#include <stdio.h>"
        for file in $(seq "$NR_FILES"); do echo "long file$file(long);"; done
        echo "int main(void) {"
        echo "    long sum = 0;"
        echo "    int files = 0;"
        for file in $(seq "$NR_FILES"); do echo "    sum += file$file(sum), files++;"; done
        printf '%s\n' '    printf("%d files, and %ld\n", files, sum);'
        echo "    return 0;"
        echo "}"
    } >"$PLACE/source/main.c"
    if [ "$SUFFIX" = s ]; then
        (cd "$PLACE/source" && cc -O2 -S ./*.c && rm -- *.c)
    fi
    cat >"$PLACE/source/Makefile" <<END
OBJECTS := \$(patsubst %.$SUFFIX,%.o,\$(wildcard *.$SUFFIX))
CFLAGS := -O2
all: \$(OBJECTS)
	\$(CC) -o all \$(OBJECTS)
clean:
	rm -f all *.o
END
    hand_over
}

job() {
    cd "$PLACE/source"
    # Only what a run before has left.
    set -- *.o
    [ ! -e "$1" ] || as_owner make --silent clean
    as_owner make --silent --jobs=$((2 * QUARTIER_CPUS)) all
    echo "work $NR_FILES"
}

check() {
    expect "$NR_FILES files" "$PLACE/source/all"
}
