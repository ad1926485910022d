// SPDX-License-Identifier: MIT

package sources

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/policy"
	"skep/internal/load"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// A tree is a root directory with files of a test.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T, files map[string]string) tree {
	v := tree{t, t.TempDir()}
	for name, text := range files {
		v.write(name, text)
	}
	return v
}

func (v tree) write(name, text string) string {
	path := filepath.Join(v.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		v.t.Fatal(err)
	}
	return path
}

// used sets when a terminal was last read from.
func (v tree) used(name string, at time.Time) {
	if err := os.Chtimes(v.write(name, ""), at, at); err != nil {
		v.t.Fatal(err)
	}
}

// system has an answer for each program that it may ask.
func (v tree) system(answers map[string]string) *system {
	s := newSystem(v.root)
	v.t.Cleanup(s.close)
	s.ask = func(name string, args ...string) ([]byte, error) {
		for command, text := range answers {
			if strings.HasPrefix(strings.Join(append([]string{name}, args...), " "), command) {
				return []byte(text), nil
			}
		}
		return nil, errors.New(name + " does not answer")
	}
	return &s
}

func say[T any](f policy.Fact[T]) string {
	if !f.Known {
		return "silent: " + f.From
	}
	return fmt.Sprintf("%v: %s", f.Value, f.From)
}

func wantFact[T any](t *testing.T, f policy.Fact[T], want string) {
	t.Helper()
	if say(f) != want {
		t.Errorf("%q, want %q", say(f), want)
	}
}

func TestIdleTerminals(t *testing.T) {
	v := newTree(t, map[string]string{"proc/uptime": "7200.00 1.00"})
	wantFact(t, v.system(nil).idle(noon), "2h0m0s: input at the machine's start")
	v.used("dev/tty1", noon.Add(-time.Hour))
	v.used("dev/pts/3", noon.Add(-time.Minute))
	v.used("dev/tty", noon)      // of whoever opens it
	v.used("dev/pts/ptmx", noon) // makes terminals
	wantFact(t, v.system(nil).idle(noon), "1m0s: input at /dev/pts/3")
	v.used("dev/pts/3", noon.Add(-2*time.Hour))
	wantFact(t, v.system(nil).idle(noon), "1h0m0s: input at /dev/tty1")
	v.used("dev/tty1", noon.Add(time.Minute)) // the clock was set back
	wantFact(t, v.system(nil).idle(noon), "0s: input at /dev/tty1")
}

// The kernel's text that is no time, or none that a machine has been up, counts as 0.
func TestIdleUptime(t *testing.T) {
	for text, want := range map[string]string{
		"": "0s", "soon": "0s", "-5.00 1.00": "0s", "1000000001": "0s", "NaN": "0s", "1e300": "0s",
		"0.00 0.00": "0s", "0.25 0.00": "250ms", "1000000000.00 1.00": "277777h46m40s",
	} {
		v := newTree(t, map[string]string{"proc/uptime": text})
		wantFact(t, v.system(nil).idle(noon), want+": input at the machine's start")
	}
}

const devices = `I: Bus=0011 Vendor=0001 Product=0001 Version=ab41
N: Name="AT Translated Set 2 keyboard"
H: Handlers=sysrq kbd event0 leds

N: Name="Accelerometer"
H: Handlers=event1

N: Name="Mouse"
H: Handlers=mouse0 event2
`

func TestIdleDevices(t *testing.T) {
	v := newTree(t, map[string]string{"proc/uptime": "7200", "proc/bus/input/devices": devices, "dev/input/event1": ""})
	ends := map[string]*os.File{}
	for _, name := range []string{"event0", "event1", "event2"} {
		path := filepath.Join(v.root, "dev/input", name)
		os.Remove(path)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0) // a FIFO without a writer ends
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		ends[name] = f
	}
	s := v.system(nil)
	wantFact(t, s.idle(noon), "2h0m0s: input at the machine's start")
	ends["event1"].WriteString("a sensor's report")
	wantFact(t, s.idle(noon), "2h0m0s: input at the machine's start")
	ends["event2"].WriteString(strings.Repeat("motion", 2000))
	wantFact(t, s.idle(noon), "0s: input at /dev/input/event2")
	wantFact(t, s.idle(noon.Add(time.Minute)), "1m0s: input at /dev/input/event2")
	ends["event0"].WriteString("key")
	wantFact(t, s.idle(noon.Add(2*time.Minute)), "0s: input at /dev/input/event0")
	r := Reader{system: *s}
	if r.Close(); len(s.input.fds) != 0 {
		t.Errorf("%v are open after Close", s.input.fds)
	}
	v.write("proc/bus/input/devices", "N: all were unplugged\n")
	ends["event0"].WriteString("key")
	wantFact(t, s.idle(noon.Add(3*time.Minute)), "1m0s: input at /dev/input/event0")
}

const desktop = "UID=1000\nTYPE=wayland\nCLASS=user\nSTATE=active\nREMOTE=0\n"

