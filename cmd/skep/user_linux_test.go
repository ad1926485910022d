// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/hub"
)

// Wrong words of the commands about users are usage errors, and change nothing.
func TestUserCommands(t *testing.T) {
	dir := t.TempDir()
	c, address := openHub(t, filepath.Join(dir, "hub"))
	at := []string{"--state", filepath.Join(dir, "hub")}
	for _, line := range []string{"user", "user nothing", "user add", "user add --share 0 ada", "user add --share x ada", "user add --slots -1 ada", "user add --quota much ada",
		"user add --expires 0s ada", "user set ada", "user set --slots 2", "user token", "user remove", "user list ada",
		"user join " + address, "user join --token nonsense " + address, "user join --token a --token-file b " + address,
		"run --priority x -- /bin/true", "run --priority 1001 -- /bin/true", "run --priority -1001 -- /bin/true"} {
		words := strings.Fields(line)
		at := at
		if strings.HasPrefix(line, "user join") {
			at = []string{"--state", filepath.Join(dir, "ada")}
		}
		n := min(2, len(words))
		if words[0] == "run" {
			n = 1
		}
		if len(words) > 1 && words[1] != "nothing" {
			words = append(append(append([]string{}, words[:n]...), at...), words[n:]...)
		}
		if _, code, text := outputOf(t, words...); code != 2 || text == "" {
			t.Errorf("%q: exit code %d, %q", words, code, text)
		}
	}
	for line, want := range map[string]string{"user add operator": "own user", "user add Ada": "is not a name", "user set --slots 1 ada": "no user is called", "user remove ada": "no user is called", "user token ada": "no user is called"} {
		words := strings.Fields(line)
		if _, code, text := outputOf(t, append(append(append([]string{}, words[:2]...), at...), words[2:]...)...); code != 1 || !strings.Contains(text, want) {
			t.Errorf("%q: exit code %d, %q", line, code, text)
		}
	}
	if list, err := c.Users(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A state directory with an account speaks for its user, whatever the hub at home.
func TestAccountOfAStateDirectory(t *testing.T) {
	dir := t.TempDir()
	_, address := openHub(t, filepath.Join(dir, "hub"))
	line, code, text := outputOf(t, "user", "add", "--state", filepath.Join(dir, "hub"), "--share", "3", "ada")
	token, rest, ok := strings.Cut(strings.TrimPrefix(line, tokenVariable+"="), " ")
	if code != 0 || !ok || !strings.HasPrefix(rest, "skep user join ") || strings.Contains(text, token) {
		t.Fatalf("%d %q %q", code, line, text)
	}
	t.Setenv(tokenVariable, token)
	home := filepath.Join(dir, "ada")
	if out, code, text := outputOf(t, "user", "join", "--state", home, address); code != 0 || out != "this machine submits to the hub at "+address+" as ada\n" {
		t.Fatalf("%d %q %q", code, out, text)
	}
	if os.Getenv(tokenVariable) != "" {
		t.Error("programs that follow see the token")
	}
	out, code, text := outputOf(t, "user", "list", "--state", home, "--json")
	if code != 0 || !strings.Contains(out, `"name": "ada"`) || !strings.Contains(out, `"share": 3`) {
		t.Errorf("%d %q %q", code, out, text)
	}
	if _, code, text := outputOf(t, "token", "--state", home); code != 4 || !strings.Contains(text, "the user ada may not do this") {
		t.Errorf("%d %q", code, text)
	}
	if _, code, text := outputOf(t, "run", "--state", home, "--slots", "2", "--", "/bin/true"); code != 2 || !strings.Contains(text, "owners of its nodes") {
		t.Errorf("%d %q", code, text)
	}
	// Without its hub there is an error, and no hub for this run alone.
	if err := os.WriteFile(filepath.Join(accountState(home), "admission.json"), []byte(strings.ReplaceAll(readText(t, filepath.Join(accountState(home), "admission.json")), address, "127.0.0.1:1")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"run", "--state", home, "--", "/bin/true"}, {"run", "--detach", "--state", home, "--", "/bin/true"}, {"nodes", "--state", home}} {
		if _, code, text := outputOf(t, words...); code != 3 || !strings.Contains(text, "the hub at 127.0.0.1:1 cannot be reached") {
			t.Errorf("%q: %d %q", words, code, text)
		}
	}
}

// A user with an account runs a program on a node of the hub, and gets its output and exit code.
func TestExecOfAnAccount(t *testing.T) {
	dir, err := os.MkdirTemp("", "exec") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	hubDir, home := filepath.Join(dir, "hub"), filepath.Join(dir, "ada")
	c, address := openHub(t, hubDir)
	token, err := c.Token(t.Context(), hub.TokenRequest{Uses: 1, Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	runNode(t, "join "+address+" --token "+token.Token+" --name pc --slots 1 --state "+filepath.Join(dir, "pc"))
	awaitNode(t, c, "all")
	line, _, _ := outputOf(t, "user", "add", "--state", hubDir, "ada")
	secret, _, _ := strings.Cut(strings.TrimPrefix(line, tokenVariable+"="), " ")
	if out, code, text := outputOf(t, "user", "join", "--state", home, "--token", secret, address); code != 0 {
		t.Fatalf("%d %q %q", code, out, text)
	}
	out, code, text := outputOf(t, "exec", "--state", home, "--env", "A=its own", "--", "/bin/busybox", "sh", "-c", "echo $A; exit 5")
	if out != "its own\n" || code != 5 || text != "" {
		t.Errorf("%d %q %q", code, out, text)
	}
	for words, want := range map[string]struct {
		code int
		text string
	}{"--update fix": {4, "for the hub's operator"}, "--movable --on node=pc": {3, ""}, "--on node=mac": {3, "no node that is up matches"}} {
		line := append(strings.Fields("exec --state "+home+" "+words), "--", "/bin/busybox", "true")
		if _, code, text := outputOf(t, line...); code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("%s: %d %q", words, code, text)
		}
	}
	poll := time.NewTicker(20 * time.Millisecond) // the ledger is written a little later
	defer poll.Stop()
	for end := time.After(copiedTimeout); ; {
		list, err := c.Ledger(t.Context(), hub.LedgerQuery{})
		if err == nil && len(list) > 0 && list[0].User == "ada" && list[0].Text == "exec busybox" {
			return
		}
		select {
		case <-poll.C:
		case <-end:
			t.Fatalf("%+v, %v", list, err)
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A user whose hub is away reads that once, and that it is there again.
func TestAway(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(f)
	w.showAway(errors.New("no way"))
	w.showAway(nil)
	w.close()
	if text, want := readText(t, f.Name()), "skep: the hub does not answer; the run goes on there, and is kept for some time (no way)\nskep: the hub answers again\n"; text != want {
		t.Errorf("%q", text)
	}
}
