// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/grid/hub"
	"skep/grid/proto"
	"skep/internal/cli"
	"skep/internal/load"
	"skep/internal/service"
	"skep/packaging/systemd"
)

// filesBelow lists files and links, without the folders.
func filesBelow(t *testing.T, root string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestServiceFilesComeAndGo(t *testing.T) {
	root := t.TempDir()
	line := []string{"service", "install", "hub", "--root", root, "--", "--listen", ":4870", "--quota-hub", "20G", "--allow-write", "/srv/50%"}
	out, code, text := outputOf(t, line...)
	if code != 0 || strings.Count(out, "wrote ") != 4 {
		t.Fatalf("%d %q\n%s", code, text, out)
	}
	files := filesBelow(t, root)
	for _, want := range []string{"/etc/systemd/system/skep-hub.service", "/etc/systemd/system/skep-hub.service.d/skep.conf",
		"/etc/systemd/system/multi-user.target.wants/skep-hub.service", "/etc/sysusers.d/skep.conf"} {
		if !slices.Contains(files, want) {
			t.Errorf("no %s among %v", want, files)
		}
	}
	added, err := os.ReadFile(filepath.Join(root, "etc/systemd/system/skep-hub.service.d/skep.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ExecStart=\n" + `ExecStart="/usr/bin/skep" "up" "--no-agent" "--no-token" "--state" "/var/lib/skep" "--listen" ":4870" "--quota-hub" "20G" "--allow-write" "/srv/50%%"` + "\n",
		`ReadWritePaths="/srv/50%%"` + "\n"} {
		if !strings.Contains(string(added), want) {
			t.Errorf("no %q in\n%s", want, added)
		}
	}
	if out, code, text = outputOf(t, line...); code != 0 || out != "skep-hub.service is installed already below "+root+": no file was changed\n" {
		t.Errorf("the second time: %d %q\n%s", code, text, out)
	}
	if out, code, text = outputOf(t, line[:5]...); code != 0 || !strings.HasPrefix(out, "removed ") {
		t.Errorf("with fewer options: %d %q\n%s", code, text, out)
	}
	for _, again := range []bool{false, true} {
		for _, name := range []string{"agent", "kernel"} {
			out, code, text := outputOf(t, "service", "install", name, "--root", root)
			if code != 0 || strings.Contains(out, "installed already") != again || strings.Contains(out, "wrote ") == again {
				t.Errorf("%s, again %v: %d %q\n%s", name, again, code, text, out)
			}
		}
	}
	for _, name := range []string{"hub", "agent", "kernel"} {
		if out, code, text = outputOf(t, "service", "uninstall", name, "--root", root); code != 0 {
			t.Errorf("%d %q\n%s", code, text, out)
		}
	}
	if left := filesBelow(t, root); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// The unit of a package is used unchanged; only this machine's settings are written.
func TestServiceOfAPackage(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"usr/lib/systemd/system", "usr/lib/sysusers.d"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"usr/lib/systemd/system/skep-agent.service", "usr/lib/sysusers.d/skep.conf"} {
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The unit of before the package gives way.
	wants := filepath.Join(root, "etc/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/systemd/system/skep-agent.service", filepath.Join(wants, "skep-agent.service")); err != nil {
		t.Fatal(err)
	}
	if _, code, text := outputOf(t, "service", "install", "agent", "--root", root); code != 0 {
		t.Fatal(text)
	}
	target, err := os.Readlink(filepath.Join(root, "etc/systemd/system/multi-user.target.wants/skep-agent.service"))
	if err != nil || target != "/usr/lib/systemd/system/skep-agent.service" || len(filesBelow(t, root)) != 3 {
		t.Errorf("%q, %v, %v", target, err, filesBelow(t, root))
	}
	if _, code, text := outputOf(t, "service", "uninstall", "agent", "--root", root); code != 0 || len(filesBelow(t, root)) != 2 {
		t.Errorf("%d %q: %v", code, text, filesBelow(t, root))
	}
}

// systemd kills no agent whose movable programs still move, nor before the hub has answered.
func TestUnitsGiveAgentsTime(t *testing.T) {
	for _, kind := range []string{"system", "user"} {
		b, err := systemd.Files.ReadFile(kind + "/skep-agent.service")
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(b), "\nTimeoutStopSec=")
		text, _, _ = strings.Cut(text, "\n")
		if given, err := time.ParseDuration(text); err != nil || given < proto.LeaveMax+5*time.Second {
			t.Errorf("%s: it has %v, the programs %v; %v", kind, given, proto.LeaveMax, err)
		}
	}
}

func TestServiceLinesThatAreRefused(t *testing.T) {
	root := t.TempDir()
	t.Setenv(cli.StateVariable, root)
	keepIn(t, filepath.Join(root, "none"))
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"service", "a subcommand is expected", cli.Usage},
		{"service frob hub", "there is no subcommand", cli.Usage},
		{"service install", "a service is expected", cli.Usage},
		{"service install hob", "did you mean hub?", cli.Usage},
		{"service install hub x", `"x"`, cli.Usage},
		{"service install agent here", "HOST:PORT", cli.Usage},
		{"service install agent here:1", "belong together", cli.Usage},
		{"service install agent --token-file x", "belong together", cli.Usage},
		{"service install hub --token-file x", "only an agent", cli.Usage},
		{"service install agent here:1 --token-file x --root " + root, "below --root", cli.Usage},
		{"service install hub --user --root " + root, "--root or --user", cli.Usage},
		{"service install hub --root " + root + "/none", "none", cli.Usage},
		{"service install hub --root " + root + " -- --slots 0", "--slots 0", cli.Usage},
		{"service install hub --root " + root + " -- --nonsense", "there is no option --nonsense: 'skep up --help' lists them", cli.Usage},
		{"service install agent --root " + root + " -- --nonsense", "'skep join --help' lists them", cli.Usage},
		{"service install hub --nonsense", "'skep service install --help' lists them", cli.Usage},
		{"service install hub --root " + root + " -- word", "word", cli.Usage},
		{"service install hub --root " + root + " -- --state /x", "--state is set by the service itself", cli.Usage},
		{"service install agent --root " + root + " -- --token x", "--token is set by the service itself", cli.Usage},
		{"service install kernel --user", "it has no --user", cli.Usage},
		{"service install kernel -- x", `"x"`, cli.Usage},
		{"service restore --settle 0", "--settle", cli.Usage},
		{"service restore", "nothing is stored", cli.Refused},
		{"service uninstall hub --purge --root " + root, "--root goes with", cli.Usage},
		{"service status frob", "frob", cli.Usage},
		{"service stop hub now", "now", cli.Usage},
		{"join --only", "--only", cli.Usage},
	} {
		code, text := cli.ExitCode(dispatch(t.Context(), strings.Fields(c.line)))
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.line, code, text, c.code, c.want)
		}
	}
	if left := filesBelow(t, root); len(left) > 0 {
		t.Errorf("a refused line left %v", left)
	}
}

