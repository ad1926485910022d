#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the built tree below build/test, and runs hello from there while the
# source tree is hidden: install.sh BUILD
set -eu
build=$1
. "$(dirname "$0")/../tap.sh"

top=$(pwd)
prefix=/opt/skep
root=$(realpath "$build")/test/install
version=$(sed -n 's/^const version = "\(.*\)"$/\1/p' cmd/skep/version.go)
run() # put, remove or list
{
	sh packaging/install.sh "$1" "$build" "$root" "$prefix" \
		"$prefix/lib" "$version"
}

rm -rf "$root"
run put >"$tmp/got" 2>"$tmp/err" && r=0 || r=1
result "$r" "everything of the list is installed"

run list | sort >"$tmp/want"
(cd "$root" && find . ! -type d | sed 's/^\.//') | sort >"$tmp/got"
cmp -s "$tmp/want" "$tmp/got" && r=0 || r=1
result "$r" "and nothing else"

(cd "$root" && grep -rlF -e "$top" -e "$root" .) >"$tmp/got" || true
: >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got" && r=0 || r=1
result "$r" "no installed file names a path of the build"

r=0
programs=$(cd "$root" && find . -type f -perm -100 \( -path '*/bin/*' -o \
	-path '*/lib/skep/*' \) ! -name '*.*')
for p in $programs; do
	name=${p##*/}
	within 30 "$root/$p" --version </dev/null >"$tmp/got" 2>"$tmp/err" &&
		grep -q "^$name $version\( \|\$\)" "$tmp/got" || r=1
	echo "$name" >>"$tmp/programs"
done
for p in skep bee bee-guard skep-guest sms-proxy; do
	grep -qx "$p" "$tmp/programs" || r=1
done
result "$r" "every installed program says the version"

# A mount namespace: /opt is the installation, the tree is an empty folder. The
# tree may be below /tmp, like $tmp, so the files for the walk are copied first.
# shellcheck disable=SC2016 # the inner shell expands
apart()
{
	id=
	[ "$(id -u)" = 0 ] || id=--map-root-user
	# shellcheck disable=SC2086 # nothing, or one option
	within 120 unshare $id --mount sh -eu -c '
		mount -t tmpfs none /opt
		mkdir /opt/skep /opt/home
		mount --bind "$2$1" /opt/skep
		cp "$4" /opt/home/walk.sh
		mount -t tmpfs none "$3"
		cd /opt/home
		[ -z "$(ls "$3")" ]
		exec env -u SKEP_BUILD -u BUILD HOME=/opt/home XDG_STATE_HOME= \
			XDG_CONFIG_HOME= XDG_CACHE_HOME= XDG_RUNTIME_DIR= \
			PATH=/opt/skep/bin:/usr/bin:/bin:/usr/sbin:/sbin \
			sh -eu walk.sh /opt/skep' sh "$prefix" "$root" "$top" \
		tests/packages/walk.sh
}
apart >"$tmp/got" 2>"$tmp/err" && r=0 || r=1
cat >"$tmp/want" <<'END'
hello: 10 20 30 40, together 100
bee: ran
python: 34
doctor: bee ok
lab: 1
END
cmp -s "$tmp/want" "$tmp/got" || r=1
result "$r" "hello and the other parts run without the source tree"

run remove >"$tmp/got" 2>"$tmp/err" && r=0 || r=1
[ -z "$(find "$root$prefix" -mindepth 1 -print -quit)" ] || r=1
find "$root" >"$tmp/got"
result "$r" "make uninstall leaves nothing"
rm -rf "$root"

# As packagers type it. DESTDIR may be relative, and have any character.
dest="$build/test/it's a root"
typed() # word...
{
	env -u MAKEFLAGS -u MAKELEVEL -u MAKEOVERRIDES -u T make -s -o all \
		"$@" B="$build" DESTDIR="$dest" >"$tmp/got" 2>"$tmp/err"
}
rm -rf "$dest"
typed install PREFIX=/usr && r=0 || r=1
sh packaging/install.sh list "$build" "" /usr /usr/lib "$version" | sort >"$tmp/want"
(cd "$dest" && find . ! -type d | sed 's/^\.//') | sort >"$tmp/got"
cmp -s "$tmp/want" "$tmp/got" || r=1
typed uninstall PREFIX=/usr || r=1
find "$dest" ! -type d >"$tmp/got"
[ ! -s "$tmp/got" ] || r=1
result "$r" "make install and uninstall, with a DESTDIR that needs quotes"

r=0
refused() # text word...
{
	text=$1
	shift
	if typed install "$@" || ! grep -q -e "$text" "$tmp/err"; then
		r=1
	fi
	[ ! -e "$dest/usr" ] || r=1
}
rm -rf "$dest"
refused 'PREFIX must be an absolute path' PREFIX=usr
refused 'LIBDIR must be an absolute path' PREFIX=/usr LIBDIR=lib
refused 'characters that pkg-config' PREFIX='/usr/my skep'
: >"$dest"
refused 'you may not write to' PREFIX=/usr
rm -f "$dest"
result "$r" "make install refuses paths that cannot be used, and installs nothing"

echo "1..$n"
exit $failed
