#!/bin/sh
# SPDX-License-Identifier: MIT
# The packages of the built tree: contents, dependencies, and a walk on a copy
# of this computer's root without the source tree: deb.sh BUILD VERSION
set -eu
build=$1
version=$2
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/apart.sh"

top=$(pwd)
at=$(realpath "$build")/test/deb
rm -rf "$at"
mkdir -p "$at"
DEB_LEVEL=0
export DEB_LEVEL

make_packages() # folder [package...]
{
	folder=$1
	shift
	within 120 sh packaging/deb.sh "$build" "$folder" "$version" "$@"
}
make_packages "$at/first" >"$tmp/got" 2>&1 && r=0 || r=1
result "$r" "the packages are made"

few='libo2g0 skep-dkms skep-examples'
# shellcheck disable=SC2086 # names
(umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 make_packages "$at/again" $few) \
	>"$tmp/got" 2>&1 && r=0 || r=1
for deb in "$at"/again/*.deb; do
	cmp "$deb" "$at/first/${deb##*/}" >"$tmp/err" 2>&1 || r=1
done
[ "$(find "$at/again" -name '*.deb' | wc -l)" = 3 ] || r=1
result "$r" "the same bytes in another folder, under another umask"
rm -rf "$at/again"

# Every file of the list is in one package.
for deb in "$at"/first/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | tar -t
done | sed -n 's|^\./\(.*[^/]\)$|/\1|p' | sed 's|\(/man/.*\)\.gz$|\1|' |
	grep -v '^/usr/share/doc/.*/\(copyright\|changelog.gz\)$' |
	grep -v '^/usr/share/lintian/' | sort >"$tmp/got"
sh packaging/install.sh list "$build" '' /usr /usr/lib "$version" |
	sort >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got" && r=0 || r=1
result "$r" "each file of the list is in one package"

for deb in "$at"/first/*.deb; do
	dpkg-deb -f "$deb" Package Version Depends | tr '\n' ' '
	echo
done | sort | sed "s/ \$//; s/$version/V/g" >"$tmp/got"
cat >"$tmp/want" <<'END'
Package: libo2g-dev Version: V Depends: libo2g0 (= V)
Package: libo2g0 Version: V Depends: libc6 (>= 2.34)
Package: libskep-dev Version: V Depends: libskeprpc0 (= V), libc6-dev
Package: libskeprpc0 Version: V Depends: libc6 (>= 2.34)
Package: o2g-provider Version: V Depends: libc6 (>= 2.34)
Package: python3-skep Version: V Depends: libc6 (>= 2.34), python3, skep (= V)
Package: skep Version: V
Package: skep-dkms Version: V Depends: dkms (>= 3.0.10)
Package: skep-examples Version: V
END
sed 's/(>= 2\.[0-9]*)/(>= 2.34)/' "$tmp/got" | cmp -s "$tmp/want" - && r=0 || r=1
result "$r" "packages depend on what they need"

for deb in "$at"/first/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | grep -cF -e "$top/" || true
done | sort -u >"$tmp/got"
echo 0 >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got" && r=0 || r=1
result "$r" "no package names a path of the build"

# Not every build machine has DKMS; clean.sh tests it on clean roots.
cp tests/packages/*.sh "$at"
printf 'hello: 10 20 30 40, together 100\nbee: ran\npython: 34\ndoctor: bee ok\nlab: 1\n' \
	>"$at/walk.want"
mkdir "$at/aside"
mv "$at"/first/skep-dkms_* "$at/aside"
run_apart 240 / "$top" "$at" inside.sh >"$tmp/got" 2>"$tmp/err" && r=0 || r=1
printf '%s: ok\n' install walk modules remove purge nothing-left >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got" || r=1
result "$r" "installed, hello without the source tree, purged: nothing is left"

rm -rf "$at"
echo "1..$n"
exit $failed
