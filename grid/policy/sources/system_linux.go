// SPDX-License-Identifier: MIT

package sources

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"skep/grid/policy"
	"skep/internal/proctree"
)

// system reads Linux's files below root, which is not / in tests.
type system struct {
	root  string
	input *inputs
	ask   func(name string, args ...string) ([]byte, error) // runs a program of the system

	meteredAt time.Time
	meteredIs policy.Fact[bool]
}

func newSystem(root string) system {
	return system{root: root, input: openInputs(root), ask: askProgram}
}

func (s *system) close() { s.input.close() }

const (
	askLimit     = time.Second
	meteredEvery = time.Minute
)

func askProgram(name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "LC_ALL=C")
	out, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%s is not installed here", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s does not answer (%w)", name, err)
	}
	return out, nil
}

func (s *system) path(name string) string { return filepath.Join(s.root, name) }

func (s *system) read(name string) string {
	text, _ := os.ReadFile(s.path(name))
	return strings.TrimSpace(string(text))
}

// power says whether the machine runs on battery, and the charge of its fullest battery.
// A battery of a mouse has the scope Device.
func (s *system) power() (on policy.Fact[bool], charge policy.Fact[float64]) {
	const class = "sys/class/power_supply"
	if _, err := os.Stat(s.path("sys")); err != nil {
		return policy.Silent[bool]("/sys is not there"), policy.Silent[float64]("/sys is not there")
	}
	on = policy.Say(false, "/"+class+": no battery")
	charge = policy.Silent[float64]("/" + class + ": no battery")
	mains := false
	dirs, _ := filepath.Glob(s.path(class + "/*"))
	for _, dir := range dirs {
		read := func(name string) string { return s.read(class + "/" + filepath.Base(dir) + "/" + name) }
		switch {
		case read("scope") == "Device":
		case read("type") == "Battery":
			from := "/" + class + "/" + filepath.Base(dir)
			empties := read("status") == "Discharging"
			on = policy.Say(on.Value || empties, from)
			if c, err := strconv.ParseFloat(read("capacity"), 64); err == nil && !(charge.Known && charge.Value >= c) {
				charge = policy.Say(c, from)
			}
		case read("online") == "1":
			mains = true
		}
	}
	if mains && on.Value {
		on = policy.Say(false, "/"+class+": on mains")
	}
	return on, charge
}

// pressure is the share of the last ten seconds in which some program waited.
func (s *system) pressure(what string) policy.Fact[float64] {
	name := "proc/pressure/" + what
	for line := range strings.Lines(s.read(name)) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == "some" {
			if text, ok := strings.CutPrefix(f[1], "avg10="); ok {
				if v, err := strconv.ParseFloat(text, 64); err == nil {
					return policy.Say(v, "/"+name)
				}
			}
		}
	}
	return policy.Silent[float64]("/" + name + " is not there: the kernel accounts no pressure")
}

func (s *system) fullScreen() policy.Fact[bool] {
	return policy.Silent[bool]("Linux's desktops do not tell other programs")
}

// A session is a login that systemd-logind keeps.
type session struct {
	id                         string
	class, kind, state, remote string
}

var errNoLogind = errors.New("systemd-logind does not run here")

func (s *system) sessions() ([]session, error) {
	if _, err := os.Stat(s.path("run/systemd/sessions")); err != nil {
		return nil, errNoLogind
	}
	names, _ := filepath.Glob(s.path("run/systemd/sessions/*"))
	var list []session
	for _, name := range names {
		if strings.HasSuffix(name, ".ref") {
			continue
		}
		v := session{id: filepath.Base(name)}
		text, _ := os.ReadFile(name)
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch key {
			case "CLASS":
				v.class = value
			case "TYPE":
				v.kind = value
			case "STATE":
				v.state = value
			case "REMOTE":
				v.remote = value
			}
		}
		if v.class == "user" && v.state != "closing" {
			list = append(list, v)
		}
	}
	return list, nil
}

func (s *system) remote() policy.Fact[bool] {
	list, err := s.sessions()
	if err != nil {
		return policy.Silent[bool](err.Error())
	}
	for _, v := range list {
		if v.remote == "1" {
			return policy.Say(true, "session "+v.id+" of systemd-logind")
		}
	}
	return policy.Say(false, fmt.Sprintf("%d sessions of systemd-logind", len(list)))
}

// metered asks NetworkManager, seldom.
func (s *system) metered(now time.Time) policy.Fact[bool] {
	if d := now.Sub(s.meteredAt); s.meteredAt.IsZero() || d < 0 || d >= meteredEvery {
		s.meteredAt, s.meteredIs = now, s.askMetered()
	}
	return s.meteredIs
}

func (s *system) askMetered() policy.Fact[bool] {
	out, err := s.ask("nmcli", "-t", "-f", "GENERAL.STATE,GENERAL.METERED", "device", "show")
	if err != nil {
		return policy.Silent[bool](err.Error())
	}
	connected := false
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if state, ok := strings.CutPrefix(line, "GENERAL.STATE:"); ok {
			connected = strings.HasPrefix(state, "100")
		}
		if m, ok := strings.CutPrefix(line, "GENERAL.METERED:"); ok && connected && strings.HasPrefix(m, "yes") {
			return policy.Say(true, "nmcli")
		}
	}
	return policy.Say(false, "nmcli")
}

// processorTimes reads /proc/stat and the accounts of this process and those below it.
// Time that a hypervisor took is nobody's.
func (s *system) processorTimes() (t times, from string, err error) {
	first, _, _ := strings.Cut(s.read("proc/stat"), "\n")
	f := strings.Fields(first)
	if len(f) < 8 || f[0] != "cpu" {
		return t, "", errors.New("/proc/stat cannot be read")
	}
	for i, text := range f[1:8] { // user nice system idle iowait irq softirq
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return t, "", errors.New("/proc/stat cannot be read")
		}
		t.all += v / proctree.ClockTick
		if i != 3 && i != 4 {
			t.busy += v / proctree.ClockTick
		}
	}
	proc := s.path("proc")
	t.own = proctree.Seconds(proc, append(proctree.Below(proc, os.Getpid()), os.Getpid())...)
	return t, "/proc/stat, without Skep's programs", nil
}
