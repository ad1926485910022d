// SPDX-License-Identifier: MIT

package main

import "strings"

// Debian's own static programs: they were not built for these tests.
const (
	busyboxFile = "/bin/busybox"
	bashFile    = "/bin/bash-static"
)

type tool struct {
	name  string
	args  []string
	stdin string
	code  int
}

func debianCases() []testCase {
	var cases []testCase
	add := func(program, file, pkg string, tools []tool) {
		missing := ""
		if !isReadable(file) {
			missing = file + " is missing; install " + pkg
		}
		for _, t := range tools {
			cases = append(cases, testCase{name: "debian " + program + " " + t.name, file: file,
				args: t.args, stdin: t.stdin, code: t.code, fixture: true, missing: missing})
		}
	}
	add("busybox", busyboxFile, "busybox-static", busyboxTools)
	var scripts []tool
	for _, s := range ashScripts {
		scripts = append(scripts, tool{name: "ash " + s.name, args: []string{"ash", "-c", s.text}, stdin: s.stdin, code: s.code})
	}
	add("busybox", busyboxFile, "busybox-static", scripts)
	scripts = nil
	for _, s := range append(ashScripts, bashScripts...) {
		scripts = append(scripts, tool{name: s.name, args: []string{"--norc", "-c", s.text}, stdin: s.stdin, code: s.code})
	}
	add("bash", bashFile, "bash-static", scripts)
	return cases
}

func splitWords(s string) []string { return strings.Fields(s) }

var busyboxTools = []tool{
	{name: "echo", args: []string{"echo", "-e", `one\ttwo`, "three"}},
	{name: "cat", args: splitWords("cat words.txt - numbers.txt"), stdin: "from stdin\n"},
	{name: "uname", args: splitWords("uname -s")},
	{name: "sha256sum", args: splitWords("sha256sum sub/data.bin words.txt")},
	{name: "md5sum", args: splitWords("md5sum sub/data.bin")},
	{name: "sha512sum of stdin", args: splitWords("sha512sum"), stdin: strings.Repeat("x", 300000)},
	{name: "sha1sum", args: splitWords("sha1sum words.txt")},
	{name: "awk", args: []string{"awk", `{ s += $1 * $2; n[NR % 2]++ } END { printf "%d %.3f %d %s\n", s, 7 / 3, n[1], toupper("done") }`, "numbers.txt"}},
	{name: "seq", args: splitWords("seq 1 3 40")},
	{name: "wc", args: splitWords("wc words.txt numbers.txt sub/data.bin")},
	{name: "expr", args: splitWords("expr 6 * 7 - 2")},
	{name: "factor", args: splitWords("factor 1234567890123 600851475143")},
	{name: "sort", args: splitWords("sort -u words.txt")},
	{name: "sort numbers", args: splitWords("sort -n -r -k2 numbers.txt")},
	{name: "uniq", args: splitWords("uniq -c"), stdin: "a\na\nb\nb\nb\nc\n"},
	{name: "grep", args: splitWords("grep -n an words.txt")},
	{name: "grep none", args: splitWords("grep zebra words.txt"), code: 1},
	{name: "grep tree", args: splitWords("grep -r leaf sub")},
	{name: "sed", args: []string{"sed", "-e", "s/a/A/g;2d", "-e", "$p", "words.txt"}},
	{name: "sed in place", args: []string{"sed", "-i", "s/x/y/", "words.txt"}},
	{name: "tr", args: splitWords("tr a-z A-Z"), stdin: "upper case\n"},
	{name: "cut", args: []string{"cut", "-d", " ", "-f", "2", "numbers.txt"}},
	{name: "head and tail", args: splitWords("head -n 2 words.txt")},
	{name: "tail", args: splitWords("tail -n 2 words.txt")},
	{name: "rev", args: splitWords("rev words.txt")},
	{name: "od", args: splitWords("od -A d -t x1 -N 40 sub/data.bin")},
	{name: "hexdump", args: splitWords("hexdump -C -n 64 sub/data.bin")},
	{name: "ls", args: splitWords("ls -1pR")},
	{name: "ls missing", args: splitWords("ls nothing"), code: 1},
	{name: "find", args: splitWords("find sub -type f -name l*")},
	{name: "find size", args: splitWords("find . -size +5k")},
	{name: "stat", args: []string{"stat", "-c", "%s %F %n %Y", "words.txt", "sub/data.bin"}},
	{name: "dd", args: splitWords("dd if=sub/data.bin of=copy bs=1000 count=7 skip=2")},
	{name: "cp and back", args: splitWords("cp -r sub other")},
	{name: "mv", args: splitWords("mv words.txt sub/moved")},
	{name: "rm", args: splitWords("rm -r sub")},
	{name: "mkdir", args: splitWords("mkdir -p a/b/c")},
	{name: "touch", args: splitWords("touch -d @1000000000 new")},
	{name: "cmp", args: splitWords("cmp words.txt numbers.txt"), code: 1},
	{name: "diff", args: splitWords("diff words.txt numbers.txt"), code: 1},
	{name: "date", args: splitWords("date -u -d @0")},
	{name: "date format", args: []string{"date", "-u", "-d", "@1234567890", "+%F %T %j"}},
	{name: "printf", args: []string{"printf", `%05d|%-6s|%x|%b\n`, "42", "ab", "255", `q\tr`}},
	{name: "test true", args: splitWords("test -s words.txt -a 3 -lt 4")},
	{name: "test false", args: splitWords("test -d words.txt"), code: 1},
	{name: "basename", args: splitWords("basename /a/b/c.txt .txt")},
	{name: "env", args: splitWords("env")},
	{name: "tee", args: splitWords("tee one two"), stdin: "to both\n"},
	{name: "gzip", args: splitWords("gzip -k sub/data.bin")},
	{name: "gzip round", args: splitWords("zcat sub/data.bin"), code: 1},
	{name: "tar", args: splitWords("tar cf all.tar words.txt sub")},
	{name: "base64", args: splitWords("base64 words.txt")},
	{name: "bc", args: splitWords("bc"), stdin: "scale=20\n1/3\n2^200\n"},
	{name: "cal", args: splitWords("cal 2 2000")},
	{name: "sleep", args: splitWords("sleep 0.05")},
	{name: "false", args: splitWords("false"), code: 1},
	{name: "unknown applet", args: splitWords("no-such-applet"), code: 127},
}