// If init is not systemd, the error names it and nothing is written.
func TestServiceNeedsSystemd(t *testing.T) {
	if service.Runs() {
		t.Skip("systemd is this system's init")
	}
	init, err := os.ReadFile("/proc/1/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"service install hub", "service uninstall hub", "service status", "service start hub", "service install hub --user"} {
		code, text := cli.ExitCode(dispatch(t.Context(), strings.Fields(line)))
		if code != cli.Refused || !strings.Contains(text, strings.TrimSpace(string(init))) {
			t.Errorf("%s: %d %q", line, code, text)
		}
	}
}

// A start that had no effect is not called one: systemctl ignores commands in a chroot, and a
// service may end after it said that it is ready.
func TestServiceThatDoesNotRun(t *testing.T) {
	for state, want := range map[string]string{
		"":                       "systemctl did nothing, as in a chroot",
		"ActiveState=activating": "is activating after its start; 'journalctl -u skep-hub' says why",
		"ActiveState=active":     "",
	} {
		bin := t.TempDir()
		stub := "#!/bin/sh\ncase \"$*\" in *show*) echo '" + state + "';; esac\n"
		if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte(stub), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":/usr/bin:/bin")
		p := &setup{installation: installation{name: hubService}, systemd: &service.Systemd{}}
		err := p.startUnit(true)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", state, err, want)
		}
	}
}

