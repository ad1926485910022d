// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/grid/hosts"
	"skep/grid/hub"
	"skep/grid/proto"
	"skep/internal/cli"
)

// Each text at the limits where it takes another form.
func TestTimesAndSizes(t *testing.T) {
	const slack = 500 * time.Millisecond // while the test runs
	for ago, want := range map[time.Duration]string{0: "now", 4 * time.Second: "now", 5 * time.Second: "5 s ago", time.Minute - 2*slack: "59 s ago",
		time.Minute: "1 min ago", 59 * time.Minute: "59 min ago", time.Hour: "1 h ago", 47 * time.Hour: "47 h ago"} {
		if got := cli.FormatAgo(time.Now().Add(-ago)); got != want {
			t.Errorf("%v: %q, want %q", ago, got, want)
		}
	}
	then := time.Now().Add(-48 * time.Hour)
	if got := cli.FormatAgo(then); got != then.Local().Format("2006-01-02") {
		t.Errorf("two days: %q", got)
	}
	if got := cli.FormatAgo(time.Time{}) + sinceText(time.Time{}); got != "never-" {
		t.Error(got)
	}
	if got := sinceText(then); got != then.Local().Format("2006-01-02 15:04:05") {
		t.Error(got)
	}
	for mib, want := range map[int]string{1: "1M", 1023: "1023M", 1024: "1G", 1025: "1025M", 2048: "2G", 1536: "1536M"} {
		if got := formatMiB(mib); got != want {
			t.Errorf("%d: %s", mib, got)
		}
	}
	for n, want := range map[int]string{0: "0 kernels", 1: "1 kernel", 2: "2 kernels"} {
		if got := countText(n, "kernel"); got != want {
			t.Error(got)
		}
	}
}

