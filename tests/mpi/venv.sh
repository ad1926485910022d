#!/bin/sh
# SPDX-License-Identifier: MIT
# Creates the virtual environments of the MPIs from PyPI, with mpi4py, and
# unpacks the tests of the same version of mpi4py. The stamp for make is
# written last, so this is done only once.
#
# usage: venv.sh FOLDER
set -eu

dir=$1
here=$(dirname "$0")
pins=$here/requirements.txt
log=$dir/setup.log

say()
{
	printf 'mpi: %s\n' "$*"
}

die()
{
	tail -n 15 "$log" >&2
	printf 'mpi: %s\n' "$*" >&2
	exit 1
}

# pip: runs an environment's pip with a time limit that follows the load; its
# output goes to the log.
pip()
{
	env=$1
	shift
	limit=$(. "$here/../tap.sh" && stretch 600)
	timeout "$limit" "$dir/$env/bin/python" -m pip \
		--disable-pip-version-check "$@" >>"$log" 2>&1 </dev/null
}

# environment NAME: creates one with the MPI of that name and mpi4py.
environment()
{
	say "installing $1 and mpi4py from PyPI into $dir/$1"
	rm -rf "${dir:?}/$1"
	python3 -m venv "$dir/$1" >>"$log" 2>&1 ||
		die "python3 -m venv failed: run make setup (python3-venv)"
	pip "$1" install --only-binary :all: -c "$pins" "$1" mpi4py ||
		die "pip could not install $1: these tests need" \
			"PyPI, or a mirror named in PIP_INDEX_URL"
}

tests()
{
	version=$(sed -n 's/^mpi4py==//p' "$pins")
	say "fetching the tests of mpi4py $version"
	rm -rf "$dir/sdist" "$dir/mpi4py"
	pip mpich download --no-deps --no-binary mpi4py -d "$dir/sdist" \
		"mpi4py==$version" ||
		die "pip could not download the source of mpi4py $version:" \
			"its tests need PyPI, or a mirror in PIP_INDEX_URL"
	mkdir -p "$dir/mpi4py"
	tar -xzf "$dir/sdist/mpi4py-$version.tar.gz" -C "$dir/mpi4py" \
		--strip-components=2 "mpi4py-$version/test" ||
		die "the source of mpi4py $version has no folder test"
}

mkdir -p "$dir"
: >"$log"
environment mpich
environment openmpi
tests
: >"$dir/ready"