func TestServicePurgeAsksForTheName(t *testing.T) {
	dir := t.TempDir()
	out := printedBy(t, &os.Stdout, func() {
		for _, typed := range []string{"", "yes\n", "agent\n"} {
			if err := confirmPurge(strings.NewReader(typed), "hub", dir); err == nil {
				t.Errorf("%q removes the hub's state", typed)
			}
		}
		if err := confirmPurge(strings.NewReader("hub\n"), "hub", dir); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(out, dir) {
		t.Errorf("asked: %q", out)
	}
}

// A service of the system starts no program that another account could replace.
func TestServiceProgramIsRoots(t *testing.T) {
	if why := unsafeProgram("/bin/sh"); why != "" {
		t.Errorf("/bin/sh %s", why)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "skep")
	if err := os.WriteFile(file, nil, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, dir + "/none"} {
		if why := unsafeProgram(path); why == "" {
			t.Errorf("%s may be a service", path)
		}
	}
}

func TestUpgradeWaitsForPrograms(t *testing.T) {
	script, err := os.ReadFile("../../packaging/debian/skep.postinst")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), "deb-systemd-invoke try-reload-or-restart skep-hub.service") {
		t.Error("an upgrade ends programs that run")
	}
}

func TestServiceUnitsAreValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze here")
	}
	root := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", root)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"system", "user"} {
		for _, name := range serviceNames() {
			if kind == "user" && name == kernelService {
				continue // root's
			}
			text, err := systemd.Files.ReadFile(kind + "/" + unitName(name))
			if err != nil {
				t.Fatal(err)
			}
			if again := fmt.Sprintf("\nRestartForceExitStatus=%d\n", cli.Restart); name != kernelService &&
				(!strings.Contains(string(text), again) || !strings.Contains(string(text), "\nExecReload=/bin/kill -USR1 $MAINPID\n")) {
				t.Errorf("%s/%s does not restart when it is idle", kind, unitName(name))
			}
			unit := strings.ReplaceAll(string(text), systemd.Program, program)
			path := filepath.Join(root, kind, unitName(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(unit), 0o644); err != nil {
				t.Fatal(err)
			}
			args := []string{"verify", "--man=no", path}
			if kind == "user" {
				args = append(args, "--user")
			}
			if out, err := exec.Command("systemd-analyze", args...).CombinedOutput(); err != nil || strings.Contains(string(out), unitName(name)) {
				t.Errorf("%s: %v\n%s", path, err, out)
			}
		}
	}
}

// A started is a service that the test runs like systemd.
type started struct {
	t     *testing.T
	cmd   *exec.Cmd
	conn  *net.UnixConn
	log   *os.File
	heard string
}

// startService runs the ExecStart line of a unit, with a notification socket and with a
// file in place of the journal.
func startService(t *testing.T, dir, name string, more ...string) *started {
	t.Helper()
	text, err := systemd.Files.ReadFile("system/" + unitName(name))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(strings.ReplaceAll(execLine(string(text)), systemState, dir))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &started{t: t}
	if s.log, err = os.CreateTemp(dir, name); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, name+".news")
	os.Remove(socket)
	if s.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(s.log.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(program, append(words[1:], more...)...)
	s.cmd.Env = append(os.Environ(), "SKEP_TEST_MAIN=1", "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=1500000",
		fmt.Sprintf("JOURNAL_STREAM=%d:%d", stat.Dev, stat.Ino))
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait(); s.conn.Close(); s.log.Close() })
	return s
}

// hears waits for a notification that contains these words.
func (s *started) hears(words string) {
	s.t.Helper()
	s.conn.SetReadDeadline(time.Now().Add(load.Stretch(time.Minute)))
	b := make([]byte, 4096)
	for {
		n, err := s.conn.Read(b)
		if err != nil {
			s.t.Fatalf("%s never said %q, but %s\n%s", s.cmd.Args, words, s.heard, s.printed())
		}
		s.heard += string(b[:n]) + "\n"
		if strings.Contains(string(b[:n]), words) {
			return
		}
	}
}

