#!/bin/sh
# SPDX-License-Identifier: MIT
# fabtests' functional programs over libfabric's tcp;ofi_rxm and over o2g:
# fabtests.sh BUILD FABTESTS
#
# It runs every program of fabtests/functional, in the order of the folder, with
# each set of options in the lists of functional and short tests of
# scripts/runfabtests.sh; a program in neither list runs without options. Server
# and client run on 127.0.0.1 as in that script. A row that passes over
# tcp;ofi_rxm and not over o2g is tried twice more; if it never passes, the run
# fails. Prints a table.
set -eu

provider=$(realpath "${1:?usage: fabtests.sh BUILD FABTESTS}")/lib
tree=$(realpath "${2:?usage: fabtests.sh BUILD FABTESTS}")
limit=${SKEP_FABTESTS_LIMIT:-$(. "$(dirname "$0")/../tap.sh" && stretch 60)}
only=${SKEP_FABTESTS_ONLY:-}
script=$tree/scripts/runfabtests.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
SKEP_O2G_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export SKEP_O2G_SECRET

# tests_of PROGRAM: its lines in the script's two lists.
tests_of()
{
	sed -n '/^functional_tests=(/,/^)/p; /^short_tests=(/,/^)/p' "$script" |
		grep -oE "\"$1( [^\"]*)?\"" | tr -d '"' | grep . || echo "$1"
}

# outcome SERVER CLIENT: by the script's rules; 61 is ENODATA, 38 is ENOSYS.
outcome()
{
	case "$1 $2" in
	"0 0") echo pass ;;
	"61 61" | "38 38") echo "not run" ;;
	*124*) echo hangs ;;
	*) echo "fails ($1, $2)" ;;
	esac
}

# run_pair PROVIDER PROGRAM OPTIONS...
run_pair()
{
	prov=$1 program=$(find "$tree/functional" "$tree/benchmarks" \
		-maxdepth 1 -name "$2" -type f | head -1)
	shift 2
	[ "$program" ] || {
		echo "not built"
		return
	}
	timeout "$limit" "$program" "$@" -p "$prov" -s 127.0.0.1 \
		>"$folder/server" 2>&1 &
	server=$!
	sleep 1
	timeout "$limit" "$program" "$@" -p "$prov" -s 127.0.0.1 127.0.0.1 \
		>"$folder/client" 2>&1 && client=0 || client=$?
	[ "$client" = 0 ] || {
		sleep 2
		kill "$server" 2>/dev/null || true
	}
	wait "$server" && result=0 || result=$?
	outcome "$result" "$client"
}

over_o2g()
{
	FI_PROVIDER_PATH=$provider run_pair o2g "$@"
}

last_words()
{
	cat "$folder/server" "$folder/client" | { grep -av '^$' || true; } | tail -1 |
		cut -c1-120 | tr '|' '/'
}

# worse TCP OURS
worse()
{
	[ "$1" = pass ] && [ "$2" != pass ]
}

lost=0 rows=0 passed=0
echo "| test | tcp;ofi_rxm | o2g | last words |"
echo "|---|---|---|---|"
for source in "$tree"/functional/*.c; do
	tests_of "fi_$(basename "$source" .c)" >"$folder/tests"
	while read -r line; do
		case $line in *"$only"*) ;; *) continue ;; esac
		# Words of the script's lists, never patterns.
		set -f
		# shellcheck disable=SC2086
		set -- $line
		set +f
		tcp=$(run_pair 'tcp;ofi_rxm' "$@" </dev/null)
		ours=$(over_o2g "$@" </dev/null) words=$(last_words)
		for _ in 1 2; do
			worse "$tcp" "$ours" || break
			ours=$(over_o2g "$@" </dev/null) words=$(last_words)
		done
		if [ "$ours" = pass ]; then
			words='' passed=$((passed + 1))
		fi
		if worse "$tcp" "$ours"; then
			lost=$((lost + 1))
		fi
		rows=$((rows + 1))
		echo "| $line | $tcp | $ours | $words |"
	done <"$folder/tests"
done
echo
echo "$rows rows, $passed pass over o2g, $lost pass over tcp;ofi_rxm alone"
[ "$rows" -gt 0 ] && [ "$lost" -eq 0 ]
