#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs that a distribution built: large, without PT_GNU_EH_FRAME, some with
# tables inside their text. The native run is the oracle. usage: programs.sh
# BUILD; a program that is not installed is skipped.
# shellcheck disable=SC2016 # scripts for guests expand there
set -eu
# shellcheck source=bee/test/lib.sh
. "$(dirname "$0")/lib.sh"

need() { # name, files: 1 and a skipped test when one is missing
	name=$1
	shift
	for file in "$@"; do
		[ -e "$file" ] && continue
		n=$((n + 1))
		echo "ok $n - $name # SKIP no $file"
		return 1
	done
}

seq 1 20000 >"$tmp/in"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
keyfile=/usr/share/keyrings/debian-archive-removed-keys.gpg
if need "gpgv: refuses a file that is no signature" /usr/bin/gpgv-static $keys; then
	same "gpgv: version" /usr/bin/gpgv-static --version
	same "gpgv: refuses a file that is no signature" \
		/usr/bin/gpgv-static --keyring $keys $keyfile
fi
for signed in /var/lib/apt/lists/*InRelease; do
	if need "gpgv: checks a signature" "$signed" /usr/bin/gpgv-static $keys; then
		same "gpgv: checks a signature" \
			/usr/bin/gpgv-static --keyring $keys "$signed"
		sed 's/Debian/debian/' "$signed" >"$tmp/forged"
		same "gpgv: finds a forged text" \
			/usr/bin/gpgv-static --keyring $keys "$tmp/forged"
	fi
	break
done

fsck=/sbin/e2fsck.static
if need "e2fsck: checks a file system" $fsck /sbin/mke2fs; then
	/sbin/mke2fs -q -t ext4 -U 01234567-89ab-cdef-0123-456789abcdef \
		"$tmp/disk" 4096 >/dev/null 2>&1
	same "e2fsck: checks a file system" $fsck -f -n "$tmp/disk"
	dd if=/dev/zero of="$tmp/disk" bs=1024 seek=30 count=4 \
		conv=notrunc 2>/dev/null
	same "e2fsck: finds what is broken" $fsck -f -n "$tmp/disk"
	cp "$tmp/disk" "$tmp/disk2"
	$fsck -f -y "$tmp/disk" >/dev/null 2>&1
	guarded $fsck -f -y "$tmp/disk2" >/dev/null 2>"$tmp/err"
	$fsck -f -n "$tmp/disk2" >"$tmp/got" 2>&1
	result $? "e2fsck: repairs what is broken"
fi

# gpgme, which dar wants first, starts gpg, a dynamic program.
dar=/usr/bin/dar_static
if need "dar: packs, compares and unpacks a tree" $dar /usr/bin/gpg; then
	mkdir -p "$tmp/tree/sub" "$tmp/out"
	cp "$tmp/in" "$tmp/tree/sub/in"
	guarded $dar -Q -c "$tmp/a" -R "$tmp/tree" -z >/dev/null 2>"$tmp/err" &&
		guarded $dar -Q -d "$tmp/a" -R "$tmp/tree" >/dev/null 2>&1 &&
		guarded $dar -Q -x "$tmp/a" -R "$tmp/out" >/dev/null 2>&1 &&
		diff -r "$tmp/tree" "$tmp/out" >"$tmp/got"
	result $? "dar: packs, compares and unpacks a tree"
fi
# Dynamic programs, which start others.
if need "python3: with its libraries" /usr/bin/python3; then
	same "python3: with its libraries" /usr/bin/python3 -c \
		'import ssl; print(ssl.OPENSSL_VERSION)'
	same "python3: ctypes, sqlite3, threads" /usr/bin/python3 -c '
import ctypes, json, sqlite3, threading
libm = ctypes.CDLL("libm.so.6")
libm.cos.restype, libm.cos.argtypes = ctypes.c_double, [ctypes.c_double]
out = []
threads = [threading.Thread(target=out.append, args=(i,)) for i in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
db = sqlite3.connect(":memory:").execute("select sqlite_version(), 6 * 7").fetchone()
print(json.dumps([libm.cos(1.0), sorted(out), db]))'
fi
if need "python3: callbacks of ctypes" /usr/bin/python3; then
	same "python3: callbacks of ctypes" /usr/bin/python3 -c '
from ctypes import *
numbers = (c_int * 1000)(*[n * 7919 % 1009 for n in range(1000)])
compare = CFUNCTYPE(c_int, POINTER(c_int), POINTER(c_int))
CDLL("libc.so.6").qsort(numbers, 1000, 4, compare(lambda a, b: a[0] - b[0]))
print(list(numbers))
many = [CFUNCTYPE(c_double, c_double)(lambda x, n=n: x * n) for n in range(500)]
print(sum(f(2.0) for f in many))'
fi
if need "perl: computes" /usr/bin/perl; then
	same "perl: computes" /usr/bin/perl -MPOSIX -MList::Util=sum -e \
		'print sum(map { $_ * $_ } 1..100), " ", floor(2.5), "\n"'
fi
if need "bash: processes in the place of files" /bin/bash; then
	same "bash: processes in the place of files" /bin/bash -c '
echo x | tee >(tr a-z A-Z >&2) | cat
diff <(seq 3) <(seq 4); echo $?
set +o posix; while read -r a; do echo "got $a"; done < <(echo one; echo two)
coproc cat; echo three >&"${COPROC[1]}"; read -r a <&"${COPROC[0]}"; echo "$a"'
fi
if need "gcc: compiles and links" /usr/bin/gcc; then
	echo 'int puts(const char *); int main(void) { return puts("hi") < 0; }' \
		>"$tmp/hi.c"
	guarded /usr/bin/gcc -o "$tmp/hi" "$tmp/hi.c" >"$tmp/got" 2>"$tmp/err" &&
		[ "$("$tmp/hi")" = hi ] && [ "$(guarded "$tmp/hi")" = hi ]
	result $? "gcc: compiles and links"
fi
echo "1..$n"
exit "$failed"