type script struct {
	name, text, stdin string
	code              int
}

// Scripts without a second process: loops, functions, here-documents read by
// the shell itself, arithmetic.
var ashScripts = []script{
	{name: "loops", text: `i=0; while [ $i -lt 200 ]; do i=$((i + 7)); case $i in *7) echo "seven $i";; esac; done; for w in a "b c" d; do echo "<$w>"; done`},
	{name: "functions", text: `fact() { local n=$1; if [ $n -le 1 ]; then r=1; else fact $((n - 1)); r=$((r * n)); fi; }; fact 15; echo $r; set -- x y z; shift; echo "$# $*"`},
	{name: "here-doc", text: "while read a b; do echo \"$b-$a\"; done <<END\none two\nthree $((1 + 3))\nEND\necho done"},
	{name: "files", text: `echo first >f; echo second >>f; while read line; do echo "got $line"; done <f; [ -f f ] && [ ! -d f ] && echo file; : >f; [ -s f ] || echo empty`},
	{name: "words", text: `v=path/to/file.tar.gz; echo ${v##*/} ${v%%.*} ${v%.gz} ${#v} ${none:-default}; IFS=:; set -- a:b:c; for x in $1; do echo $x; done`},
	{name: "read input", text: `n=0; while read line; do n=$((n + ${#line})); done; echo $n`, stdin: strings.Repeat("some line\n", 500)},
	{name: "globs", text: `for f in *.txt sub/*; do echo $f; done; cd sub/deep; echo l*`},
	{name: "exit code", text: `trap 'echo leaving' EXIT; echo before; exit 23`, code: 23},
	{name: "signal", text: `trap 'echo caught' USR1; kill -USR1 $$; echo after; kill -TERM $$; echo never`, code: 128 + 15},
	{name: "arithmetic", text: `echo $((0x10 + 010)) $((7 / -2)) $((7 % 3)) $((1 << 40)) $((5 > 3 ? 11 : 22)) $((~5 & 0xff))`},
	{name: "redirections", text: `exec 3>out; echo three >&3; exec 3>&-; exec 4<out; read x <&4; echo $x; echo gone 2>/dev/null >/dev/null; echo back`},
	{name: "error", text: `set -e; echo a; false; echo b`, code: 1},
}

var bashScripts = []script{
	{name: "arrays", text: `a=(5 3 9 1); a+=(7); declare -A m=([x]=1 [y]=2); for ((i = 0; i < ${#a[@]}; i++)); do for ((j = i + 1; j < ${#a[@]}; j++)); do if ((a[j] < a[i])); then t=${a[i]}; a[i]=${a[j]}; a[j]=$t; fi; done; done; echo "${a[@]}" "${m[y]}" "${!a[@]}"`},
	{name: "strings", text: `s="Hello, World"; echo "${s:7:3}" "${s/o/0}" "${s//o/0}" "${s^^}" "${s,,}" "${s#*, }"; [[ $s =~ ([A-Z])orld ]] && echo "${BASH_REMATCH[1]}"; printf -v x '%08.3f' 3.14159; echo $x`},
	{name: "read array", text: `mapfile -t lines; echo "${#lines[@]} ${lines[2]}"; while IFS=, read -r a b; do echo "$b;$a"; done <<< "1,2"; read -r x y <<< "here string"; echo $y`, stdin: "l1\nl2\nl3\n"},
	{name: "sieve", text: `n=3000; for ((i = 2; i <= n; i++)); do p[i]=1; done; for ((i = 2; i * i <= n; i++)); do if ((p[i])); then for ((j = i * i; j <= n; j += i)); do p[j]=0; done; fi; done; c=0; for ((i = 2; i <= n; i++)); do ((c += p[i])); done; echo $c`},
	{name: "brace", text: `echo {a..e}{1..3} {01..10..3}; echo $((2 ** 40)); printf '%q\n' "a b'c"; printf '%s,' "${PATH%%:*}" x; [[ abc == a*c ]] && echo match`},
	{name: "locals", text: `f() { local -i n=$1; local -n ref=$2; ((n <= 0)) && return 3; ref+="$n "; f n-1 $2; }; out=; f 5 out; echo "$out $?"`},
}
