#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the packages of the former release from its commit, once: FOLDER/first/*.deb.
# The last file is FOLDER/made. Without the commit it makes nothing.
#
# usage: former.sh COMMIT FOLDER MAKE
set -eu
commit=$1
folder=$2
make=$3

rm -rf "$folder"
mkdir -p "$folder/tree"
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
	echo "this clone has no commit $commit" >&2
	exit 0
fi
git archive "$commit" | tar -x -C "$folder/tree"
unset MAKEFLAGS MAKELEVEL MAKEOVERRIDES T
cd "$folder/tree"
# The commit has the version of this tree, but an upgrade needs a lower one.
GOFLAGS=-tags=skep_former_peer DEB_LEVEL=0 "$make" --no-print-directory -j2 deb \
	DEB_VERSION=0.0.9 >&2
cd ..
mv tree/build/deb first
rm -rf tree
touch made
