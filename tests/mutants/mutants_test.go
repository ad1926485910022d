// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/tests/mutants/mutate"
	"skep/tests/mutants/sandbox"
)

// TestMain acts as the sandbox or as the whole program if a test starts it so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-inside" || os.Getenv("MUTANTS_TEST_MAIN") != "" {
		timeoutMin = 5 * time.Second
		main()
		return
	}
	os.Exit(m.Run())
}

// A room with mutants that are killed, that hang, that survive and that do not
// compile. One of them is known to be equal.
var plantedFiles = map[string]string{
	"Makefile": "build/t: room/t.c room/test/main.c\n\tmkdir -p build\n\tgcc -Werror -o $@ $^\n",
	"room/t.c": `int add(int a, int b)
{
	return a + b;
}

int spin(int n)
{
	int i = 0;

	while (i < n)
		i = add(i, 1);
	return i;
}

int unseen(int a)
{
	_Static_assert(1 + 1 == 2, "no mutant of this compiles");
	return a - 3;
}

const char *pointer(const char *a)
{
	return a + 1;
}
`,
	"room/windows.c": "int f(int a)\n{\n\treturn a + 1;\n}\n",
	"room/test/main.c": `int add(int a, int b);
int spin(int n);
const char *pointer(const char *a);
int main(void)
{
	const char *s = "x";

	return add(1, 2) != 3 || spin(1) != 1 || pointer(s) != s + 1;
}
`,
}

const plantedTable = `survived room/t.c:18: - -> +
survived room/t.c:18: 3 -> 4
room              mutants  killed  hung  survived  percent
room                    9       6     1         2    77.8%
`

// plantTree writes the tree and gives the arguments of a run.
func plantTree(t *testing.T) (root string, args []string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range plantedFiles {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	work := root + "/build/mutants"
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "build", "-o", root+"/build/run", "../run").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	line := "room\tbuild/t\tquick\texit,parallel\t60\tbuild/t\n"
	if err := os.WriteFile(work+"/rooms", []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	equal := markOf(t, root, "room/t.c:8: 0 -> 1") + " room/t.c planted\n"
	if err := os.WriteFile(root+"/equal.tbl", []byte(equal), 0o644); err != nil {
		t.Fatal(err)
	}
	return root, []string{"-root", root, "-work", work, "-rooms", work + "/rooms",
		"-equal", root + "/equal.tbl", "-runner", root + "/build/run"}
}

func markOf(t *testing.T, root, name string) string {
	t.Helper()
	list, err := mutate.Of(root, "room/t.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if m.String() == name {
			return m.Mark
		}
	}
	t.Fatalf("no mutation %q of %v", name, list)
	return ""
}

func makeCommand(args []string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "MUTANTS_TEST_MAIN=1")
	return cmd
}

// needSandbox skips a test where a user may have no namespaces.
func needSandbox(t *testing.T, output string) {
	t.Helper()
	if os.Geteuid() != 0 && strings.Contains(output, "sandbox") {
		t.Skipf("no sandbox for this user: %s", output)
	}
}