func TestFigures(t *testing.T) {
	got := parseFigures("one\none two\na long name  2.5\n\nname -3e2\nname 4 x\nlast 7")
	want := []figureLine{{"a long name", 2.5}, {"name", -300}, {"last", 7}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestSizesOfOptions(t *testing.T) {
	for text, want := range map[string]uint64{"1": 1, "512M": 512 << 20, "0": 0, "x": 0, "": 0} {
		var n uint64
		f := cli.NewFlags("up", "up")
		size(f, &n, "quota", "store `SIZE`")
		if _, err := f.Parse([]string{"--quota", text}); (err == nil) != (want != 0) || err == nil && n != want {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

func TestGroups(t *testing.T) {
	g, err := user.LookupGroupId("0")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{"0": 0, "7": 7, "4294967294": 4294967294, g.Name: 0} {
		if n, err := groupNumber(name); err != nil || n != want {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	for _, name := range []string{"4294967295", "4294967296", "-1", "", "no such group"} {
		if n, err := groupNumber(name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("there is no group %q", name)) {
			t.Errorf("%q: %d, %v", name, n, err)
		}
	}
}

// The words of gen --build: one IDL file, and what is compiled with it.
func TestWordsOfABuild(t *testing.T) {
	for words, want := range map[string]string{"a.idl": "a.idl", "x.c a.idl y.o": "a.idl x.c y.o", "a.idl b.idl": "one IDL file makes one program: a.idl or b.idl",
		"": "needs a file that ends in .idl", "a.c idl": "needs a file that ends in .idl"} {
		name, rest, err := split(cli.NewFlags("gen", "gen"), strings.Fields(words))
		got := strings.Join(append([]string{name}, rest...), " ")
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || err != nil && !strings.Contains(got, want) {
			t.Errorf("%q: %q", words, got)
		}
	}
	for path, want := range map[string]string{"d/a.c": "a", "a.o": "a", "a.f90": "a", "a.S": "a", "a.b.cpp": "a.b", "a.so": "a.so", "a": "a", "a.C": "a.C"} {
		if got := stem(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	for name, want := range map[string]bool{"a.f": true, "a.F90": true, "a.for": true, "a.f95": true, "a.f03": true, "a.f08": true, "a.c": false, "f90": false, "a.f77": false} {
		if isFortran(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestCodesOfPrograms(t *testing.T) {
	for _, c := range []struct {
		failed hub.ExecError
		want   int
	}{{hub.ExecError{Kind: proto.ExecGone}, cli.Unreachable}, {hub.ExecError{Kind: proto.ExecRefused}, cli.Refused}, {hub.ExecError{}, exitCannot}} {
		if got := failedCode(&c.failed); got != c.want {
			t.Errorf("%v: %d, want %d", c.failed.Kind, got, c.want)
		}
	}
}

func TestHostsThatAreThisComputer(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host hosts.Host
		want bool
	}{{hosts.Host{Name: "localhost"}, true}, {hosts.Host{Name: strings.ToUpper(name)}, true}, {hosts.Host{Name: name, User: me.Username}, true},
		{hosts.Host{Name: name, User: me.Username + "x"}, false}, {hosts.Host{Name: name + "x"}, false}} {
		if got := isHere(&c.host); got != c.want {
			t.Errorf("%+v: %v", c.host, got)
		}
	}
	for _, c := range []struct {
		arch, os string
		want     string
	}{{"", "", ""}, {"x86_64", "Linux", ""}, {"", "linux", ""}, {"aarch64", "", "not aarch64"}, {"", "SunOS", "not SunOS"}, {"x86_64", "SunOS", "not x86_64 SunOS"}} {
		err := checkKind(&hosts.Host{Place: "hosts.xml:3:4", Arch: c.arch, OS: c.os})
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.arch, c.os, err)
		}
	}
	s := &hostShell{}
	if got := s.lastLines(); got != "it printed nothing" {
		t.Error(got)
	}
	fmt.Fprint(s, " one\ntwo\n")
	if got := s.lastLines(); got != "one two" {
		t.Errorf("%q", got)
	}
	fmt.Fprint(s, strings.Repeat("x", hostTextMax))
	if got := s.lastLines(); got != strings.Repeat("x", hostTextMax) {
		t.Errorf("%d bytes", len(got))
	}
}

// The text that a host runs, run by this computer's shell.
func TestHostScript(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "bin"), 0o755),
		os.WriteFile(filepath.Join(dir, "bin/skep"), []byte("#!/bin/sh\necho \"$SKEP_TOKEN:$*\"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	run := func(h hosts.Host, from string) string {
		h.Agent, h.Name, h.Slots = dir, "a node", 3
		c := exec.Command("sh", "-c", hostScript(&h, "", 4711))
		c.Env = append(os.Environ(), "SSH_CONNECTION="+from)
		c.Stdin = strings.NewReader("secret token\n")
		out, err := c.CombinedOutput()
		if err != nil {
			return err.Error() + ": " + string(out)
		}
		return string(out)
	}
	for from, hub := range map[string]string{"10.0.0.1 5 10.0.0.2 22": "10.0.0.1", "fe80::1 5 fe80::2 22": "[fe80::1]"} {
		for _, h := range []hosts.Host{{}, {Arch: "x86_64"}, {OS: "LINUX"}, {Arch: "x86_64", OS: "Linux"}} {
			if got := run(h, from); got != "secret token:join "+hub+":4711 --until-eof --name a node --slots 3\n" {
				t.Errorf("%+v: %s", h, got)
			}
		}
	}
	for _, h := range []hosts.Host{{Arch: "aarch64"}, {OS: "SunOS"}, {Arch: "x86_64", OS: "SunOS"}} {
		if got := run(h, "10.0.0.1 5"); !strings.Contains(got, "exit status 1: the host is x86_64 with Linux, not "+h.Arch+" "+strings.ToLower(h.OS)) {
			t.Errorf("%+v: %s", h, got)
		}
	}
	if got := hostScript(&hosts.Host{}, "", 1); !strings.Contains(got, "exec 'skep' join") {
		t.Error(got)
	}
	// Slurm starts the same program once for each task, with one slot. When standard input ends, a
	// job that waits in the queue is cancelled, and no other.
	for name, text := range map[string]string{
		"srun":    "#!/bin/sh\nwhile [ \"$1\" != sh ]; do echo \"$1\"; shift; done\nSLURM_PROCID=2 \"$@\"\ncat\n",
		"scancel": "#!/bin/sh\necho scancel \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := hosts.Host{Agent: dir, Name: "it's", Slots: 3, Batch: "slurm"}
	c := exec.Command("sh", "-c", hostScript(&h, "h:1", 2))
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	c.Stdin = strings.NewReader("secret token\nmore\n")
	out, err := c.CombinedOutput()
	me, _ := user.Current()
	job := fmt.Sprintf("skep-%d", c.Process.Pid)
	if want := "--job-name=" + job + "\n--ntasks=3\n--export=ALL\n--input=all\n--wait=0\n--kill-on-bad-exit=0\n" +
		"secret token:join h:1 --until-eof --name it's-2 --slots 1\nmore\n" +
		"scancel --quiet --user=" + me.Username + " --state=PENDING --name=" + job + "\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s", err, out)
	}
}