func TestIdleDesktop(t *testing.T) {
	v := newTree(t, map[string]string{"proc/uptime": "72000", "run/systemd/sessions/4": desktop,
		"run/systemd/sessions/4.ref": desktop, "run/systemd/sessions/c1": strings.Replace(desktop, "user", "greeter", 1),
		"run/systemd/sessions/7": "TYPE=tty\nCLASS=user\nSTATE=active\nREMOTE=1\n"})
	ask := func(answer string) policy.Fact[time.Duration] {
		return v.system(map[string]string{"loginctl show-session --property=Id --property=IdleHint --property=IdleSinceHint 4": answer}).idle(noon)
	}
	since := noon.Add(-20 * time.Minute).UnixMicro()
	wantFact(t, ask(fmt.Sprintf("Id=4\nIdleHint=yes\nIdleSinceHint=%d\n", since)), "20m0s: input at desktop session 4")
	wantFact(t, ask(fmt.Sprintf("Id=4\nIdleHint=no\nIdleSinceHint=%d\n", since)), "0s: input at desktop session 4")
	wantFact(t, ask("Id=4\n"), "silent: loginctl does not say whether session 4 is idle")
	wantFact(t, ask("Id=4\nIdleHint=yes\nIdleSinceHint=soon\n"), "silent: loginctl does not say whether session 4 is idle")
	wantFact(t, ask(fmt.Sprintf("Id=4\nIdleHint=no\nIdleSinceHint=%d\n\nId=9\nIdleHint=no\n", since)), "silent: loginctl tells of 2 of 1 desktop sessions")
	wantFact(t, v.system(nil).idle(noon), "silent: loginctl does not answer")
}

// Nobody tells of the input of an X server without logind, so the owner counts as present.
func TestIdleUnknown(t *testing.T) {
	v := newTree(t, map[string]string{"proc/uptime": "72000", "tmp/.X11-unix/X0": ""})
	wantFact(t, v.system(nil).idle(noon), "silent: an X server runs, and systemd-logind does not run here")
}

func TestPower(t *testing.T) {
	const class = "sys/class/power_supply/"
	v := newTree(t, nil)
	both := func() string { on, charge := v.system(nil).power(); return say(on) + "; " + say(charge) }
	if got := both(); got != "silent: /sys is not there; silent: /sys is not there" {
		t.Error(got)
	}
	v.write("sys/x", "")
	if got := both(); got != "false: /sys/class/power_supply: no battery; silent: /sys/class/power_supply: no battery" {
		t.Error(got)
	}
	v.write(class+"hid/type", "Battery")
	v.write(class+"hid/scope", "Device")
	v.write(class+"hid/status", "Discharging")
	if got := both(); got != "false: /sys/class/power_supply: no battery; silent: /sys/class/power_supply: no battery" {
		t.Errorf("a mouse's battery: %s", got)
	}
	v.write(class+"BAT0/type", "Battery\n")
	v.write(class+"BAT0/status", "Discharging\n")
	v.write(class+"BAT0/capacity", "41\n")
	v.write(class+"BAT1/type", "Battery\n")
	v.write(class+"BAT1/status", "Unknown\n")
	v.write(class+"BAT1/capacity", "90\n")
	if got := both(); got != "true: /sys/class/power_supply/BAT1; 90: /sys/class/power_supply/BAT1" {
		t.Error(got)
	}
	v.write(class+"AC/type", "Mains")
	v.write(class+"AC/online", "1")
	if got := both(); got != "false: /sys/class/power_supply: on mains; 90: /sys/class/power_supply/BAT1" {
		t.Error(got)
	}
}

func TestPressure(t *testing.T) {
	v := newTree(t, map[string]string{"proc/pressure/memory": "some avg10=12.34 avg60=0.00 avg300=0.00 total=1\nfull avg10=99 total=1\n",
		"proc/pressure/io": "full avg10=99\n"})
	wantFact(t, v.system(nil).pressure("memory"), "12.34: /proc/pressure/memory")
	wantFact(t, v.system(nil).pressure("io"), "silent: /proc/pressure/io is not there: the kernel accounts no pressure")
}

func TestRemote(t *testing.T) {
	v := newTree(t, nil)
	wantFact(t, v.system(nil).remote(), "silent: systemd-logind does not run here")
	v.write("run/systemd/sessions/4", desktop)
	v.write("run/systemd/sessions/5", "TYPE=tty\nCLASS=user\nSTATE=closing\nREMOTE=1\n")
	wantFact(t, v.system(nil).remote(), "false: 1 sessions of systemd-logind")
	v.write("run/systemd/sessions/6", "TYPE=tty\nCLASS=user\nSTATE=online\nREMOTE=1\n")
	wantFact(t, v.system(nil).remote(), "true: session 6 of systemd-logind")
}

