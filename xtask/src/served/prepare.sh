# Makes what guests serve: WordPress of Debian's packages with its database, once. Before this are
#   FOLDER    where it goes: www.tar, data.tar and urls
#   SERVERS   where packages are unpacked that are not installed (xtask/deps.sh results)
#   INSTALL   what has WordPress make its tables and posts (install.php)
set -eu
export LC_ALL=C
umask 022

refuse() {
    echo "served: $1" >&2
    exit 1
}

# Of what is unpacked, else of what is installed.
found() {
    for file in "$SERVERS$1" "$1"; do
        if [ -e "$file" ]; then
            echo "$file"
            return
        fi
    done
    refuse "$1 is not here: run \`sh xtask/deps.sh results\`"
}

wordpress=$(found /usr/share/wordpress)
theme=$(found /usr/share/wordpress/wp-content/themes/twentytwentyone)
mariadbd=$(found /usr/sbin/mariadbd)
client=$(found /usr/bin/mariadb)
php=$(found /usr/bin/php8.2)
modules=$(found /usr/lib/php/20220829)
tables=$(found /usr/share/mysql/mysql_system_tables.sql)
[ -e "$modules/mysqli.so" ] || refuse "PHP's mysqli is not here: run \`sh xtask/deps.sh results\`"
export LD_LIBRARY_PATH="$SERVERS/usr/lib/x86_64-linux-gnu"

work=$FOLDER/new
rm -rf "$work"
mkdir -p "$work/www" "$work/data"

# The package's links lead to other packages, where these are unpacked.
cp -a "$wordpress/." "$work/www"
[ -e "$work/www/wp-content/themes/twentytwentyone" ] || cp -a "$theme" "$work/www/wp-content/themes/"
find "$work/www" -type l | while read -r link; do
    target=$(readlink "$link")
    case $target in
    /*) ;;
    *) target=$(dirname "${link#"$work/www"}")/$target; target=/usr/share/wordpress/$target ;;
    esac
    rm "$link"
    for file in "$SERVERS$target" "$target"; do
        if [ -e "$file" ]; then
            cp -rL "$file" "$link" 2>/dev/null || rm -rf "$link"
            break
        fi
    done
done
# What browsers alone read is asked for by nobody here, and is half of all.
rm -rf "$work/www/wp-includes/js" "$work/www/wp-admin/js" "$work/www/wp-admin/css" "$work/www/wp-admin/images"
mkdir -p "$work/www/wp-content/uploads"
cat >"$work/www/wp-config.php" <<'END'
<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
// Where it is made, and where it is served.
define('DB_HOST', 'localhost:' . (PHP_SAPI === 'cli' ? getenv('SERVED_SOCKET') : '/srv/data/socket'));
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
$address = '127.0.0.1';
define('WP_HOME', "http://$address");
define('WP_SITEURL', "http://$address");
// Nothing is done but what is asked for.
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $which) {
    define($which . '_KEY', 'the key of ' . $which);
    define($which . '_SALT', 'the salt of ' . $which);
}
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
END

# Nothing of the machine's configuration; who is root may not be. Each time in a shell of its own.
user=
[ "$(id -u)" != 0 ] || { user=--user=nobody; chown nobody "$work/data"; chmod 755 "$work" "$work/data"; }
begin() {
    exec "$mariadbd" --no-defaults $user --datadir="$work/data/db" --lc-messages-dir="$(dirname "$tables")" \
        --innodb-log-file-size=8M --innodb-buffer-pool-size=64M --skip-grant-tables "$@"
}
mkdir "$work/data/db"
[ -z "$user" ] || chown nobody "$work/data/db"
{
    printf '%s\n' "CREATE DATABASE mysql;" "USE mysql;" "SET @auth_root_socket=NULL;"
    cat "$tables" "$(found /usr/share/mysql/mysql_system_tables_data.sql)"
} | begin --bootstrap >"$work/said" 2>&1 || refuse "MariaDB makes no tables: $(tail -n 1 "$work/said")"
export SERVED_SOCKET="$work/data/socket"
begin --skip-networking --socket="$SERVED_SOCKET" --pid-file="$work/data/pid" >"$work/said" 2>&1 &
database=$!
trap 'kill "$database" 2>/dev/null || :' EXIT
ask() {
    "$client" --no-defaults --socket="$SERVED_SOCKET" -u root "$@"
}
for look in $(seq 120); do
    if ask -e 'SELECT 1' >/dev/null 2>&1; then break; fi
    kill -0 "$database" 2>/dev/null || refuse "MariaDB does not start: $(tail -n 1 "$work/said")"
    sleep 0.5
done
ask -e 'CREATE DATABASE wordpress CHARACTER SET utf8mb4' || refuse "MariaDB does not answer after a minute"
printf '%s' "$INSTALL" >"$work/install.php"
(
    cd "$work/www"
    "$php" -n -d "extension_dir=$modules" -d extension=mysqlnd -d extension=mysqli -d extension=tokenizer -d extension=ctype \
        -d extension=iconv -d memory_limit=512M "$work/install.php" >"$work/urls"
) 2>"$work/said" || refuse "WordPress is not installed: $(tail -n 3 "$work/said")"
grep -q '^http' "$work/urls" || refuse "WordPress tells no pages: $(tail -n 3 "$work/said" "$work/urls")"
kill "$database"
wait "$database" || :
trap - EXIT
rm -f "$work"/data/socket* "$work/data/pid"

tar --create --file="$work/www.tar" --owner=www-data --group=www-data --directory="$work/www" .
tar --create --file="$work/data.tar" --owner=nobody --group=nogroup --directory="$work/data" .
mv "$work/data.tar" "$work/urls" "$FOLDER/"
# The last: with it all is there.
mv "$work/www.tar" "$FOLDER/"
rm -rf "$work"
