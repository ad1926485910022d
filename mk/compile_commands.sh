#!/bin/sh
# SPDX-License-Identifier: MIT
# Turns what `make -nB V=1` prints into a compilation database on standard
# output (clang.llvm.org/docs/JSONCompilationDatabase.html): one entry for each
# C file, with the first command that compiles it.
#
# usage: make -nB V=1 all | compile_commands.sh DIRECTORY
set -eu

[ $# = 1 ] || { echo "usage: compile_commands.sh DIRECTORY" >&2; exit 2; }
awk -v dir="$1" '
function quote(s) {
	gsub(/\\/, "\\\\", s)
	gsub(/"/, "\\\"", s)
	return "\"" s "\""
}
/ -c / && $NF ~ /\.c$/ && !seen[$NF]++ {
	printf "%s\n  {\"directory\": %s, \"file\": %s, \"command\": %s}",
		n++ ? "," : "[", quote(dir), quote($NF), quote($0)
}
END {
	print n ? "\n]" : "[]"
	exit !n
}'
