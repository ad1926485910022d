// SPDX-License-Identifier: MIT

package sources

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/policy"
)

// An input is when somebody last used the machine, as one source says.
type input struct {
	at   time.Time
	from string
}

// idle is the time since the last input: of terminals, of desktops as logind tells, and
// of keyboards and mice where this process may read them. A machine with none of these
// has been idle since it was started.
func (s *system) idle(now time.Time) policy.Fact[time.Duration] {
	last := input{now.Add(-s.uptime()), "the machine's start"}
	note := func(i input) {
		if i.at.After(last.at) {
			last = i
		}
	}
	for _, pattern := range []string{"dev/tty[0-9]*", "dev/pts/[0-9]*"} {
		names, _ := filepath.Glob(s.path(pattern))
		for _, name := range names {
			var st unix.Stat_t
			if unix.Stat(name, &st) == nil {
				note(input{time.Unix(st.Atim.Unix()), "/" + strings.TrimPrefix(strings.TrimPrefix(name, s.root), "/")})
			}
		}
	}
	devices := s.input.poll(now)
	if devices.from != "" {
		note(devices)
	}
	desktops, err := s.desktops(now)
	if err != nil && !s.input.any() {
		return policy.Silent[time.Duration](err.Error())
	}
	for _, i := range desktops {
		note(i)
	}
	return policy.Say(max(now.Sub(last.at), 0), "input at "+last.from)
}

func (s *system) uptime() time.Duration {
	text, _, _ := strings.Cut(s.read("proc/uptime"), " ")
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 1e9) { // nor NaN
		return 0
	}
	return time.Duration(v * float64(time.Second))
}

// desktops says when each graphical session was last used. A desktop tells logind when
// it becomes idle, minutes after the last input, and when it no longer is, at once.
func (s *system) desktops(now time.Time) ([]input, error) {
	list, err := s.sessions()
	if err != nil {
		if x, _ := filepath.Glob(s.path("tmp/.X11-unix/X*")); len(x) > 0 {
			return nil, fmt.Errorf("an X server runs, and %w", err)
		}
		return nil, nil
	}
	args := []string{"show-session", "--property=Id", "--property=IdleHint", "--property=IdleSinceHint"}
	n := len(args)
	for _, v := range list {
		if v.kind == "x11" || v.kind == "wayland" || v.kind == "mir" {
			args = append(args, v.id)
		}
	}
	if len(args) == n {
		return nil, nil
	}
	out, err := s.ask("loginctl", args...)
	if err != nil {
		return nil, err
	}
	return parseHints(string(out), now, args[n:])
}

// parseHints reads the blocks of loginctl show-session, one for each session.
func parseHints(text string, now time.Time, want []string) (list []input, err error) {
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		v := map[string]string{}
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			v[key] = value
		}
		i := input{now, "desktop session " + v["Id"]}
		since, bad := strconv.ParseInt(v["IdleSinceHint"], 10, 64)
		switch {
		case v["IdleHint"] == "yes" && bad == nil && since > 0:
			i.at = time.UnixMicro(since)
		case v["IdleHint"] != "no":
			return nil, fmt.Errorf("loginctl does not say whether session %s is idle", v["Id"])
		}
		list = append(list, i)
	}
	if len(list) != len(want) {
		return nil, fmt.Errorf("loginctl tells of %d of %d desktop sessions", len(list), len(want))
	}
	return list, nil
}

// inputs are keyboards and mice, by the names of their device files. Root may read them,
// and members of the group input.
type inputs struct {
	root string
	list string // what /proc/bus/input/devices said last
	fds  map[string]int
	last input
}

func openInputs(root string) *inputs { return &inputs{root: root, fds: map[string]int{}} }

// reopen opens the devices that /proc/bus/input/devices lists with the handlers kbd or
// mouse, when that list changed. Others, such as sensors of acceleration, report without
// anybody's doing.
func (in *inputs) reopen() {
	text, _ := os.ReadFile(filepath.Join(in.root, "proc/bus/input/devices"))
	if string(text) == in.list {
		return
	}
	in.close()
	in.list = string(text)
	for line := range strings.Lines(in.list) {
		handlers, ok := strings.CutPrefix(strings.TrimSpace(line), "H: Handlers=")
		if !ok || !strings.Contains(handlers, "kbd") && !strings.Contains(handlers, "mouse") {
			continue
		}
		for _, name := range strings.Fields(handlers) {
			if !strings.HasPrefix(name, "event") || strings.ContainsRune(name, '/') {
				continue
			}
			fd, err := unix.Open(filepath.Join(in.root, "dev/input", name), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err == nil {
				in.fds[name] = fd
			}
		}
	}
}

func (in *inputs) any() bool { return len(in.fds) > 0 }

// poll drains the devices. What they say is not looked at: it may be a password.
func (in *inputs) poll(now time.Time) input {
	in.reopen()
	buf := make([]byte, 4096)
	defer clear(buf)
	for name, fd := range in.fds {
		for {
			n, err := unix.Read(fd, buf)
			if n > 0 {
				in.last = input{now, "/dev/input/" + name}
				continue
			}
			if err == unix.EINTR {
				continue
			}
			if err != nil && err != unix.EAGAIN {
				unix.Close(fd) // unplugged
				delete(in.fds, name)
			}
			break
		}
	}
	return in.last
}

func (in *inputs) close() {
	for _, fd := range in.fds {
		unix.Close(fd)
	}
	clear(in.fds)
}
