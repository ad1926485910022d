// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// listConfinementKinds lists all confinements that this machine and user can have.
func listConfinementKinds() map[string]bounds {
	m := map[string]bounds{"namespaces": {Kind: ConfinedSpaces, User: true}, "landlock": {Kind: ConfinedLandlock}}
	if os.Geteuid() == 0 {
		m = map[string]bounds{"namespaces": {Kind: ConfinedSpaces, User: true, RunAs: nobody},
			"namespaces without users": {Kind: ConfinedSpaces, RunAs: nobody},
			"namespaces of one user":   {Kind: ConfinedSpaces, User: true},
			"landlock":                 {Kind: ConfinedLandlock}}
	}
	return m
}

func eachKind(t *testing.T, f func(t *testing.T, b bounds)) {
	for name, b := range listConfinementKinds() {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(t, b) })
	}
}

// A scene holds things that a program must not reach: a key and a socket in a state directory, an
// abstract socket, files of this user, and processes.
type scene struct {
	dir, state, key, socket, other string
	abstract                       string
	victim                         int
}

func newScene(t *testing.T) *scene {
	dir := t.TempDir()
	s := &scene{dir: dir, state: filepath.Join(dir, "state"), key: filepath.Join(dir, "state/hub/ca.key"),
		socket: filepath.Join(dir, "state/hub/hub.sock"), other: filepath.Join(dir, "letter"),
		abstract: fmt.Sprintf("@skep-%d-%s", os.Getpid(), strings.ReplaceAll(filepath.Base(filepath.Dir(dir)), "/", "-"))}
	if err := os.MkdirAll(filepath.Dir(s.key), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{s.key, s.other} {
		if err := os.WriteFile(name, []byte("secret"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{s.socket, s.abstract} {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	os.Chmod(s.socket, 0o777)
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sleep.Process.Kill(); sleep.Wait() })
	s.victim = sleep.Process.Pid
	return s
}

// attemptList lists everything that a program tries; each attempt must fail.
func (s *scene) attemptList(other int) string {
	var b strings.Builder
	for _, path := range []string{s.key, s.other, s.state + "/hub"} {
		fmt.Fprintf(&b, "read %s\n", path)
	}
	fmt.Fprintf(&b, "write %s\nchmod %s\nwrite %s\ncreate %s/new\n", s.key, s.key, s.other, s.dir)
	fmt.Fprintf(&b, "create /etc/skep-test\ncreate /usr/skep-test\nconnect %s\nconnect %s\n", s.socket, s.abstract)
	for _, pid := range []int{os.Getpid(), s.victim, other} {
		for _, what := range []string{"signal", "proc", "ptrace", "kcmp", "limit"} {
			fmt.Fprintf(&b, "%s %d\n", what, pid)
		}
	}
	return b.String()
}

// listReached returns the attempts that succeeded.
func listReached(t *testing.T, r *rig, attempts string) (list []string) {
	t.Helper()
	got, _ := r.mustSucceed(r.start(fnAttack, []byte(attempts)))
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	if len(lines) != strings.Count(attempts, "\n") {
		t.Fatalf("%d answers to\n%s:\n%s", len(lines), attempts, got)
	}
	for _, line := range lines {
		if strings.HasSuffix(line, " -1") {
			t.Fatal(line)
		}
		what, ok := strings.CutSuffix(line, " 0")
		if name, made := strings.CutPrefix(what, "create /"); ok && made {
			_, err := os.Stat("/" + name)
			ok = err == nil // otherwise the file is in the program's own /tmp
		}
		if ok {
			list = append(list, what)
		}
	}
	return list
}

// otherWorker starts a worker of another session on the same node and returns its process.
func otherWorker(t *testing.T, r *rig) int {
	l := r.makeLease(fnEcho, nil)
	l.Session = "other"
	r.mustSucceed(r.send(l))
	for _, w := range r.pool.releaseSession("other") {
		for _, pid := range childrenOf(w.process.pid) {
			return pid
		}
	}
	t.Fatal("there is no other worker")
	return 0
}

func TestConfinedReachNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, b bounds) {
		s := newScene(t)
		r := newRigOf(t, Config{State: filepath.Join(s.state, "agent"), Slots: 2, Hide: []string{s.state}, confine: &b})
		if list := listReached(t, r, s.attemptList(otherWorker(t, r))); len(list) > 0 {
			t.Errorf("a confined worker reached:\n%s", strings.Join(list, "\n"))
		}
		// The program cannot create a file in a hidden folder either.
		got, _ := r.mustSucceed(r.start(fnAttack, []byte("create "+s.state+"/new\n")))
		if strings.HasSuffix(string(got), " 0\n") {
			t.Errorf("in a hidden folder: %s", got)
		}
	})
}

