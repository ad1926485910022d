// SPDX-License-Identifier: MIT

package update

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	noted     = regexp.MustCompile(`/\*.*?\*/`)
	beginsVar = regexp.MustCompile(`^\+static [^()]*[;{]$`)
)

// keptPointers are the added variables of a patch that may hold pointers.
func keptPointers(patch string) (out []string) {
	inside := false
	for line := range strings.Lines(patch) {
		line = strings.TrimSpace(noted.ReplaceAllString(line, ""))
		inside = inside && !strings.HasPrefix(line, "+}") || beginsVar.MatchString(line) && strings.HasSuffix(line, "{")
		if (inside || beginsVar.MatchString(line)) && strings.Contains(line, "*") {
			out = append(out, line)
		}
	}
	return out
}

// An update that was reverted can be applied again with the variables that it had. What they
// pointed to may be gone: nothing told the update.
func TestUpdatesByHandKeepNoPointers(t *testing.T) {
	list, err := filepath.Glob("../updates/*/*.patch")
	if err != nil || len(list) < 3 {
		t.Fatalf("%q, %v", list, err)
	}
	for _, path := range list {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range keptPointers(string(text)) {
			t.Errorf("%s: %s", path, line)
		}
	}
	for text, want := range map[string]int{"+static struct {\n+\tu64 ran;\n+\tstruct task_struct *turn; /* a guest */\n+} guests[NR_CPUS];\n": 1,
		"+static struct task_struct *last;\n": 1, "+static u64 outside[4096]; /* of *p */\n": 0, "+static u64 *place_of(struct task_struct *p)\n+{\n+\tu64 *p;\n+}\n": 0} {
		if got := keptPointers(text); len(got) != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
