#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds a kernel with all checks from Debian's source package, as a folder like
# that of a fetched kernel (docs/design/lab.md). If it is stopped, the next run
# continues the build.
#
# usage: build.sh SOURCE-DEB OVERLAY WORK-DIR
#
# SOURCE-DEB is not needed once WORK-DIR/unpacked exists. The result is
# WORK-DIR/tree, which is complete if the script succeeds.
set -eu
export LC_ALL=C

die()
{
	printf 'debug kernel: %s\n' "$*" >&2
	exit 1
}

[ $# -eq 3 ] || die "usage: build.sh SOURCE-DEB OVERLAY WORK-DIR"
deb=$1
overlay=$(realpath "$2")
mkdir -p "$3"
work=$(realpath "$3")
src=$work/src
tree=$work/tree
jobs=$(nproc)

# make and gcc are there, since our modules need them; the kernel also needs these.
missing=
for tool in flex bison bc xz cpio; do
	command -v "$tool" >/dev/null || missing="$missing $tool"
done
printf '#include <gelf.h>\n' | gcc -E - >/dev/null 2>&1 ||
	missing="$missing libelf-dev"
[ -z "$missing" ] || die "to build a kernel, install:$missing"
depmod=$(PATH=$PATH:/sbin:/usr/sbin command -v depmod) ||
	die "depmod is missing: install kmod"

unpack()
{
	rm -rf "$src" "$work/deb"
	mkdir -p "$src" "$work/deb"
	echo "unpacking the kernel's source"
	dpkg-deb --fsys-tarfile "$deb" |
		tar -x -C "$work/deb" --no-same-owner --wildcards \
			'./usr/src/linux-source-*.tar.xz'
	set -- "$work"/deb/usr/src/linux-source-*.tar.xz
	[ -e "$1" ] || die "$deb holds no kernel source"
	tar -xJf "$1" -C "$src" --strip-components=1 --no-same-owner
	rm -rf "$work/deb"
	: >"$work/unpacked"
}

# A line of the overlay that is missing from the resulting .config is an error: the
# option may be unknown to this version, or its dependencies may be off.
check_config()
{
	bad=$(grep -E '^(# )?CONFIG_' "$overlay" | while IFS= read -r line; do
		case $line in
		"# "*)
			name=${line#"# "}
			! grep "^${name%% *}=" .config || :
			;;
		*)
			grep -qxF -e "$line" .config || echo "no $line"
			;;
		esac
	done)
	[ -z "$bad" ] || die "this kernel does not take the configuration:
$bad"
}

configure()
{
	echo "configuring"
	cp "$overlay" kernel/configs/skep.config
	make -s x86_64_defconfig skep.config
	check_config
}

# Installs the files that make needs to build modules, without the kernel's source.
install_headers()
{
	mkdir -p "$tree/headers"
	{
		printf '%s\n' Makefile Module.symvers .config
		[ ! -e tools/objtool/objtool ] || echo tools/objtool/objtool
		find arch/x86 -name 'Makefile*' -type f
		find include scripts arch/x86/include \
			\( -type f -o -type l \) \
			! -name '*.o' ! -name '.*.cmd' ! -path 'include/dt-bindings/*'
	} | cpio -pd --quiet "$tree/headers"
}

install_tree()
{
	echo "installing"
	rm -rf "$tree"
	mkdir -p "$tree"
	release=$(cat include/config/kernel.release)
	modules=$tree/lib/modules/$release
	make -s INSTALL_MOD_PATH="$tree" INSTALL_MOD_STRIP=1 DEPMOD=true \
		modules_install
	rm -f "$modules/build" "$modules/source"
	ln -s ../../../headers "$modules/build"
	"$depmod" -b "$tree" "$release"
	cp arch/x86/boot/bzImage "$tree/vmlinuz"
	cp .config "$tree/config"
	cp System.map "$tree/System.map"
	install_headers
	printf '%s\n' "$release" >"$tree/release"
}

[ -e "$work/unpacked" ] || unpack
cd "$src"
configure
echo "building with $jobs jobs"
make -j"$jobs" bzImage modules
install_tree
