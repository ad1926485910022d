// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/internal/cli"
)

// A wrong command line and a correct one that fails have different exit codes, and the
// message names what is wrong.
func TestLinesThatEndEarly(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(cli.StateVariable, dir)
	t.Setenv("SKEP_BUILD", dir)
	none := filepath.Join(dir, "none")
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("nothing of ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"exec --on frob -- x", "frob", cli.Usage},
		{"exec -- x", "hub", cli.Unreachable},
		{"logs --on frob", "frob", cli.Usage},
		{"logs a b", `"b"`, cli.Usage},
		{"logs a", "hub", cli.Unreachable},
		{"logs", "hub", cli.Unreachable},
		{"join", "not joined", cli.Usage},
		{"lab hold x", `"x"`, cli.Usage},
		{"part run", "a program is expected", cli.Usage},
		{"part stats a b", "one partition or --ledger", cli.Usage},
		{"part stats --ledger " + other + " a", "one partition or --ledger", cli.Usage},
		{"part stats --ledger " + none, "not run a program there yet", cli.Refused},
		{"part stats --ledger " + other, "not a complete ledger", cli.Failed},
		{"part allow --group 0", "--cpus and --mem are expected", cli.Usage},
		{"part allow --cpus 1", "--cpus and --mem are expected", cli.Usage},
		{"part allow --mem 1G", "--cpus and --mem are expected", cli.Usage},
		{"part allow --cpus 1 --mem 1G", "--cpus and --mem are expected", cli.Usage},
		{"update inspect", "a package is expected", cli.Usage},
		{"update inspect " + other, "other", cli.Refused},
		{"update inspect " + none, "none", cli.Failed},
		{"update apply", "a package or an update is expected", cli.Usage},
		{"update apply fix", "name the tasks that use it", cli.Usage},
		{"update build " + other + " --kernel 0.1", "for Linux 0.1", cli.Failed},
	} {
		code, text := cli.ExitCode(dispatch(t.Context(), strings.Fields(c.line)))
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.line, code, text, c.code, c.want)
		}
	}
}

func TestHelpOfCommandAndSubcommand(t *testing.T) {
	out, code, text := outputOf(t, "help", "lab")
	if code != 0 || !strings.Contains(out, "skep lab down") {
		t.Errorf("help lab: %d %q\n%s", code, text, out)
	}
	out, code, text = outputOf(t, "help", "lab", "down")
	if code != 0 || !strings.HasPrefix(out, "usage: skep lab down") {
		t.Errorf("help lab down: %d %q\n%s", code, text, out)
	}
}

// Each line of the kit's table that is no comment is a case. A run leaves no files.
func TestKitRunsItsTable(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"kit.tbl":             "# of two words\nhello hello\n",
		"programs/hello":      "#!/bin/sh\necho hello\n",
		"expected/hello.out":  "hello\n",
		"expected/hello.code": "0\n",
		"bee": `#!/bin/sh
printf 'nonce %s\nsha256_file %s\ncalls 3\n' "$3" "$(sha256sum <"$6" | cut -d' ' -f1)" >"$5"
exec "$6"
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, code, text := outputOf(t, "kit", "--bee", filepath.Join(dir, "bee"), dir)
	if code != 0 || !strings.HasPrefix(out, "ok 1 - hello (") || !strings.HasSuffix(out, "\n1..1\n") {
		t.Errorf("%d %q\n%s", code, text, out)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 4 {
		t.Errorf("the run left %v, %v", left, err)
	}
}
