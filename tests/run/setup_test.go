// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A machine is a PATH with fakes of the programs that mk/setup.sh runs.
type machine struct {
	dir string
}

const (
	fakeGo    = `echo "${FAKE_GO:-go1.26.1}"`
	fakeDpkg  = `case "$*" in *strace*) exit 1;; *) printf installed;; esac`
	fakeApt   = `echo "apt-get $*" >>"$FAKE_LOG"; echo "Inst strace (6.1)"; echo "Inst libc6 [1] (2)"; exit "${FAKE_APT:-0}"`
	fakeNames = `case "$*" in *strace*) printf installed;; *libclang-rt*) exit 1;; *) printf installed;; esac`
	fakeOlder = `exit 0`                                            // apt-cache: each package is known
	fakeNewer = `case "$*" in *libclang-rt-14-dev) exit 100;; esac` // as in Debian 13
	fakeEmpty = `exit 100`                                          // no list was fetched yet
	fakeRoot  = `echo 0`
	fakeUser  = `echo 1000`
	fakeSudo  = `echo sudo >>"$FAKE_LOG"; exec "$@"`
	realTools = "sh sed sort head sha256sum cut dirname mkdir rm env printf"
)

func newMachine(t *testing.T, fakes map[string]string) *machine {
	t.Helper()
	m := &machine{dir: t.TempDir()}
	for _, name := range strings.Fields(realTools) {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(real, filepath.Join(m.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, body := range fakes {
		text := "#!/bin/sh\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// runSetup returns what was printed and what was installed.
func (m *machine) runSetup(set string, env ...string) (string, string, error) {
	log := filepath.Join(m.dir, "log")
	cmd := exec.Command("/bin/sh", "../../mk/setup.sh", filepath.Join(m.dir, "build"), set)
	cmd.Env = append([]string{"PATH=" + m.dir, "FAKE_LOG=" + log}, env...)
	out, err := cmd.CombinedOutput()
	text, _ := os.ReadFile(log)
	return string(out), string(text), err
}

const (
	simulated = "apt-get -s install --no-upgrade --no-install-recommends strace\n"
	installed = "apt-get -q update\n" + simulated + "apt-get -q install -y --no-upgrade --no-install-recommends strace\n"
)

func TestSetup(t *testing.T) {
	all := map[string]string{"go": fakeGo, "dpkg-query": fakeDpkg, "apt-get": fakeApt, "id": fakeRoot}
	tests := []struct {
		name      string
		without   string
		with      map[string]string
		set       string // test if empty
		env       string // YES=1 if empty
		out, want string // printed, installed
		ok        bool
	}{
		{name: "root installs what is missing", want: installed, ok: true, out: "with what they need these are 1 packages\nsetup: newer ones of installed packages are among them: libc6"},
		{name: "the demo needs less", set: "demo", ok: true, out: "everything that demo needs is installed"},
		{name: "a release needs more", set: "full", want: installed, ok: true, out: "everything that full needs is installed"},
		{name: "an unknown set", set: "none", out: "demo, test or full, not none"},
		{name: "no terminal to ask on", env: "YES=", out: "missing: strace\nsetup: nothing was installed: there is no terminal"},
		{name: "continuous integration is not asked", env: "CI=true", want: installed, ok: true},
		{name: "a user uses sudo", with: map[string]string{"id": fakeUser, "sudo": fakeSudo}, want: "sudo\napt-get -q update\n" + simulated + "sudo\napt-get -q install -y --no-upgrade --no-install-recommends strace\n", ok: true},
		{name: "nothing is missing", with: map[string]string{"dpkg-query": "printf installed"}, ok: true},
		{name: "a user without sudo", with: map[string]string{"id": fakeUser}, out: "ask an administrator to run: apt-get install --no-install-recommends strace"},
		{name: "no apt-get", without: "apt-get", out: "install these by hand, then rerun: strace"},
		{name: "apt-get fails", env: "FAKE_APT=100", out: "apt-get update failed", want: "apt-get -q update\n"},
		{name: "the first of two names", with: map[string]string{"dpkg-query": fakeNames, "apt-cache": fakeOlder}, want: strings.ReplaceAll(installed, "strace", "libclang-rt-14-dev"), ok: true},
		{name: "the second name", with: map[string]string{"dpkg-query": fakeNames, "apt-cache": fakeNewer}, want: strings.ReplaceAll(installed, "strace", "libclang-rt-dev"), ok: true, out: "missing: libclang-rt-dev\n"},
		{name: "apt knows neither name", with: map[string]string{"dpkg-query": fakeNames, "apt-cache": fakeEmpty}, want: strings.ReplaceAll(installed, "strace", "libclang-rt-14-dev"), ok: true},
		{name: "the second name is installed", with: map[string]string{"dpkg-query": `case "$*" in *libclang-rt-14-dev) exit 1;; *) printf installed;; esac`}, ok: true},
		{name: "no go", without: "go", out: "Go is missing: install Go 1.26"},
		{name: "old go", env: "FAKE_GO=go1.9.7", out: "Go 1.9.7 is too old: install Go 1.26"},
		{name: "newer go", env: "FAKE_GO=go1.30", want: installed, ok: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fakes := map[string]string{}
			for _, set := range []map[string]string{all, tt.with} {
				for name, body := range set {
					if name != tt.without {
						fakes[name] = body
					}
				}
			}
			m := newMachine(t, fakes)
			set, env := cmp.Or(tt.set, "test"), cmp.Or(tt.env, "YES=1")
			if strings.HasPrefix(env, "FAKE_") {
				env += " YES=1"
			}
			environment := append([]string{"YES=", "CI="}, strings.Fields(env)...)
			out, log, err := m.runSetup(set, environment...)
			if (err == nil) != tt.ok || log != tt.want || !strings.Contains(out, tt.out) {
				t.Errorf("err %v; installed %q, want %q; printed %q", err, log, tt.want, out)
			}
			if !tt.ok {
				return
			}
			if _, again, err := m.runSetup(set, environment...); err != nil || again != log {
				t.Errorf("a second call was not free: %v %q", err, again)
			}
		})
	}
}