// A killed run does not change the tree. The next run continues it.
func TestPlanted(t *testing.T) {
	root, args := plantTree(t)
	killAfter(t, makeCommand(args), " killed ")
	var out []byte
	deadline := time.Now().Add(time.Minute)
	for { // the lock is released by the last process of the killed run
		var err error
		out, err = makeCommand(args).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "another run") || time.Now().After(deadline) {
			break
		}
	}
	text := string(out)
	if strings.Contains(text, " 0 tried before") || !strings.Contains(text, " tried before") {
		t.Errorf("it began anew:\n%s", text)
	}
	if !strings.HasSuffix(stripMarks(text), plantedTable) {
		t.Errorf("got\n%s\nwant\n%s", stripMarks(text), plantedTable)
	}
	for name, want := range plantedFiles {
		if got, err := os.ReadFile(filepath.Join(root, name)); string(got) != want {
			t.Errorf("%s was changed: %v", name, err)
		}
	}
	few, err := makeCommand(append(args, "-n", "3")).CombinedOutput()
	if err != nil || !strings.Contains(string(few), "\nroom                    3 ") {
		t.Errorf("three mutants: %v\n%s", err, few)
	}
	os.Remove(root + "/build/mutants/room.state")
	side, err := makeCommand(append(args, "-jobs", "4")).CombinedOutput()
	if err != nil || !strings.HasSuffix(stripMarks(string(side)), plantedTable) {
		t.Errorf("four at a time: %v\n%s", err, side)
	}
	mark := markOf(t, root, "room/t.c:18: 3 -> 4")
	one, err := makeCommand(append(args, "-marks", mark+" "+mark)).CombinedOutput()
	if err != nil || !strings.Contains(string(one), "\nroom                    1       0     0         1") {
		t.Errorf("the mutant of one mark: %v\n%s", err, one)
	}
	again, err := makeCommand(args).CombinedOutput()
	if err != nil || !strings.HasSuffix(stripMarks(string(again)), plantedTable) || strings.Contains(string(again), "without a mutant") {
		t.Errorf("a third run: %v\n%s", err, again)
	}
}

// killAfter kills a run after it has printed the words.
func killAfter(t *testing.T, cmd *exec.Cmd, words string) {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	seen := false
	for !seen && in.Scan() {
		seen = strings.Contains(in.Text(), words)
	}
	cmd.Process.Kill()
	io.Copy(io.Discard, out)
	cmd.Wait()
	if !seen {
		needSandbox(t, stderr.String())
		t.Fatalf("it never printed %q: %s", words, stderr.String())
	}
}

// stripMarks removes the marks.
func stripMarks(text string) string {
	var b strings.Builder
	for _, line := range strings.SplitAfter(text, "\n") {
		if i := strings.Index(line, "  ["); i > 0 {
			line = line[:i] + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// A suite that fails without a mutant, a stale entry or a truncated list ends a run.
func TestRefused(t *testing.T) {
	root, args := plantTree(t)
	for _, c := range []struct{ file, text, want string }{
		{"build/mutants/rooms", "room\tbuild/t\n", "want 6 fields"},
		{"build/mutants/rooms", "room\tbuild/t\tquick\texit\t60\tfalse\n", "quick without a mutant: killed"},
		{"build/mutants/rooms", "none\tbuild/t\tquick\texit\t60\ttrue\n", "none: nothing to change"},
		{"equal.tbl", "0123456789ab room/t.c gone\n", "equal.tbl:1: stale"},
	} {
		if err := os.WriteFile(filepath.Join(root, c.file), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := makeCommand(args).CombinedOutput()
		needSandbox(t, string(out))
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v, %s", c.text, err, out)
		}
	}
}

// A room may exclude a file that its quick suites do not cover. A missing file is an error;
// a file of another room is not.
func TestWithout(t *testing.T) {
	_, args := plantTree(t)
	for files, want := range map[string]string{
		"room/t.c":              "room: nothing to change",
		"room/t.c room/gone.c":  "room: no file room/gone.c that could be mutated",
		"other/gone.c room/t.c": "room: nothing to change",
		"room/test/main.c":      "room: no file room/test/main.c that could be mutated",
	} {
		out, err := makeCommand(append(args, "-without", files)).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("without %s: %v, %s", files, err, out)
		}
	}
}

func TestState(t *testing.T) {
	path := t.TempDir() + "/state"
	m := mutate.Mutation{File: "f.c", Line: 3}
	s, err := openState(path, "tree", "1")
	if err != nil || s.put(m, sandbox.Answer{Outcome: sandbox.Killed, Suite: "s"}) != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := append(text, "survived\ts\twhy\tf.c:4"...)
	for _, c := range []struct {
		seed string
		want int
	}{{"1", 1}, {"2", 0}} {
		if err := os.WriteFile(path, torn, 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err = openState(path, "tree", c.seed); err != nil || len(s.done) != c.want {
			t.Errorf("seed %s: %v, %v", c.seed, s.done, err)
		}
	}
}
