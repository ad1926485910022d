// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"skep/internal/cli"
)

// The words offered for a command line when the completion key is pressed.
func TestCompletion(t *testing.T) {
	t.Setenv(cli.StateVariable, t.TempDir())
	t.Setenv("SKEP_BUILD", t.TempDir())
	for _, c := range []struct {
		line        string // its last word is being typed
		want, never string
	}{
		{"u", "up update", "nodes join"},
		{"lab ", "up shell run list down", "hold --all"},
		{"up --sl", "--slots", "--state"},
		{"nodes --js", "--json", "--state"},
		{"exec --on ", "any all os=linux os=windows", "--on"},
		{"exec --on os=w", "os=windows", "os=linux any"},
		{"exec --on=os=l", "os=linux", "os=windows any"},
		{"exec -- ./prog --", "", "--on --memory"},
		{"exec ./prog --", "", "--on --memory"},
		{"update build --class t", "task together", "any object"},
		{"lab up --kernel ", "6.1 6.12", "up"},
		{"mpirun --engine k", "kernel", "user auto"},
		{"mpirun --h", "--hosts --hostfile", "--help-me"},
		{"completion ", "bash zsh fish powershell", "skep"},
		{"cancel --se", "--session", "--state"},
		{"ledger --", "--last --json --session", "--end"},
		{"calls ", "", "--json"}, // no hub runs
		{"cancel ", "", "--session"},
		{"help ", "up lab", "guard kit pages"},
		{"", "up completion", "guard kit pages"},
	} {
		out, code, text := outputOf(t, append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(c.line, " ")...)...)
		if code != 0 {
			t.Errorf("%q: %d %s", c.line, code, text)
		}
		lines := strings.Split(out, "\n")
		for _, w := range strings.Fields(c.want) {
			if !slices.Contains(lines, w) {
				t.Errorf("%q: %q is not offered:\n%s", c.line, w, out)
			}
		}
		for _, w := range strings.Fields(c.never) {
			if slices.Contains(lines, w) {
				t.Errorf("%q: %q is offered:\n%s", c.line, w, out)
			}
		}
	}
}

// bash completes a word by the script and this program. The test replaces the functions
// that the script needs from the package bash-completion.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script, _, _ := outputOf(t, "completion", "bash")
	ask := script + "\n" + `compopt() { :; }
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; }
COMP_WORDS=(` + dir + `/skep nodes --js); COMP_CWORD=2; COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}
COMP_TYPE=9
__start_skep
printf '%s\n' "${COMPREPLY[@]}"
`
	if err := os.Symlink(self, filepath.Join(dir, "skep")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bash, "--norc", "-c", ask)
	cmd.Env = append(os.Environ(), "SKEP_TEST_MAIN=yes", "BASH_COMP_DEBUG_FILE=")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "--json" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCompletionOfAnUnknownShell(t *testing.T) {
	for _, line := range []string{"completion", "completion tcsh", "completion bash zsh"} {
		code, text := cli.ExitCode(dispatch(t.Context(), strings.Fields(line)))
		if code != cli.Usage || text == "" {
			t.Errorf("%s: %d %q", line, code, text)
		}
	}
}