func TestMetered(t *testing.T) {
	v := newTree(t, nil)
	const yes = "GENERAL.STATE:100 (connected)\nGENERAL.METERED:yes (guessed)\n"
	const off = "GENERAL.STATE:30 (disconnected)\nGENERAL.METERED:yes\n\nGENERAL.STATE:100 (connected)\nGENERAL.METERED:no\n"
	answers := map[string]string{"nmcli -t": off}
	s := v.system(answers)
	wantFact(t, s.metered(noon), "false: nmcli")
	answers["nmcli -t"] = yes
	wantFact(t, s.metered(noon.Add(59*time.Second)), "false: nmcli") // asked seldom
	wantFact(t, s.metered(noon.Add(time.Minute)), "true: nmcli")
	wantFact(t, v.system(nil).metered(noon), "silent: nmcli does not answer")
}

func TestProcessorTimes(t *testing.T) {
	me := fmt.Sprint(os.Getpid())
	stat := func(name, parent string, used int) string {
		return fmt.Sprintf("9 (%s) S %s 1 1 0 -1 0 0 0 0 0 %d 100 200 300 20 0 1 0 5", name, parent, used)
	}
	v := newTree(t, map[string]string{
		"proc/stat":            "cpu  1000 200 300 5000 400 10 20 9999 7 8\ncpu0 1 1 1 1 1 1 1\n",
		"proc/" + me + "/stat": stat("skep (a name)", "1", 400),
		"proc/71/stat":         stat("worker", me, 0),
		"proc/72/stat":         stat("worker", me, 1000),
		"proc/74/stat":         stat("sh", "72", 4400),
		"proc/75/stat":         stat("other", "1", 9900),
	})
	got, _, err := v.system(nil).processorTimes()
	if text := fmt.Sprintf("%.2f %.2f %.2f", got.busy, got.own, got.all); err != nil || text != "15.30 82.00 69.30" {
		t.Errorf("%s, %v", text, err)
	}
	v.write("proc/stat", "cpu  1000 200 300 5000 400 10 20\n") // before Linux 2.6.11
	if got, _, err := v.system(nil).processorTimes(); err != nil || fmt.Sprintf("%.2f", got.busy) != "15.30" {
		t.Errorf("seven numbers: %.2f, %v", got.busy, err)
	}
	for _, text := range []string{"", "cpu 1 2 3", "cpu a b c d e f g", "intr 1 2 3 4 5 6 7 8"} {
		v.write("proc/stat", text)
		if _, _, err := v.system(nil).processorTimes(); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// What programs below this one use is not others'.
func TestOwnProcessesOfThisMachine(t *testing.T) {
	s := newSystem("/")
	before, _, err := s.processorTimes()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", "sh -c 'while :; do :; done' & wait")
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { unix.Kill(-c.Process.Pid, unix.SIGKILL); c.Wait() }()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(load.Stretch(30 * time.Second)); ; <-poll.C {
		now, _, err := s.processorTimes()
		if err != nil {
			t.Fatal(err)
		}
		if now.own-before.own > 0.3 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%.2f s were accounted to a busy grandchild", now.own-before.own)
		}
	}
}

func TestAverage(t *testing.T) {
	at, now := times{}, noon
	fail := error(nil)
	var l average
	read := func(after time.Duration, busy, own float64) policy.Fact[float64] {
		now = now.Add(after)
		at.all += 4 * after.Seconds() // four processors
		at.busy, at.own = at.busy+busy, at.own+own
		return l.read(now, func() (times, string, error) { return at, "/proc", fail })
	}
	wantFact(t, read(0, 0, 0), "silent: it is measured between two readings, and this is the first")
	wantFact(t, read(time.Second, 4, 0), "silent: it is measured between two readings, and this is the first")
	wantFact(t, read(3*time.Second, 4, 0), "50: /proc") // 8 of 16 s
	wantFact(t, read(time.Second, 4, 0), "50: averaged")
	f := read(5*time.Second, 4, 8) // others took none
	if want := 50 * math.Exp(-1); math.Abs(f.Value-want) > 0.01 {
		t.Errorf("%v, want %v", f.Value, want)
	}
	for range 20 {
		f = read(6*time.Second, 24, 0)
	}
	if f.Value < 99.9 || f.Value > 100 {
		t.Errorf("all is used: %v", f.Value)
	}
	fail = errors.New("no account")
	wantFact(t, read(6*time.Second, 0, 0), "silent: no account")
	fail = nil
	wantFact(t, read(6*time.Second, 0, 0), "silent: it is measured between two readings, and this is the first")
}

// Only what a policy asks about is read.
func TestReaderReadsWhatIsAsked(t *testing.T) {
	p, err := policy.Parse([]byte("use all when charge below 5%"))
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(p)
	defer r.Close()
	f := r.Read(noon)
	if f.Idle.From+f.Others.From+f.Remote.From+f.Metered.From+f.IOPressure.From+f.MemoryPressure.From+f.FullScreen.From != "" || f.Battery.From == "" {
		t.Errorf("%+v", f)
	}
	all := NewReader(nil)
	defer all.Close()
	f = all.Read(time.Now())
	if f.Idle.From == "" || f.Others.From == "" || f.Remote.From == "" || f.Metered.From == "" || f.IOPressure.From == "" ||
		f.MemoryPressure.From == "" || f.FullScreen.From == "" || f.Charge.From == "" {
		t.Errorf("a source is not named: %+v", f)
	}
}
