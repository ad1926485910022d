#!/bin/sh
# SPDX-License-Identifier: MIT
# The pages that are written by hand list exactly the options, parameters and
# fields of the programs, modules and formats.
#
# usage: man_entries.sh BUILD
set -eu

build=$1
man=docs/man
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
number=0

# compare NAME: $folder/real and $folder/page have the same words.
compare()
{
	number=$((number + 1))
	sort -u "$folder/real" >"$folder/a"
	sort -u "$folder/page" >"$folder/b"
	if [ -s "$folder/a" ] && cmp -s "$folder/a" "$folder/b"; then
		echo "ok $number - $1"
		return
	fi
	comm -23 "$folder/a" "$folder/b" | sed 's/^/# the page lacks /'
	comm -13 "$folder/a" "$folder/b" | sed 's/^/# the page invents /'
	[ -s "$folder/a" ] || echo "# nothing was found to compare"
	echo "not ok $number - $1"
}

# section PAGE HEADING: its lines.
section()
{
	sed -n "/^\\.SH $2\$/,/^\\.SH /p" "$man/$1"
}

# options: the options at the start of lines with man macros.
options()
{
	sed -n 's/^\.\(B\|BI\|BR\) \\-\\-\([a-z\\-]*\).*/--\2/p' | sed 's/\\-/-/g'
}

for module in dynamos shimos o2g; do
	cat $module/kmod/*.c | tr -d '\n' |
		grep -oE 'module_param(_cb|_array)?\([a-z_]+' |
		sed 's/.*(//' >"$folder/real"
	section $module.4 PARAMETERS | sed -n 's/^\.BR\{0,1\} \([a-z_]*\).*/\1/p' >"$folder/page"
	compare "the page of $module has its parameters"
	name=$(grep -A 4 'struct miscdevice' $module/kmod/device.c | sed -n 's/.*\.name = \([A-Z0-9_]*\),/\1/p')
	sed -n "s|^#define $name \"\([^\"]*\)\".*|/dev/\1|p" include/skep/*.h >"$folder/real"
	grep -oE '/dev/[a-z0-9]+' "$man/$module.4" >"$folder/page" || :
	compare "the page of $module has its device"
done

"$build/bin/bee" --help | grep -oE '^  --[a-z-]+|, --[a-z-]+' | tr -d ' ,' >"$folder/real"
section bee.1 OPTIONS | options >"$folder/page"
compare "the page of bee has its options"

"$build/bin/skep" help update policy | sed -n 's/^  \(--[a-z-]*\).*/\1/p' |
	grep -vx -e --nobody >"$folder/real"
section skep-policy.5 DESCRIPTION | options >"$folder/page"
compare "the page of policies has their options"

grep -ohE 'json:"[a-z0-9_]+' dynamos/update/pack/manifest.go | sed 's/.*"//' >"$folder/real"
section skep-package.5 MANIFEST | grep '^\.BR\{0,1\} ' | grep -oE '[a-z][a-z0-9_]+' >"$folder/page"
compare "the page of packages has the keys of their manifest"

# Words of the scanner of interface files, in upper or lower case.
sed -n '/^var \(types\|modes\) = /,/^}/p' grid/idl/*.go | grep -oE '"[A-Za-z_]+"' |
	tr -d '"' >"$folder/real"
section skep-idl.5 PARAMETERS | grep -E '^\.BR? ' |
	grep -oE '[A-Za-z_]{2,}' | grep -vxE 'BR|unsigned' >"$folder/page"
compare "the page of interface files has their modes and types"

# CalcOrder is in no table; Fortranformat is an alternative spelling.
{ echo CalcOrder; sed -n '/^var options = /,/^}/p' grid/idl/options.go |
	grep -oE '"[A-Za-z]+"' | tr -d '"' | grep -vx Fortranformat; } >"$folder/real"
section skep-idl.5 OPTIONS | grep -E '^\.BR? ' | grep -oE '[A-Za-z]{3,}' >"$folder/page"
compare "the page of interface files has their options"
echo "1..$number"
