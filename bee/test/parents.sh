#!/bin/sh
# SPDX-License-Identifier: MIT
# ".." behind links, and folders that become links while they are used, on
# Linux. usage: parents.sh BUILD
set -eu
# shellcheck source=bee/test/lib.sh
. "$(dirname "$0")/lib.sh"

here=$PWD
b=$here/$b
g=$here/$g
make_root
ln -s /a/b/file "$r/chain"
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 \
	26 27 28 29 30 31 32 33 34 35 36 37 38 39 40; do
	ln -s "n$((i - 1))" "$r/n$i"
done
ln -sfn a/b "$r/n0"
ln -s n39 "$r/forty"
ln -s ../../.. "$r/a/b/above"
mkdir -m 0 "$r/shut"
reaches "names that leave a link" <<END
read /mid/../../file top
size /mid/../b/file 7
dir /mid/../fresh done
type /a/fresh folder
drop /mid/../fresh done
type /a/fresh No such file or directory
read /mid/../file No such file or directory
read /a/all/../file top
read /a/b/above/../../../file top
read /chain/../file Not a directory
read /host/../file No such file or directory
read /folder/../file No such file or directory
read /gone/../file No such file or directory
read /file/../file Not a directory
read /loop/../file Too many levels of symbolic links
read /forty/../b/file Too many levels of symbolic links
read /n39/../b/file inside
read /n39/file inside
read /n40/file Too many levels of symbolic links
read /n40/../b/file Too many levels of symbolic links
drop / Device or resource busy
END
reaches "a process that goes through links" <<END
enter /mid done
here / /a/b
enter .. done
here / /a
read b/file inside
enter /a/b/above done
here / /
enter /file Not a directory
enter /host No such file or directory
enter /loop Too many levels of symbolic links
enter /proc/self/root/mid done
here / /a/b
END
cd "$r/mid"
same "the same without a root" "$g/reach-glibc" here "$r" \
	read ../../mid/file read ../file read "$r/mid/../../file" \
	enter ../.. here "$r" enter mid here "$r" enter above/a/all here "$r" \
	enter "$r/shut" here "$r"
cd "$here"
rmdir "$r/shut"

# A folder that becomes a link while names in it are used.
mkdir "$r/swap" "$out/removed"
touch "$out/unlinked" "$out/renamed"
ln -s "$out" "$r/link"
ls -lR --time-style=full-iso "$out" >"$tmp/before"
"$g/swap-glibc" "$r/swap" "$r/link" &
swap=$!
guarded --root "$r" "$g/swap-glibc" 2000 >"$tmp/got" 2>"$tmp/err"
kill "$swap"
wait "$swap" 2>/dev/null
ls -lR --time-style=full-iso "$out" >"$tmp/after"
echo kept >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got" && cmp -s "$tmp/before" "$tmp/after"
result $? "a folder that becomes a link leads to nothing outside the root"

echo "1..$n"
exit "$failed"
