#!/bin/sh
# SPDX-License-Identifier: MIT
# lengths.sh TOOL PROGRAM...: compare bee_decode with objdump, print TAP.
set -eu
tool=$1
shift
n=0
failed=0
for program in "$@"; do
	n=$((n + 1))
	name=$(basename "$program")
	if [ ! -e "$program" ]; then
		echo "ok $n - $name # SKIP not installed"
		continue
	fi
	if result=$(objdump -d -w "$program" | "$tool"); then
		echo "ok $n - $name: lengths as objdump has them"
	else
		echo "not ok $n - $name: lengths as objdump has them"
		failed=1
	fi
	echo "$result" | sed 's/^/# /'
done
n=$((n + 1))
every=$(mktemp)
trap 'rm -f "$every"' EXIT
if "$tool" --every >"$every" && result=$(objdump -D -z -w -b binary \
	-m i386:x86-64 "$every" | "$tool"); then
	echo "ok $n - every opcode: lengths as objdump has them"
else
	echo "not ok $n - every opcode: lengths as objdump has them"
	failed=1
fi
echo "$result" | sed 's/^/# /'
echo "1..$n"
exit $failed
