# Runs in a guest, as its root: WordPress with its database behind one of the web servers, and what loads it.
#   guest.sh serve FOLDER SERVERS VARIANT QUARTIER    what is counted
#   guest.sh ready|load FOLDER SERVERS LOOP CLIENTS TIMES QUARTIER RUN
#       asks with CLIENTS clients on each CPU, TIMES pages each, from another one on in each RUN; `ready` before it is counted, so that all that is made once is there
# FOLDER is what prepare.sh made; in SERVERS packages are unpacked.
set -eu
export LC_ALL=C
umask 022
what=$1 folder=$2 servers=$3
# Above what a recipe may find elsewhere: it takes the last of all PHP-FPMs by their paths.
PLACE=/var/served
WWW=/var/www/html
CLIENTS=/var/log/clients
# CPUs take turns here, and an instruction is a nanosecond: everything takes so many times as long, and what waits by the clock does too.
SLOWER=$(nproc)
PHP_EACH_CPU=4

refuse() {
    echo "served: $1" >&2
    exit 3
}

# Of what is unpacked, else of what is installed.
found() {
    for file in "$servers$1" "$1"; do
        if [ -e "$file" ]; then
            echo "$file"
            return
        fi
    done
    refuse "$1 is not here: run \`sh xtask/deps.sh results\`"
}

export LD_LIBRARY_PATH="$servers/usr/lib/x86_64-linux-gnu"
export PATH="$PLACE/sbin:$servers/usr/sbin:$servers/usr/bin:$PATH:/usr/sbin:/sbin"

# memory FOLDER SIZE [OPTION]: in memory, its pages where whoever writes them is, or as the option says.
memory() {
    mkdir -p "$1"
    mount -t tmpfs -o "size=$2,mode=755${3:+,$3}" served "$1"
}

# What packages have in /etc, where it may be changed.
configuration() {
    from=$(found "/etc/$1")
    memory "/etc/$1.new" 16m
    cp -a "$from/." "/etc/$1.new"
    mkdir -p "/etc/$1"
    mount --bind "/etc/$1.new" "/etc/$1"
}

# The application's files and data lie on all nodes in turn: else all are on one, and that is what would be counted.
unpack() {
    memory "$PLACE" 16m
    memory "$WWW" 512m mpol=interleave
    memory /srv/data 512m mpol=interleave
    memory /var/log 256m
    memory /run 64m
    # Of this machine there is nothing here but programs.
    mkdir -p /run/lock /var/tmp /tmp
    for link in run:/run lock:/run/lock; do
        [ -e "/var/${link%:*}" ] || ln -s "${link#*:}" "/var/${link%:*}"
    done
    # The guest's clock begins before they were made.
    tar --warning=no-timestamp -xf "$folder/www.tar" -C "$WWW"
    tar --warning=no-timestamp -xf "$folder/data.tar" -C /srv/data
    chown -R nobody /srv/data
    chown -R www-data "$WWW/wp-content/uploads"
}

# The same for all: what Debian has, but for what goes by the clock. How long a script may take is said of a CPU's time.
php() {
    mkdir -p "$PLACE/php/conf.d" "$PLACE/sbin" "$PLACE/lib"
    cp "$(found /usr/lib/php/8.2/php.ini-production)" "$PLACE/php/php.ini"
    modules=$(found /usr/lib/php/20220829)
    {
        echo "extension_dir = $modules"
        echo "zend_extension = opcache.so"
        for extension in ctype exif iconv mysqlnd mysqli posix tokenizer; do echo "extension = $extension.so"; done
        echo "opcache.revalidate_freq = $((2 * SLOWER))"
        echo "realpath_cache_ttl = $((120 * SLOWER))"
        echo "max_execution_time = 0"
    } >"$PLACE/php/conf.d/served.ini"
    export PHPRC="$PLACE/php" PHP_INI_SCAN_DIR="$PLACE/php/conf.d"
    # What a recipe has by the clock, likewise.
    fpm=$(found /usr/sbin/php-fpm8.2)
    cat >"$PLACE/sbin/php-fpm8.2" <<END
#!/bin/sh
for file in "\$@"; do
    case \$file in */php.conf) sed -i 's/^\(.*realpath_cache_ttl] *= *\)1\$/\1$SLOWER/' "\$file" ;; esac
done
exec $fpm "\$@"
END
    chmod 755 "$PLACE/sbin/php-fpm8.2"
}

