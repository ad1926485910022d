#!/bin/sh
# SPDX-License-Identifier: MIT
# put installs the files of packaging/files.tbl, or those of one package, into
# ROOT/PREFIX. remove deletes them, and the folders that become empty. list
# prints the targets.
#
# usage: install.sh put|remove|list BUILD ROOT PREFIX LIBDIR VERSION [PACKAGE]
set -eu
export LC_ALL=C
umask 022

what=$1
build=$2
root=$3
prefix=$4
libdir=$5
version=$6
package=${7:-}
cd "$(dirname "$0")/.."

die()
{
	printf 'install: %s\n' "$*" >&2
	exit 1
}

case $prefix in /*) ;; *) die "PREFIX must be an absolute path, not $prefix" ;; esac
case $libdir in /*) ;; *) die "LIBDIR must be an absolute path, not $libdir" ;; esac
case $prefix$libdir in
*[!A-Za-z0-9/._+~-]*) die "PREFIX and LIBDIR may not have characters that pkg-config, DKMS or make takes for its own: $prefix $libdir" ;;
esac

# Returns an error before the first file is changed, and not in the middle.
need_rights() # folder
{
	at=$1
	until [ -e "$at" ]; do
		case $at in
		*/*) at=${at%/*} ;;
		*) at=. ;;
		esac
		[ -n "$at" ] || at=/
	done
	{ [ -d "$at" ] && [ -w "$at" ]; } ||
		die "you may not write to $at: use sudo, or give make a DESTDIR or PREFIX of your own"
}

# Makes the files whose content depends on PREFIX, in a folder of this run: another
# run may have another PREFIX. The check above permits only characters that sed takes
# literally.
fill()
{
	for file in packaging/*/*.in; do
		name=${file##*/}
		sed -e "s|@PREFIX@|$prefix|g" -e "s|@LIBDIR@|$libdir|g" \
			-e "s|@VERSION@|$version|g" "$file" >"$filled/${name%.in}"
	done
}

# Prints MODE SOURCE TARGET for each file; TARGET is relative to ROOT.
list_files()
{
	grep -v -e '^#' -e '^$' packaging/files.tbl |
	while read -r owner mode source folder; do
		may=${owner%"${owner#[?]}"}
		owner=${owner#[?]}
		case $package in ''|"$owner") ;; *) continue ;; esac
		case $source in
		FILLED/*) source=$filled/${source#FILLED/} ;;
		BUILD/*) source=$build/${source#BUILD/} ;;
		esac
		case $folder in
		LIBDIR/*) folder=$libdir/${folder#LIBDIR/} ;;
		*) folder=$prefix/$folder ;;
		esac
		folder=$(printf '%s' "$folder" | sed "s|VERSION|$version|")
		if [ "$mode" = link ]; then
			printf '%s %s %s\n' link "$source" "$folder"
			continue
		fi
		for file in $source; do
			if [ ! -f "$file" ]; then
				[ -n "$may" ] || printf 'none %s -\n' "$file"
				continue
			fi
			case $folder in
			*/) printf '%s %s %s\n' "$mode" "$file" "$folder${file##*/}" ;;
			*) printf '%s %s %s\n' "$mode" "$file" "$folder" ;;
			esac
		done
	done
}

put_file() # mode source target
{
	mkdir -p "${3%/*}"
	case $1 in
	none) die "$2 is not there: run make" ;;
	link) ln -sfn "$2" "$3" ;;
	*) install -m "${1%[sa]}" "$2" "$3" ;;
	esac
	case $1 in
	*s) strip --strip-unneeded --remove-section=.comment "$3" ;;
	*a) strip --strip-debug --enable-deterministic-archives "$3" ;;
	esac
}

# Removes a file, then its folders while they are empty: rmdir fails for others.
remove_file() # target
{
	rm -f "$1"
	dir=${1%/*}
	while [ "$dir" != "$root$prefix" ] && [ "$dir" != "$root" ]; do
		rmdir "$dir" 2>/dev/null || return 0
		dir=${dir%/*}
	done
}

[ "$what" = list ] || need_rights "$root$prefix"
filled=$(mktemp -d)
trap 'rm -rf "$filled"' EXIT
trap 'exit 1' HUP INT TERM
fill
files=$(list_files)
while read -r mode source target; do
	case $what in
	list) printf '%s\n' "$target" ;;
	put) put_file "$mode" "$source" "$root$target" ;;
	remove) remove_file "$root$target" ;;
	*) die "put, remove or list, not $what" ;;
	esac
done <<END
$files
END
