#!/bin/sh
# SPDX-License-Identifier: MIT
# Names below --root, on Linux: links and ".." stay inside, as chroot(2) has
# them. usage: root.sh BUILD
set -eu
# shellcheck source=bee/test/lib.sh
. "$(dirname "$0")/lib.sh"

make_root
mkdir -p "$r$out/empty"
ln -s /a/b/file "$r/etc/abs" # below it, an absolute name
ln -s ../../../../../../../../../../../../../file "$r/a/b/up"
ln -s /etc/abs "$r/chain"
ln -s /proc/self/root/etc/hostname "$r/magic"
ln -s /a/new "$r/dangling"
ln -s "$out/new" "$r/away"

reaches "links at the end of a name" <<END
read /file top
read /etc/abs inside
read /chain inside
read /host No such file or directory
read /a/b/up top
read /loop Too many levels of symbolic links
read /magic No such file or directory
size /etc/abs 7
size /host No such file or directory
type /etc/abs link
type /host link
text /etc/abs /a/b/file
END
reaches "links in the middle of a name" <<END
read /mid/file inside
read /a/all/file top
read /a/all/a/all/mid/file inside
read /folder/file No such file or directory
type /folder/empty folder
make /mid/made done
read /a/b/made made
dir /mid/dir done
type /a/b/dir folder
END
reaches "names that lead above the root" <<END
read /../../../../../../../../../../../../file top
read /a/../../../../../../../file top
enter /mid done
read file inside
read ../../../../../../../../../file top
enter /folder done
read file No such file or directory
read /proc/self/root/file top
read /proc/self/root/proc/self/root/mid/file inside
END
reaches "what is made through a link" <<END
make /dangling done
read /a/new made
make /away done
type /away link
read /away made
gone /away done
type /away No such file or directory
type $out/new file
END
[ "$(ls "$out")" = file ] && [ "$(cat "$out/file")" = outside ] &&
	[ -f "$r$out/new" ]
result $? "nothing outside the root was made or changed"

# The name of a FIFO, from below the root and from outside.
mkfifo "$r/fifo"
guarded --root "$r" /bin/busybox cat /fifo >"$tmp/got" 2>"$tmp/err" &
echo through >"$r/fifo"
wait
[ "$(cat "$tmp/got")" = through ]
result $? "a FIFO below the root"

# Names of sockets: the same as without a root.
mkdir "$r/sockets"
(cd "$r/sockets" && "$OLDPWD/$b/conformance/glibc/unix_peers") >"$tmp/want"
guarded --root "$r" --cwd /sockets "$b/conformance/glibc/unix_peers" \
	>"$tmp/got" 2>"$tmp/err"
cmp -s "$tmp/want" "$tmp/got"
result $? "sockets have names below the root"

# Names of descriptors, and links to them: the same as without a root. The output
# is a pipe, since a file that is opened again has another position.
mkdir "$r/names" "$tmp/names" "$r/dev"
for x in descriptor_names descriptor_links; do
	(cd "$tmp/names" && "$OLDPWD/$b/conformance/glibc/$x") | cat >"$tmp/want"
	guarded --root "$r" --cwd /names "$b/conformance/glibc/$x" \
		2>"$tmp/err" | cat >"$tmp/got"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$x below the root"
done

# A dynamic program whose loader and libraries are named by absolute links.
d=$tmp/debian
loader=/lib64/ld-linux-x86-64.so.2
libc=/lib/x86_64-linux-gnu/libc.so.6
mkdir -p "$d/lib64" "$d/lib/x86_64-linux-gnu" "$d/store"
cp -L $loader "$d/store/loader"
cp -L $libc "$d/store/libc"
ln -s /store/loader "$d$loader"
ln -s /store/libc "$d$libc"
cp "$g/hello-glibc-dynamic" "$d/hello"
code "a program whose loader is an absolute link" 42 \
	guarded --root "$d" "$d/hello" 42
mv "$d/store" "$d/gone"
code "its loader is not the host's" 126 guarded --root "$d" "$d/hello" 42
says "a loader that is missing below the root is named" 'is it below --root'
echo "1..$n"
exit "$failed"
