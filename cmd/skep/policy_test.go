// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/agent"
	"skep/grid/policy"
	"skep/internal/cli"
)

func writePolicy(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "my.policy")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPolicyFiles(t *testing.T) {
	if p, err := readPolicy("desk"); err != nil || len(p.Rules) != 4 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := readPolicy(writePolicy(t, "\xef\xbb\xbfuse all\r\npause 1m\r\n")); err != nil || p.Pause != time.Minute {
		t.Errorf("of a Windows editor: %+v, %v", p, err)
	}
	if _, err := readPolicy("nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere cannot be read: ") || !strings.Contains(err.Error(), "always, desk, share") {
		t.Error(err)
	}
	path := writePolicy(t, "use all when idle\nuse some\n")
	if _, err := readPolicy(path); err == nil || strings.Count(err.Error(), path+": line ") != 2 {
		t.Errorf("each mistake has a line: %v", err)
	}
	if _, err := readPolicy("/dev/zero"); err == nil || !strings.Contains(err.Error(), "at most 65536 bytes") {
		t.Errorf("an endless file: %v", err)
	}
}

// The option is read when it is typed, for nodes and for services.
func TestPolicyOption(t *testing.T) {
	path := writePolicy(t, "use 1 slot when idle 1h\n")
	j := &join{}
	f := cli.NewFlags("join", "join")
	j.options(f)
	if _, err := f.Parse([]string{"--policy", path}); err != nil {
		t.Fatal(err)
	}
	var c agent.Config
	j.allow.apply(&c, "/state")
	if c.PolicyName != path || c.Policy == nil || len(c.Policy.Rules) != 1 || !j.allow.isGiven() {
		t.Errorf("%q, %+v", c.PolicyName, c.Policy)
	}
	f = cli.NewFlags("join", "join")
	j.options(f)
	_, err := f.Parse([]string{"--policy", writePolicy(t, "use")})
	if code, text := cli.ExitCode(err); code != cli.Usage || !strings.Contains(text, "line 1: use needs an amount") {
		t.Errorf("%d %q", code, text)
	}
	t.Chdir(filepath.Dir(path))
	for word, want := range map[string]string{path: "", "desk": "", "my.policy": "a service starts in another directory", "none": "cannot be read"} {
		_, err := serviceOptions(agentService, []string{"--policy", word})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

func TestPolicyCheckPrints(t *testing.T) {
	text := []byte("use none when battery\nuse 2 slots when not remote and hours 20:00-07:00\nuse 12.5% when idle 90s\npause 1h\n")
	p, err := policy.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := explainPolicy(&out, p); err != nil {
		t.Fatal(err)
	}
	want := `LINE  SLOTS  WHEN
1     none   battery
2     2      not remote and hours 20:00-07:00
3     12.5%  idle 1m30s
-     none   otherwise
A call that has been paused for 1h goes back to the hub. More slots are used after 10s.
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}

// What the sources do not know is shown as unknown, with the reason.
func TestPolicyWhyTells(t *testing.T) {
	f := &policy.Facts{Time: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC), Idle: policy.Say(90*time.Second, "a terminal"),
		Others: policy.Say(12.34, "/proc/stat"), Battery: policy.Say(true, "/sys"), Remote: policy.Silent[bool]("no logind")}
	got := map[string]whyFact{}
	for _, v := range listFacts(f) {
		got[v.Name] = v
	}
	for _, want := range []whyFact{{"time", "Wed 12:00", "the local clock"}, {"idle", "1m30s", "a terminal"}, {"others", "12.3%", "/proc/stat"},
		{"battery", "yes", "/sys"}, {"remote", "", "no logind"}, {"charge", "", ""}} {
		if got[want.Name] != want {
			t.Errorf("%+v, want %+v", got[want.Name], want)
		}
	}
	p, err := policy.Parse([]byte("use none when remote\nuse all when idle 1h\nuse 50% when idle 1m"))
	if err != nil {
		t.Fatal(err)
	}
	var w why
	w.judge(p, f, 4)
	holds := ""
	for _, r := range w.Rules {
		holds += r.Holds + " "
	}
	if holds != "unknown no yes " || w.Now != "permits 2 of 4 slots (line 3: use 50% when idle 1m)" {
		t.Errorf("%s%s", holds, w.Now)
	}
}