database() {
    mariadbd=$(found /usr/sbin/mariadbd)
    "$mariadbd" --no-defaults --user=nobody --datadir=/srv/data/db --socket=/srv/data/socket --pid-file=/srv/data/pid \
        --lc-messages-dir="$(dirname "$(found /usr/share/mysql/mysql_system_tables.sql)")" --skip-grant-tables \
        --innodb-log-file-size=8M --innodb-buffer-pool-size=64M --max-connections=300 --skip-networking >/var/log/mariadb 2>&1 &
    for look in $(seq 600); do
        if [ -S /srv/data/socket ]; then return; fi
        kill -0 $! 2>/dev/null || refuse "MariaDB ended: $(tail -n 1 /var/log/mariadb)"
        sleep 0.5
    done
    refuse "MariaDB has no socket: $(tail -n 1 /var/log/mariadb)"
}

# apache MODULES CONFIGURATIONS: as Debian's package sets it up, with these.
apache() {
    configuration apache2
    mkdir -p /usr/lib/apache2 /run/apache2 /run/lock/apache2 /var/log/apache2 /etc/apache2/mods-enabled \
        /etc/apache2/conf-enabled /etc/apache2/sites-enabled
    mount --bind "$(found /usr/lib/apache2)" /usr/lib/apache2
    for module in alias auth_basic authn_core authn_file authz_core authz_host authz_user access_compat autoindex deflate dir env \
        filter mime negotiation reqtimeout setenvif status $1; do
        for file in /etc/apache2/mods-available/"$module".load /etc/apache2/mods-available/"$module".conf; do
            if [ -e "$file" ]; then ln -sf "$file" /etc/apache2/mods-enabled/; fi
        done
    done
    for name in charset localized-error-pages other-vhosts-access-log security serve-cgi-bin $2; do
        ln -sf "/etc/apache2/conf-available/$name.conf" /etc/apache2/conf-enabled/
    done
    ln -sf /etc/apache2/sites-available/000-default.conf /etc/apache2/sites-enabled/
    APACHE_CONFDIR=/etc/apache2
    set +u
    . /etc/apache2/envvars
    set -u
    echo "ServerName localhost" >>/etc/apache2/apache2.conf
}

# One PHP-FPM as Debian's, but with as many processes as all copies have together: of five, most CPUs would have none.
one_fpm() {
    configuration php
    mkdir -p /run/php
    pool=/etc/php/8.2/fpm/pool.d/www.conf
    sed -i "s/^pm = .*/pm = static/; s/^pm.max_children = .*/pm.max_children = $((PHP_EACH_CPU * $(nproc)))/" "$pool"
    "$PLACE/sbin/php-fpm8.2" --nodaemonize >/var/log/fpm 2>&1 &
    for look in $(seq 600); do
        if [ -S /run/php/php8.2-fpm.sock ]; then return; fi
        sleep 0.5
    done
    refuse "PHP-FPM has no socket: $(tail -n 1 /var/log/fpm)"
}

nginx() {
    configuration nginx
    mkdir -p /var/lib/nginx /var/log/nginx
    rm -f /etc/nginx/sites-enabled/* /etc/nginx/modules-enabled/*
    cat >/etc/nginx/sites-enabled/wordpress <<'END'
server {
    listen 80 default_server;
    root /var/www/html;
    index index.php index.html;
    server_name _;
    location / {
        try_files $uri $uri/ /index.php$is_args$args;
    }
    location ~ \.php$ {
        include snippets/fastcgi-php.conf;
        fastcgi_pass unix:/run/php/php8.2-fpm.sock;
    }
}
END
}

# ours OPTIONS...: what runs the copies leaves the counted group once they are there (`ready`). Its rounds go by the clock.
ours() {
    echo $$ >"$PLACE/unit"
    # A recipe takes Apache's modules from beside it.
    ln -s "$(found /usr/sbin/apache2)" "$PLACE/sbin/apache2"
    ln -s "$(found /usr/lib/apache2)" "$PLACE/lib/"
    export PATH="$PLACE/sbin:/usr/bin:/bin"
    exec "$quartier" serve --name served --recipe apache-php --root "$WWW" --port 80 --start-timeout 900 --drain 2 "$@"
}

serve() {
    variant=$1 quartier=$2
    unpack
    php
    database
    case $variant in
    apache-prefork-mod-php)
        apache "mpm_prefork php8.2" ""
        exec apache2 -DFOREGROUND
        ;;
    apache-buckets)
        apache "mpm_prefork php8.2" ""
        echo "ListenCoresBucketsRatio 1" >>/etc/apache2/apache2.conf
        exec apache2 -DFOREGROUND
        ;;
    apache-event-fpm)
        one_fpm
        apache "mpm_event proxy proxy_fcgi" "php8.2-fpm"
        exec apache2 -DFOREGROUND
        ;;
    nginx-fpm)
        one_fpm
        nginx
        exec "$(found /usr/sbin/nginx)" -c /etc/nginx/nginx.conf -g "daemon off;"
        ;;
    copies) ours --choose kernel ;;
    copies-steered) ours ;;
    copies-steered-roots) ours --copy-root --keep-one wp-content/uploads ;;
    *) refuse "there is no variant $variant" ;;
    esac
}

# total WHAT: of what siege says on each CPU.
total() {
    cat "$CLIENTS"/out.* | sed -n "s/^[[:space:]{]*\"$1\":[[:space:]]*\([0-9]*\).*/\1/p" | awk '{ sum += $1 } END { print sum + 0 }'
}

