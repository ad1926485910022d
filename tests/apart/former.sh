#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the former release from its commit, with this tree's test program, once:
# FOLDER/skep, FOLDER/work/master and FOLDER/work/chaos.rex. The last file is
# FOLDER/made. Without the commit it makes nothing.
#
# usage: former.sh COMMIT FOLDER MAKE
set -eu
commit=$1
folder=$2
make=$3
work=$(pwd)/tests/chaos/work

rm -rf "$folder"
mkdir -p "$folder/tree" "$folder/work"
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
	echo "this clone has no commit $commit" >&2
	exit 0
fi
git archive "$commit" | tar -x -C "$folder/tree"
unset MAKEFLAGS MAKELEVEL MAKEOVERRIDES T
cd "$folder/tree"
GOFLAGS=-tags=skep_former_peer "$make" --no-print-directory -j2 build/bin/skep \
	build/lib/libskeprpc.a build/lib/libskepworker.a >&2
cd ..
cp tree/build/bin/skep skep
cc -pthread -O1 -Itree/grid/include -Itree/include -I"$work" -o work/master \
	"$work/master.c" tree/build/lib/libskeprpc.a
tree/build/bin/skep gen --build "$work/chaos.idl" "$work/chaos.c" -o work/chaos.rex >&2
rm -rf tree
touch made
