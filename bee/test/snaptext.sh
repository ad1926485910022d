#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2238,SC2181 # `got` is the name of a file
# Snapshots of dynamic programs whose libraries changed, or that no bee wrote.
# usage: snaptext.sh BUILD
set -eu
# shellcheck source=bee/test/snaplib.sh
. "$(dirname "$0")/snaplib.sh"
guest=$g/loads-glibc-dynamic

# Text comes from the files of libraries, so these must be as they were.
check_libraries() {
	cp "$g/library/part.so" "$g/library/joined.so" .
	cp part.so old
	hold ./part.so ./joined.so
	mv part.so gone
	"$bee" --snapshot snap "$pid" >said 2>why
	[ $? -eq 126 ] && grep -q 'part.so was removed, replaced or changed' why
	result $? "a library that was removed is refused by name"
	mv gone part.so
	save
	: >go
	mv snap libraries
	cp libraries snap
	rm part.so
	refuses "a library that is not here is refused by name" \
		'the library .*/part.so cannot be read'
	cp joined.so part.so
	refuses "another library is refused by name" \
		'the library .*/part.so is another one here'
	cp old part.so
	restore && is_unharmed
	result $? "the library as it was is accepted"
	edit_libraries
}

# Fields that no bee wrote, under a digest that is right: see snapedit.py.
edit_libraries() {
	bad=0
	while read -r why edits; do
		for edit in $edits; do
			python3 "$here/snapedit.py" libraries snap part.so "$edit"
			restore
			[ $? -eq 126 ] && grep -q "refused to restore.*$why" err &&
				continue
			bad=1
			echo "# not refused as $why: $edit"
			sed 's/^/# /' err
		done
	done <<'END'
libraries text+1 text+4096 text=0x400000 text_end=text text_end-4096 stubs=text stubs+0x80000000 path=x twice
another text_end+4096 offset+4096 stubs_end-4096 stubs_end+4096 digest+1
areas unmapped
END
	[ $bad -eq 0 ]
	result $? "libraries that no bee wrote are refused"
}

check_libraries
echo "1..$n"
exit "$failed"