# What clients are to ask for: nothing is made under load but what is asked for.
clients() {
    mkdir -p "$CLIENTS"
    if [ "$1" = keep-alive ]; then connection=keep-alive; else connection=close; fi
    cat >"$CLIENTS/rc" <<END
protocol = HTTP/1.1
connection = $connection
chunked = true
parser = false
verbose = false
quiet = false
color = off
logging = false
show-logfile = false
json_output = true
timeout = 900
failures = 1
limit = 255
accept-encoding = identity
benchmark = true
END
    for cpu in $(seq 0 $(($(nproc) - 1))); do
        # Each begins elsewhere in the list, so that not all ask for the same page at the same time.
        awk -v from=$((cpu * 5 + $2)) '{ line[NR] = $0 } END { for (at = 0; at < NR; at++) print line[1 + (from + at) % NR] }' \
            "$folder/urls" >"$CLIENTS/urls.$cpu"
    done
}

# one CPU CLIENTS TIMES: a generator on a CPU.
one() {
    HOME="$CLIENTS" taskset -c "$1" "$siege" -R "$CLIENTS/rc" -c "$2" -r "$3" -b -f "$CLIENTS/urls.$1" \
        >"$CLIENTS/out.$1" 2>"$CLIENTS/errors.$1" </dev/null
}

# Clients on each CPU: on the loopback, a connection is received on the CPU of its client. Prints how many pages came.
ask() {
    clients=$1 times=$2 nr_cpus=$(nproc) cpu=0
    while [ "$cpu" -lt "$nr_cpus" ]; do
        one "$cpu" "$clients" "$times" &
        cpu=$((cpu + 1))
    done
    wait
    wanted=$((clients * times * nr_cpus))
    came=$(total transactions) failed=$(total failed_transactions)
    [ "$came" = "$wanted" ] && [ "$failed" = 0 ] || {
        tail -n 20 "$CLIENTS/out.0" "$CLIENTS/errors.0" >&2
        refuse "$came of $wanted pages came, and $failed failed"
    }
    echo "pages $came"
}

# state WORD: which copies connections went to so far, if these are copies. It is written now and then.
state() {
    if [ -e "$PLACE/unit" ]; then
        sleep 3
        echo "$1 $("$quartier" serve status --name served --json | tr -d '\n')"
    fi
}

# Whoever asks takes of what the servers need to begin.
again() {
    sleep 1
    exit 1
}

nr_nodes() {
    set -- /sys/devices/system/node/node[0-9]*
    echo $#
}

case $what in
serve)
    serve "$4" "$5"
    ;;
ready)
    quartier=$7 siege=$(found /usr/bin/siege)
    grep -q ':0050 00000000' /proc/net/tcp /proc/net/tcp6 || again
    if [ -e "$PLACE/unit" ]; then
        [ "$("$quartier" serve status --name served --json | grep -c '"state": "serves"')" = "$(nr_nodes)" ] || again
    fi
    clients "$4" "$8"
    # PHP compiles the application once, for whoever asks first: all at once would do it all at once. By the kernel's hashing, several
    # ask until each copy has most likely been asked.
    for turn in 1 2; do
        for node in $(seq 0 $(($(nr_nodes) - 1))); do
            one $((node * $(nproc) / $(nr_nodes))) 1 1 || :
        done
    done
    # Who fails here fails under load, too, and is heard there.
    (ask "$5" "$6") >/dev/null 2>&1 || :
    if [ -e "$PLACE/unit" ]; then
        cat "$PLACE/unit" >/sys/fs/cgroup/cgroup.procs
    fi
    {
        echo "listeners $(cat /proc/net/tcp /proc/net/tcp6 | grep -c ':0050 0*:0000 0A')"
        state before
    } >/var/log/before
    ;;
load)
    quartier=$7 siege=$(found /usr/bin/siege)
    ask "$5" "$6"
    cat /var/log/before
    state after
    ;;
*)
    refuse "nothing is called $what"
    ;;
esac
