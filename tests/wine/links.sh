#!/bin/sh
# SPDX-License-Identifier: MIT
# Links that this computer made, under bee.exe: they do not lead out of --root,
# and what they lead to is neither removed nor renamed in their place.
# usage: links.sh BUILD
set -eu
b=$(cd "$1" && pwd)
set -- "$b"
# shellcheck source=../../tests/wine/wine.sh
. "$(dirname "$0")/wine.sh"
# shellcheck source=../../bee/test/lib.sh
. "$(dirname "$0")/../../bee/test/lib.sh"
wine_begin "$b" wine

guarded() {
	within 120 "$b/bin/bee-guard" wine "$b/bin/bee.exe" "$@"
}

out=$tmp/out
r=$tmp/root
mkdir -p "$out/empty" "$r/a/b"
echo outside >"$out/file"
echo inside >"$r/a/b/file"
echo top >"$r/file"
ln -s a/b "$r/mid"
ln -s /a/b "$r/absolute" # not below the root for Wine
ln -s a/b/file "$r/leaf"
ln -s ../out "$r/above"
ln -s "$out" "$r/folder"
ln -s "$out/file" "$r/host"
ln -s "$out/new" "$r/away"
ln -s loop "$r/loop"
ls -lR --time-style=full-iso "$out" >"$tmp/before"

reaches "links that stay below the root" <<END
read /mid/file inside
read /leaf inside
type /mid link
type /leaf link
type /a/b/file file
text /mid /a/b
text /leaf /a/b/file
size /leaf 7
read /mid/../b/file inside
read /mid/../file No such file or directory
enter /mid done
here / /a/b
enter .. done
here / /a
make b/new done
read /mid/new made
gone /mid/new done
END
reaches "links that lead out of the root" <<END
read /host Invalid cross-device link
size /host Invalid cross-device link
type /host link
text /host Invalid cross-device link
read /folder/file Invalid cross-device link
make /folder/new Invalid cross-device link
make /host Invalid cross-device link
dir /folder/new Invalid cross-device link
gone /folder/file Invalid cross-device link
drop /folder/empty Invalid cross-device link
move /folder/file Invalid cross-device link
move /host Invalid cross-device link
mode /folder/file Invalid cross-device link
cut /folder/file Invalid cross-device link
may /folder/file Invalid cross-device link
enter /folder Invalid cross-device link
read /above/file Invalid cross-device link
read /absolute/file No such file or directory
make /away No such file or directory
read /loop Too many levels of symbolic links
END
says "the first such link is named" 'host is refused (EXDEV): a link leads out'
reaches "what a link leads to is not changed in its place" <<END
gone /leaf Operation not permitted
drop /mid Operation not permitted
move /leaf Operation not permitted
read /leaf inside
read /mid/file inside
END
says "the first such change is named" 'leaf is refused (EPERM): it is a link'
ls -lR --time-style=full-iso "$out" >"$tmp/after"
cmp -s "$tmp/before" "$tmp/after"
result $? "nothing outside the root was made or changed"
echo "1..$n"
exit "$failed"