// The same attempts succeed without bounds: otherwise nothing was tested.
func TestUnconfinedReachAll(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := newRigOf(t, Config{State: filepath.Join(s.state, "agent"), Slots: 2, confine: &bounds{Kind: ConfinedNot}})
	attempts := s.attemptList(otherWorker(t, r))
	list := strings.Join(listReached(t, r, attempts), "\n") + "\n"
	for _, line := range strings.SplitAfter(attempts, "\n") {
		what, on, _ := strings.Cut(line, " ")
		// Capabilities are always dropped, which prevents access to root's processes.
		privileged := slices.Contains([]string{"proc", "ptrace", "kcmp"}, what)
		if os.Geteuid() != 0 {
			privileged = what == "create" && !strings.HasPrefix(on, s.dir)
		}
		if what == "create" && isReadOnly(filepath.Dir(strings.TrimSpace(on))) {
			continue // no user may do this
		}
		if !strings.Contains(list, line) && !privileged {
			t.Errorf("without bounds this failed too: %s", line)
		}
	}
	os.Remove("/etc/skep-test")
	os.Remove("/usr/skep-test")
}

// isReadOnly reports whether a folder's file system is mounted read-only.
func isReadOnly(dir string) bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(dir, &fs) == nil && fs.Flags&1 != 0 // ST_RDONLY
}

// Exactly the paths that an owner allows are accessible.
func TestConfinedAllowed(t *testing.T) {
	eachKind(t, func(t *testing.T, b bounds) {
		s := newScene(t)
		data, room := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "room")
		for _, dir := range []string{data, room} {
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			os.Chmod(dir, 0o777)
			if err := os.WriteFile(dir+"/there", nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r := newRigOf(t, Config{State: filepath.Join(s.state, "agent"), Slots: 1, Hide: []string{s.state}, confine: &b,
			Read: []string{data, s.dir}, Write: []string{room}})
		list := listReached(t, r, fmt.Sprintf("read %[1]s/there\nread %[2]s/there\ncreate %[1]s/new\ncreate %[2]s/new\nread %[3]s\nconnect %[4]s\nread /etc/passwd\ncreate new\nwrite /dev/null\n",
			data, room, s.key, s.socket))
		want := []string{"read " + data + "/there", "read " + room + "/there", "create " + room + "/new", "read /etc/passwd", "create new", "write /dev/null"}
		if strings.Join(list, "\n") != strings.Join(want, "\n") {
			t.Errorf("reached:\n%s\nwant:\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
		}
	})
}

// Programs run also where the agent's umask is strict, as on machines that were hardened.
func TestConfinedStrictUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // no other test runs meanwhile
	for name, b := range listConfinementKinds() {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			r := newRigOf(t, Config{State: filepath.Join(s.state, "agent"), Slots: 1, Hide: []string{s.state}, confine: &b})
			list := listReached(t, r, "read /etc/passwd\ncreate new\nread "+s.key+"\n")
			if want := []string{"read /etc/passwd", "create new"}; !slices.Equal(list, want) {
				t.Errorf("%q, want %q", list, want)
			}
		})
	}
}

func TestAllowedPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(dir, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{dir + "/none": "no such file", "usr": "", dir + "/link": "is a link", "/": "name the folders"} {
		_, err := newAgent(Config{State: t.TempDir(), Read: []string{path}, Log: t.Logf})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// An ordinary user gets the same bounds: the tests run again as such a user.
func TestConfinedOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the tests run as an ordinary user already")
	}
	const user = testUser
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	defer RemoveAll(dir)
	for name, from := range map[string]string{"agent.test": os.Args[0], "worker": workerFile} {
		copyFile(t, from, filepath.Join(dir, name))
	}
	if err := os.Mkdir(dir+"/tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	os.Chown(dir+"/tmp", user, user)
	os.Chmod(dir, 0o755)
	cmd := exec.Command(dir+"/agent.test", "-test.v", "-test.run", "^Test(ConfinedReachNothing|UnconfinedReachAll|ConfinedAllowed|Limits|ClosedFolderIsRemoved)$")
	cmd.Dir = dir
	cmd.Env = []string{"TMPDIR=" + dir + "/tmp", "AGENT_TEST_WORKER=" + dir + "/worker", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: ") < 5+2+2+2 {
		t.Errorf("%v\n%s", err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
