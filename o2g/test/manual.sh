#!/bin/sh
# SPDX-License-Identifier: MIT
# Every variable that libo2g or its libfabric provider reads stands in the
# manual, and the manual names no other.
set -eu

page=docs/man/fi_o2g.7
# shellcheck source=../../tests/tap.sh
. "$(dirname "$0")/../../tests/tap.sh"
folder=$tmp

# A parameter of the provider is a line like {"iface", FI_PARAM_STRING,
sed -n 's/^\t{"\([a-z_]*\)", FI_PARAM_.*/FI_O2G_\1/p' o2g/prov/provider.c |
	tr '[:lower:]' '[:upper:]' >"$folder/provider"
grep -hoE 'getenv\("[A-Z0-9_]+"\)|"SKEP_O2G_[A-Z_]+"' \
	o2g/lib/*.c o2g/user/*.c o2g/prov/*.c |
	grep -oE '(SKEP|FI)_O2G_[A-Z_]+' | sort -u >"$folder/library"
grep -oE '(SKEP|FI)_O2G_[A-Z_]*[A-Z]' "$page" | sort -u >"$folder/manual"

# What the provider reads by a name of its own is described under that name.
sed 's/^FI_/SKEP_/' "$folder/provider" >"$folder/renamed"
cat "$folder/provider" "$folder/library" | grep -vxFf "$folder/renamed" |
	grep -vxFf "$folder/manual" >"$folder/missing" || true
judge "$folder/missing" "the manual names every variable that is read"
cat "$folder/provider" "$folder/library" | grep -vxFf - "$folder/manual" \
	>"$folder/invented" || true
judge "$folder/invented" "every variable that the manual names is read"
test "$(wc -l <"$folder/provider")" -ge 8 -a \
	"$(wc -l <"$folder/library")" -ge 10 || echo few >"$folder/few"
: >>"$folder/few"
judge "$folder/few" "the sources could be parsed"
echo "1..$n"
