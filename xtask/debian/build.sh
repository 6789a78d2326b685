#!/bin/sh
# Makes a Debian package of what `make stage` has put into FOLDER/quartier: FOLDER/quartier_VERSION_ARCHITECTURE.deb.
# The same commit, built in the same place, gives the same bytes: times are the commit's.
set -eu

folder=$1
tree=$folder/quartier
here=$(dirname "$0")
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)-1
architecture=$(dpkg --print-architecture)
# Whoever gives a package to others names himself.
maintainer=${MAINTAINER:-The Quartier developers <quartier@localhost>}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
umask 022

cargo run --quiet --locked --package xtask -- check-staged "$tree"

documents=$tree/usr/share/doc/quartier
install -D -m 644 "$here/copyright" "$documents/copyright"
install -D -m 644 "$here/lintian-overrides" "$tree/usr/share/lintian/overrides/quartier"
gzip -n9 <CHANGELOG.md >"$documents/changelog.gz"
gzip -n9 >"$documents/changelog.Debian.gz" <<CHANGES
quartier ($version) unstable; urgency=medium

  * What has changed in Quartier is in changelog.gz.

 -- $maintainer  $(LC_ALL=C date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
CHANGES
find "$tree/usr/share/man" -type f -exec gzip -n9 {} +

programs="$tree/usr/bin/quartier $tree/usr/sbin/quartierd"
libraries="$tree/usr/lib/quartier/libquartier_preload.so $tree/usr/lib/quartier/libquartier_plugin.so \
    $tree/usr/lib/quartier/libquartier_reuseport.so $tree/usr/lib/quartier/libquartier_sites.so"
# shellcheck disable=SC2086
strip --strip-unneeded --remove-section=.comment --remove-section=.note $programs $libraries

# dpkg-shlibdeps wants a source package's description, and none of it is used.
mkdir -p "$folder/debian" "$tree/DEBIAN"
printf 'Source: quartier\n\nPackage: quartier\nArchitecture: any\n' >"$folder/debian/control"
# The plugin's other symbols are QEMU's, which loads it.
# shellcheck disable=SC2086
depends=$(cd "$folder" && dpkg-shlibdeps -O --warnings=0 $programs $libraries)
depends=${depends#shlibs:Depends=}

(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
(cd "$tree" && find etc -type f | LC_ALL=C sort | sed 's|^|/|') >"$tree/DEBIAN/conffiles"
kib=$(du --apparent-size --summarize --block-size=1024 --exclude=DEBIAN "$tree" | cut -f1)
sed -e "s|@VERSION@|$version|" -e "s|@ARCHITECTURE@|$architecture|" -e "s|@MAINTAINER@|$maintainer|" \
    -e "s|@KIB@|$kib|" -e "s|@DEPENDS@|$depends|" "$here/control" >"$tree/DEBIAN/control"
for script in postinst prerm postrm; do
    install -m 755 "$here/$script" "$tree/DEBIAN/$script"
done
find "$tree" -type d -exec chmod 755 {} +

dpkg-deb --root-owner-group --build "$tree" "$folder/quartier_${version}_$architecture.deb"
