#!/bin/sh
# SPDX-License-Identifier: MIT
# The image cache: a second run takes it, and whatever is wrong with it is said
# in one line and rebuilt. usage: cache.sh BUILD
set -eu
# shellcheck source=bee/test/lib.sh
. "$(dirname "$0")/lib.sh"
c=$tmp/cache
mkdir "$c"

run() { # program and arguments; output and facts in $tmp/got
	guarded --cache "$c" --report "$tmp/report" "$@" \
		>"$tmp/got" 2>"$tmp/err"
	echo "exit $?" >>"$tmp/got"
	grep -E '^(sites_|sha256|stub_bytes)' "$tmp/report" >>"$tmp/got"
}

want() { # natively, and what a run without cache reports
	"$@" >"$tmp/want" 2>/dev/null
	echo "exit $?" >>"$tmp/want"
	guarded --report "$tmp/report" "$@" >/dev/null 2>&1
	grep -E '^(sites_|sha256|stub_bytes)' "$tmp/report" >>"$tmp/want"
}

check() { # name, word that the one line must have; "" for silence
	if [ -z "$2" ]; then
		[ ! -s "$tmp/err" ]
	else
		grep -q "$2" "$tmp/err" && [ "$(wc -l <"$tmp/err")" -eq 1 ]
	fi && cmp -s "$tmp/want" "$tmp/got" && [ "$(find "$c" -type f | wc -l)" -eq 1 ]
	result $? "$1"
}

for kind in glibc pie musl; do
	rm -f "$c"/*
	want "$g/work-$kind"
	run "$g/work-$kind"
	check "$kind: the first run makes the image" ""
	run "$g/work-$kind"
	check "$kind: the second run is the same" ""
done
image=$(echo "$c"/*)
run "$g/work-musl"
grep -q '^images 1$' "$tmp/report" && grep -q '^images_cached 1$' "$tmp/report"
result $? "a cached image is used"

size=$(wc -c <"$image")
cp "$image" "$tmp/good"
for at in 0 9 20 100 200 1000 $((size / 2)) $((size - 1)); do
	cp "$tmp/good" "$image"
	printf 'X' | dd of="$image" bs=1 seek="$at" conv=notrunc 2>/dev/null
	run "$g/work-musl"
	check "a byte changed at $at is found" "damaged"
	cmp -s "$tmp/good" "$image"
	result $? "a byte changed at $at is made good"
done
for len in 1 100 300 $((size - 1)); do
	head -c "$len" "$tmp/good" >"$image"
	run "$g/work-musl"
	check "an image of $len bytes is found" "the cached image is rebuilt"
done
: >"$image"
run "$g/work-musl"
check "an empty image is found" "the cached image is rebuilt"
want "$g/hello-musl"
rm -f "$c"/*
run "$g/hello-musl"
other=$(echo "$c"/*)
cp "$tmp/good" "$other"
run "$g/hello-musl"
check "another program's image is found" "another program"

# A good file of a user or with a mode that cannot be trusted.
want "$g/work-musl"
rm -f "$c"/*
cp "$tmp/good" "$image"
chmod 620 "$image"
run "$g/work-musl"
check "an image that the group may write is not run" "writable by others"
[ "$(stat -c %a "$image")" = 600 ]
result $? "the image is written anew for its owner only"
mv "$image" "$tmp/aside"
ln -s "$tmp/aside" "$image"
run "$g/work-musl"
check "a link is not run" "no regular file"
if [ "$(id -u)" -eq 0 ]; then
	cp "$tmp/good" "$image"
	chown 65534 "$image"
	run "$g/work-musl"
	check "an image of another user is not run" "owned by another user"
	[ "$(stat -c %u "$image")" -eq 0 ]
	result $? "an image of another user is replaced by one's own"
fi

c=$tmp/none
want "$g/hello-musl"
run "$g/hello-musl"
mkdir "$c"
: >"$c/x"
check "a missing directory is reported" "cannot be written"

# The name of an image needs 69 bytes behind the directory's.
c=$tmp/cache
rm -f "$c"/*
slashes() { # so many
	printf "%*s" "$1" "" | tr ' ' /
}
want "$g/hello-musl"
short=$c
c=$short$(slashes $((3900 - ${#short})))
run "$g/hello-musl"
check "a directory's path of 3900 bytes is taken" ""
c=$short$(slashes $((4026 - ${#short})))
rm -f "$short"/*
run "$g/hello-musl"
grep -q "the cache cannot be written: its path is too long: /" "$tmp/err" &&
	cmp -s "$tmp/want" "$tmp/got" && [ -z "$(ls "$short")" ]
result $? "a longer path is refused in one line, and nothing is written"

c=$tmp/cache
rm -f "$c"/*
within 60 sh -c 'trap "" XFSZ; ulimit -f 1; exec "$@"' sh "$b/bin/bee" \
	--cache "$c" "$g/hello-musl" 42 >"$tmp/got" 2>"$tmp/err"
echo "exit $?" >>"$tmp/got"
"$g/hello-musl" 42 >"$tmp/want"
echo "exit $?" >>"$tmp/want"
cmp -s "$tmp/want" "$tmp/got" && grep -q "cannot be written" "$tmp/err" &&
	[ -z "$(ls "$c")" ]
result $? "a full cache is reported, and keeps no part of an image"

# No site, no stub: the smallest image there is.
want "$g/trap"
for i in first second; do
	run "$g/trap"
	! grep -q "made anew" "$tmp/err" && cmp -s "$tmp/want" "$tmp/got" &&
		[ "$(find "$c" -type f | wc -l)" -eq 1 ]
	result $? "a program that calls nobody has an image, $i run"
done
echo "1..$n"
exit "$failed"
