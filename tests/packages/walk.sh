#!/bin/sh
# SPDX-License-Identifier: MIT
# What a user does with the installed programs, in a new folder; each step prints
# one line: walk.sh PREFIX
set -eu

prefix=$1
examples=$prefix/share/doc/skep-examples/examples
[ "$(command -v skep)" = "$prefix/bin/skep" ]

cp "$examples"/hello/* .
skep gen --build hello.idl hello.c
skep gen --master master.c
printf 'hello: %s\n' "$(skep run -- ./master)"

PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH
if command -v pkg-config >/dev/null; then
	# shellcheck disable=SC2046 # words
	gcc -o shared master.c $(pkg-config --cflags --libs libskeprpc)
	LD_LIBRARY_PATH=$prefix/lib skep run -- ./shared >shared.out
	grep -q 'together 100' shared.out
fi

printf 'int puts(const char *);\nint main(void) { puts("ran"); return 0; }\n' >a.c
gcc -static -o a a.c
printf 'bee: %s\n' "$(bee ./a)"

cat >job.py <<'END'
import math, skep
with skep.Executor() as executor:
    print(sum(executor.map(math.factorial, range(5))))
END
PYTHONPATH=$prefix/lib/python3/dist-packages
export PYTHONPATH
printf 'python: %s\n' "$(skep run -- /usr/bin/python3 -B job.py)"

# skep doctor also checks the machine, which may lack something.
skep doctor >doctor.out || true
printf 'doctor: %s\n' "$(grep -E -o '^bee +ok' doctor.out | tr -s ' ')"
printf 'lab: %s\n' "$(skep lab list | grep -c .)"
