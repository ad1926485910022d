#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes Debian packages of the built tree in OUT. Equal input gives equal bytes.
#
# usage: deb.sh BUILD OUT VERSION [PACKAGE...]
set -eu
export LC_ALL=C TZ=UTC
umask 022

build=$1
out=$2
version=$3
shift 3
cd "$(dirname "$0")/.."
debian=packaging/debian

die()
{
	printf 'deb: %s\n' "$*" >&2
	exit 1
}

command -v dpkg-gencontrol >/dev/null || die "dpkg-dev is missing: run make setup"
released=$(sed -n 's/^const released = "\(.*\)"$/\1/p' cmd/skep/version.go)
: "${SOURCE_DATE_EPOCH:=$(date -d "${released:-2026-11-23}" +%s)}"
export SOURCE_DATE_EPOCH
rm -rf "$out"
mkdir -p "$out"
out=$(realpath "$out")
work=$out/work

# dpkg-shlibdeps and dpkg-gencontrol read debian/ of the folder they run in.
mkdir -p "$work/debian"
cp $debian/control "$work/debian/control"
printf 'skep (%s) unstable; urgency=medium\n\n  * Release %s.\n\n -- %s  %s\n' \
	"$version" "$version" "$(sed -n 's/^Maintainer: //p' $debian/control)" \
	"$(date -R -d "@$SOURCE_DATE_EPOCH")" >"$work/debian/changelog"

# Adds the documents that Debian's policy requires.
add_documents() # package
{
	doc=$work/$1/usr/share/doc/$1
	mkdir -p "$doc"
	cp $debian/copyright "$doc/copyright"
	gzip -9nc "$work/debian/changelog" >"$doc/changelog.gz"
	find "$work/$1" -path '*/share/man/*' -type f -exec gzip -9n {} +
	if [ -e "$debian/$1.lintian-overrides" ]; then
		mkdir -p "$work/$1/usr/share/lintian/overrides"
		cp "$debian/$1.lintian-overrides" \
			"$work/$1/usr/share/lintian/overrides/$1"
	fi
}

add_scripts() # package
{
	for script in preinst postinst prerm postrm; do
		[ -e "$debian/$1.$script" ] || continue
		sed "s/@VERSION@/$version/g" "$debian/$1.$script" \
			>"$work/$1/DEBIAN/$script"
		chmod 755 "$work/$1/DEBIAN/$script"
	done
}

# Declares the package's shared libraries in the linker's folder, so that other
# packages can depend on them.
add_library() # package
{
	for library in "$work/$1"/usr/lib/*.so.*; do
		[ -e "$library" ] || continue
		name=${library##*/}
		printf '%s %s %s (>= %s)\n' "${name%%.so.*}" "${name##*.so.}" \
			"$1" "$version" >"$work/$1/DEBIAN/shlibs"
		echo 'activate-noawait ldconfig' >"$work/$1/DEBIAN/triggers"
	done
}

# Finds the packages that the programs and libraries of this one need.
find_depends() # package
{
	programs=$(find "$work/$1/usr" -type f \( -perm -100 -o -name '*.so*' \) \
		! -path '*/share/*')
	echo 'shlibs:Depends=' >"$work/debian/substvars"
	[ -n "$programs" ] || return 0
	# shellcheck disable=SC2086 # plain paths, see install.sh
	(cd "$work" && dpkg-shlibdeps -Tdebian/substvars $programs \
		2>debian/shlibdeps.log) ||
		die "$(cat "$work/debian/shlibdeps.log")"
}

build_package() # package
{
	mkdir -p "$work/$1/DEBIAN"
	sh packaging/install.sh put "$build" "$work/$1" /usr /usr/lib \
		"$version" "$1"
	add_documents "$1"
	add_scripts "$1"
	add_library "$1"
	find_depends "$1"
	# Modes must not depend on the builder's umask.
	find "$work/$1" -type d -exec chmod 755 {} +
	(cd "$work/$1" && find usr -type f -exec md5sum {} + | sort -k 2) \
		>"$work/$1/DEBIAN/md5sums"
	(cd "$work" && dpkg-gencontrol -p"$1" -P"$1" -Tdebian/substvars -v"$version" \
		-fdebian/files)
	dpkg-deb --root-owner-group -Zxz -z"${DEB_LEVEL:-6}" \
		--build "$work/$1" "$out" >/dev/null
}

# shellcheck disable=SC2046 # names
[ $# -gt 0 ] || set -- $(sed -n 's/^Package: //p' $debian/control)
for package; do
	build_package "$package"
done
rm -rf "$work"
