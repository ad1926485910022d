#!/bin/sh
# SPDX-License-Identifier: MIT
# Copies the contents of each archive of a release into a folder with the
# archive's name.
#
# usage: stage.sh BUILD VERSION
set -eu
export LC_ALL=C

build=$1
version=$2
stage=$build/release-stage
texts="README.md CHANGELOG.md SECURITY.md LICENSES"
rm -rf "$stage"

# The same files as `make install PREFIX=/opt/skep`; users may unpack them
# elsewhere.
linux=$stage/skep-$version-linux-amd64.tar.gz
root=$build/release-root
rm -rf "$root"
sh packaging/install.sh put "$build" "$root" /opt/skep /opt/skep/lib "$version"
mkdir -p "$stage"
mv "$root/opt/skep" "$linux"
rm -rf "$root"
# shellcheck disable=SC2086 # a list of names
cp -r $texts "$linux"

windows=$stage/skep-$version-windows-amd64.zip
mkdir -p "$windows"
cp "$build/bin/skep.exe" "$build/bin/bee.exe" docs/windows.md \
	"$build/completion/powershell/skep.ps1" "$windows"
# shellcheck disable=SC2086
cp -r $texts "$windows"

# The sources of this folder: the files that git tracks, or all files without git.
source=$stage/skep-$version-source.tar.gz
mkdir -p "$source"
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files
else
	find . -path ./build -prune -o ! -type d -print
fi | tar -cf - -T - | tar -xf - -C "$source"
