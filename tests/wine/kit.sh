#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the Windows kit under Wine like the owner of a PC: unpacks it, starts
# kit.cmd, reads the result file. usage: kit.sh BUILD ZIP
set -eu
zip=$2
# shellcheck source=../../tests/tap.sh
. "$(dirname "$0")/../../tests/tap.sh"
# shellcheck source=../../tests/wine/wine.sh
. "$(dirname "$0")/wine.sh"
wine_begin "$1" wine-kit
set +e # exit codes are what is compared

unzip -q "$zip" -d "$tmp"
kit=$tmp/skep-kit
cd "$kit" || exit 1
touch "$tmp/stamp"

within 600 wine cmd /c kit.cmd >"$tmp/why" 2>&1
result $? "kit.cmd ends with status 0"
tr -d '\r' <result.txt >"$tmp/why"
for part in system "bee --probe" "bee hello" "skep version" "skep doctor" \
	programs "skep bench"; do
	grep -qx "== $part *" "$tmp/why"
	result $? "the result has $part"
done
grep -qx '== end, 0 parts failed *' "$tmp/why"
result $? "the result counts no failure"

want=$(grep -cv '^#' kit.tbl)
sed -n 's/^ok [0-9]* - \(.*\) ([0-9]* ms)$/\1/p' "$tmp/why" >"$tmp/passed"
grep -v '^#' kit.tbl | cut -d' ' -f1 >"$tmp/names"
while read -r name; do
	grep -qx "$name" "$tmp/passed"
	result $? "program $name"
done <"$tmp/names"
[ "$(wc -l <"$tmp/passed")" -eq "$want" ]
result $? "as many programs as the table has"
find . -newer "$tmp/stamp" -type f | sort >"$tmp/written"
printf './result.json\n./result.txt\n' | cmp -s - "$tmp/written"
result $? "nothing but the result files is written"

for bar in programs calls start eigen join; do
	grep -q "\"bar\": \"$bar\"" result.json
	result $? "the report has a figure of $bar"
done
for bar in noise update o2g; do
	grep -A1 "\"bar\": \"$bar\"" result.json | grep -q '"reason": "..*"'
	result $? "the report says why $bar is not shown"
done
grep -iwF -e "$(hostname)" -e "$tmp" -e 127.0.0.1 result.json >"$tmp/told"
[ ! -s "$tmp/told" ]
result $? "the report names no host, folder or address"

echo 3 >expected/hello-musl.code
grep '^#\|^hello-musl ' kit.tbl >"$tmp/one" && cp "$tmp/one" kit.tbl
within 600 wine skep.exe kit . >"$tmp/why" 2>&1
[ $? -eq 1 ] && grep -q '^not ok .* - hello-musl ' "$tmp/why"
result $? "a wrong exit code is a failure"
mv skep.exe gone.exe
within 600 wine cmd /c kit.cmd >"$tmp/why" 2>&1
[ $? -eq 4 ] && grep -q '^FAILED: programs' result.txt && grep -q '^== end, 4 parts failed' result.txt
result $? "parts that fail are counted"
echo "1..$n"
exit "$failed"