func (s *started) printed() string {
	b, err := os.ReadFile(s.log.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// startJoinedHub runs the hub's service in a new state directory, which it joins to that hub
// as a node.
func startJoinedHub(t *testing.T) (dir string, h *started, address string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "walk") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h = startService(t, dir, hubService, "--listen", "127.0.0.1:0")
	h.hears("READY=1\nSTATUS=listens on 127.0.0.1:")
	h.hears("WATCHDOG=1")
	line, code, text := outputOf(t, "token", "--state", dir)
	if code != 0 {
		t.Fatal(text)
	}
	words := strings.Fields(line)
	t.Setenv(tokenVariable, strings.TrimPrefix(words[0], tokenVariable+"="))
	if out, code, text := outputOf(t, "join", words[3], "--only", "--state", dir); code != 0 || !strings.HasPrefix(out, "joined the hub") {
		t.Fatalf("%d %q\n%s", code, text, out)
	}
	return dir, h, words[3]
}

// Both services run by the command lines of their units: they become ready, send watchdog
// messages, are killed, started again and stopped. The log contains no secret.
func TestServiceWalk(t *testing.T) {
	dir, h, address := startJoinedHub(t)
	a := startService(t, dir, agentService)
	a.hears("READY=1")
	a.hears("STATUS=connected to the hub")
	a.hears("WATCHDOG=1")
	h.cmd.Process.Kill()
	h.cmd.Wait()
	a.hears("STATUS=no connection to the hub")
	h2 := startService(t, dir, hubService, "--listen", address)
	h2.hears("READY=1")
	a.hears("STATUS=connected to the hub")
	for _, s := range []*started{a, h2} {
		s.cmd.Process.Signal(syscall.SIGTERM)
		s.hears("STOPPING=1")
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("%s ends with %v", s.cmd.Args, err)
		}
	}
	for _, s := range []*started{h, a, h2} {
		if log := s.printed(); strings.Contains(log, "skep1.") || strings.Contains(log, "time=") {
			t.Errorf("a token or a second time is in the log:\n%s", log)
		}
	}
	if log := a.printed(); !strings.HasPrefix(log, "<6>agent: ") {
		t.Errorf("the agent's log has no priorities:\n%s", log)
	}
}

// Both services restart by the signal of 'systemctl reload', the hub when the last run has
// ended.
func TestServiceReload(t *testing.T) {
	dir, h, _ := startJoinedHub(t)
	a := startService(t, dir, agentService)
	a.hears("STATUS=connected to the hub")
	c := hub.NewClient(hub.ControlSocket(hubState(dir)))
	open := func() *hub.Stream {
		_, events, err := c.Run(t.Context(), hub.RunRequest{Name: "test", Dirs: []string{dir}})
		if err != nil {
			t.Fatal(err)
		}
		return events
	}
	first := open()
	h.cmd.Process.Signal(syscall.SIGUSR1)
	h.hears("STATUS=restarts when the programs that run have ended")
	second := open() // taken, though the hub waits
	first.Close()
	h.hears("WATCHDOG=1")
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("the hub ended below a run: %v", err)
	}
	second.Close()
	a.cmd.Process.Signal(syscall.SIGUSR1)
	h.hears("STOPPING=1")
	for _, s := range []*started{h, a} {
		if s.cmd.Wait(); s.cmd.ProcessState.ExitCode() != cli.Restart {
			t.Errorf("%s ends with %v\n%s", s.cmd.Args, s.cmd.ProcessState, s.printed())
		}
		if !strings.Contains(s.printed(), "ended because SIGUSR1 asked for a restart") {
			t.Errorf("%s does not say why it ends:\n%s", s.cmd.Args, s.printed())
		}
	}
}

// A hub that cannot use its state directory says so and ends.
func TestServiceWithoutAPlaceForItsState(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), load.Stretch(time.Minute))
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, "up", "--no-agent", "--no-token", "--listen", "127.0.0.1:0", "--state", file)
	cmd.Env = append(os.Environ(), "SKEP_TEST_MAIN=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the state directory cannot be made") {
		t.Errorf("%v\n%s", err, out)
	}
}
