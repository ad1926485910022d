// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"skep/tests/watch"
)

// A windowsService is the agent of a cluster as a service of a PC, which is Wine.
type windowsService struct {
	*cluster
	user  []string // --user, or nothing
	state string   // its folder
}

// skepExe runs skep.exe.
func (w *windowsService) skepExe(stdin string, args ...string) (outcome, error) {
	return w.s.runWine(stdin, append([]string{filepath.Join(w.s.o.bin, "skep.exe")}, args...)...)
}

// runWine runs a program with files for its output: what it starts, and Wine
// itself, would hold a pipe open.
func (s *stage) runWine(stdin string, argv ...string) (o outcome, err error) {
	var files [2]*os.File
	for i := range files {
		if files[i], err = os.CreateTemp(s.tmpDir(), "wine"); err != nil {
			return o, err
		}
		defer os.Remove(files[i].Name())
		defer files[i].Close()
	}
	cmd := exec.Command("wine", argv...)
	cmd.Env = append(os.Environ(), wineEnv(s.o)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), files[0], files[1]
	late, err := watch.Run(cmd, later)
	if err != nil {
		return o, err
	}
	var text [2]string
	for i, file := range files {
		b, err := os.ReadFile(file.Name())
		if err != nil {
			return o, err
		}
		text[i] = strings.ReplaceAll(string(b), "\r", "")
	}
	o = outcome{stdout: text[0], stderr: text[1], code: watch.ExitCode(cmd.ProcessState)}
	if late {
		return o, fmt.Errorf("%q hangs: %v", argv, o)
	}
	return o, nil
}

// service types a service command, which gives that code and prints each word.
func (w *windowsService) service(code int, args []string, words ...string) error {
	return w.answer("", code, args, words...)
}

func (w *windowsService) answer(stdin string, code int, args []string, words ...string) error {
	o, err := w.skepExe(stdin, append(append([]string{"service"}, args...), w.user...)...)
	if err != nil {
		return err
	}
	if o.code != code {
		return fmt.Errorf("service %q: wanted exit code %d, got %v", args, code, o)
	}
	for _, word := range words {
		if !strings.Contains(o.stdout+o.stderr, word) {
			return fmt.Errorf("service %q lacks %q: %v", args, word, o)
		}
	}
	return nil
}

// refused is service where the command is refused in one line.
func (w *windowsService) refused(code int, word string, args ...string) {
	w.s.runStep("refused: service "+strings.Join(args, " "), func() error {
		o, err := w.skepExe("", append([]string{"service"}, args...)...)
		if err != nil {
			return err
		}
		return o.checkOutcome(code, "", word)
	})
}

// keepWine has a program run all the time: Wine ends its services with the last
// program that is none.
func (s *stage) keepWine() error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	cmd := exec.Command("wine", "cmd", "/c", "more")
	cmd.Env, cmd.Stdin = append(os.Environ(), wineEnv(s.o)...), in
	p, err := watch.Start(cmd)
	if err != nil {
		return err
	}
	s.Actors = append(s.Actors, &watch.Actor{Process: p, Name: "keeper"})
	s.open = append(s.open, out)
	return nil
}

// startService starts a hub, and makes this PC's agent a service of it.
func (s *stage) startService(user []string, state string) *windowsService {
	w := &windowsService{user: user, state: filepath.Join(s.o.prefix, "drive_c", state)}
	s.mustStep("a hub comes up", func() error {
		stopWine(s.o) // its services may be those of another journey
		if err := s.keepWine(); err != nil {
			return err
		}
		c, token, err := s.startCluster()
		w.cluster = c
		if err != nil {
			return err
		}
		for _, more := range [][]string{{}, {"--user"}} { // what a journey that failed has left
			args := append([]string{"service", "uninstall", "agent", "--purge"}, more...)
			if o, err := w.skepExe("agent\n", args...); err != nil || o.code != 0 {
				return fmt.Errorf("%v, %v", o, err)
			}
		}
		return os.WriteFile(s.path("token"), []byte(token), 0o600)
	})
	s.runStep("an agent that has joined no hub is not installed", func() error {
		return w.service(2, []string{"install", "agent"}, "joined no hub yet")
	})
	s.mustStep("the agent is installed and runs", func() error {
		args := []string{"install", "agent", w.address, "--token-file", windowsPath(s.path("token"))}
		o, err := w.skepExe("", append(append(append([]string{"service"}, args...), user...), "--", "--slots", "2", "--name", "second")...)
		if err == nil && (o.code != 0 || !strings.Contains(o.stdout, "skep-agent runs")) {
			err = fmt.Errorf("%v", o)
		}
		if err == nil {
			err = w.waitForNodes("here", "second")
		}
		return err
	})
	return w
}

// killService kills the process of the service.
func (w *windowsService) killService(word string) error {
	for _, pid := range processesWith("skep.exe\x00service\x00run") {
		if strings.Contains(procFile(pid, "cmdline"), word) {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return fmt.Errorf("no process of the service: %v", describeProcesses(processesWith("skep.exe")))
}

// journeyService: the agent as a service of the system. Wine's manager starts a
// service that died only when it is asked to.
func journeyService(s *stage) {
	w := s.startService(nil, "ProgramData/skep/agent")
	s.runStep("status says what the service does", func() error {
		return watch.Poll(soon, func() error {
			return w.service(0, []string{"status"}, "agent    running  yes ", "connected to the hub at "+w.address+" as second")
		})
	})
	s.runStep("Windows has the program in quotes, and the account of the service", func() error {
		o, err := s.runWine("", "reg", "query", `HKLM\SYSTEM\CurrentControlSet\Services\skep-agent`)
		if err != nil {
			return err
		}
		for _, want := range []string{`"` + windowsPath(filepath.Join(s.o.bin, "skep.exe")) + `" service run agent --state C:\ProgramData\skep -- --slots 2 --name second`, `NT SERVICE\skep-agent`, "Start    REG_DWORD    0x2", "PreshutdownTimeout    REG_DWORD    0xea60"} {
			if !strings.Contains(o.stdout, want) {
				return fmt.Errorf("no %s: %v", want, o)
			}
		}
		return nil
	})
	p := w.startLongPlay(300)
	begin := time.Now()
	s.runStep("the service stops, and its calls are run again", func() error {
		if err := w.service(0, []string{"stop", "agent"}); err != nil {
			return err
		}
		return p.waitForRequeue("second", begin, soon)
	})
	s.runStep("the answers are right, and the run says what was run again", func() error { return p.checkEnd("second") })
	s.runStep("a stopped service is shown, and no process of it is left", func() error {
		if left := processesWith("skep.exe\x00service\x00run"); len(left) > 0 {
			return fmt.Errorf("left: %v", describeProcesses(left))
		}
		return w.service(3, []string{"status"}, "agent    stopped  yes      -    -         -")
	})
	s.runStep("a started service is a node again", func() error {
		if err := w.service(0, []string{"start", "agent"}); err != nil {
			return err
		}
		return w.waitForNodes("here", "second")
	})
	s.runStep("a service that died is started again", func() error {
		if err := w.killService("agent"); err != nil {
			return err
		}
		if err := w.waitForNodes("here"); err != nil {
			return err
		}
		if err := w.service(0, []string{"restart", "agent"}); err != nil {
			return err
		}
		return w.waitForNodes("here", "second")
	})
	w.changeService()
	w.refuseService()
	w.removeService()
}

// logOnAgain ends all programs of Wine and starts it again, as a PC whose user
// logs on. Wine starts no service of ours then.
func (w *windowsService) logOnAgain() error {
	stopWine(w.s.o)
	if err := w.waitForNodes("here"); err != nil {
		return err
	}
	if err := w.s.keepWine(); err != nil {
		return err
	}
	if o, err := w.s.runWine("", "wineboot"); err != nil || o.code != 0 {
		return fmt.Errorf("%v, %v", o, err)
	}
	return w.waitForNodes("here", "second")
}

// changeService: the same command again, and one with other options.
func (w *windowsService) changeService() {
	w.s.runStep("other options replace the old ones, and the same change nothing", func() error {
		o, err := w.skepExe("", "service", "install", "agent", "--", "--slots", "1", "--name", "second")
		if err != nil || o.code != 0 || !strings.Contains(o.stdout, "--slots 1") {
			return fmt.Errorf("%v, %v", o, err)
		}
		if o, err = w.skepExe("", "service", "install", "agent", "--", "--slots", "1", "--name", "second"); err != nil || o.code != 0 || !strings.Contains(o.stdout, "nothing was changed\n") {
			return fmt.Errorf("%v, %v", o, err)
		}
		return watch.Poll(later, func() error {
			list, err := w.listNodes()
			for _, n := range list {
				if n.Name == "second" && n.State == "up" && n.Slots == 1 {
					return nil
				}
			}
			return fmt.Errorf("%+v, %v", list, err)
		})
	})
	w.s.runStep("a hub that cannot start is installed and says where its events are", func() error { // Wine has no local sockets
		if err := w.service(4, []string{"install", "hub"}, "skep-hub is installed, but does not start", "wevtutil"); err != nil {
			return err
		}
		if err := w.service(3, []string{"status", "hub"}, "ended with exit code 1"); err != nil {
			return err
		}
		return w.answer("hub\n", 0, []string{"uninstall", "hub", "--purge"}, "removed the service skep-hub")
	})
}

func (w *windowsService) refuseService() {
	w.refused(4, "skep service install hub", "status", "hub")
	w.refused(4, "skep service install hub", "stop", "hub")
	w.refused(4, "--user", "start", "hub", "--user")
	w.refused(2, "did you mean", "install", "agnt")
	w.refused(2, "--allow", "install", "agent", "--", "--allow-network")
	w.refused(2, "--slots", "install", "agent", "--", "--slots", "0")
	w.refused(2, "--root", "install", "agent", "--root", "x")
	w.refused(4, "service control manager only", "run", "agent", "--state", "x")
	w.s.runStep("a service of others with this name stays", func() error {
		if o, err := w.s.runWine("", "sc", "create", "skep-hub", "binpath=", `C:\windows\system32\cmd.exe`); err != nil || o.code != 0 {
			return fmt.Errorf("%v, %v", o, err)
		}
		for _, verb := range []string{"install", "uninstall"} {
			if err := w.service(4, []string{verb, "hub"}, "that skep did not install", "cmd.exe"); err != nil {
				return err
			}
		}
		_, err := w.s.runWine("", "sc", "delete", "skep-hub")
		return err
	})
}

func (w *windowsService) removeService() {
	w.s.runStep("uninstall keeps the state, and --purge removes it", func() error {
		if err := w.service(0, []string{"uninstall", "agent"}, "removed the service skep-agent", "its state stays in"); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(w.state, "node", "admission.json")); err != nil {
			return err
		}
		if err := w.answer("no\n", 4, []string{"uninstall", "agent", "--purge"}, "nothing was removed"); err != nil {
			return err
		}
		if err := w.answer("agent\n", 0, []string{"uninstall", "agent", "--purge"}, "nothing to remove"); err != nil {
			return err
		}
		if _, err := os.Stat(w.state); !os.IsNotExist(err) {
			return fmt.Errorf("%s is left: %v", w.state, err)
		}
		return w.service(0, []string{"status"})
	})
	// A service has stopped for its manager before its process has ended.
	w.s.runStep("no process of the service is left", func() error {
		return watch.Poll(later, func() error {
			if left := processesWith("skep.exe\x00service\x00run"); len(left) > 0 {
				return fmt.Errorf("left: %v", describeProcesses(left))
			}
			return nil
		})
	})
}

// journeyLogon: the agent as a program that starts when its user logs on.
func journeyLogon(s *stage) {
	w := s.startService([]string{"--user"}, "users")
	if found, _ := filepath.Glob(filepath.Join(s.o.prefix, "drive_c/users/*/AppData/Local/skep/agent")); len(found) == 1 {
		w.state = found[0]
	}
	s.runStep("it is in the user's list of programs that start at logon", func() error {
		o, err := s.runWine("", "reg", "query", `HKCU\Software\Microsoft\Windows\CurrentVersion\Run`, "/v", "skep-agent")
		if err == nil && !strings.Contains(o.stdout, `skep.exe" service run agent --state C:\`) {
			err = fmt.Errorf("%v", o)
		}
		return err
	})
	s.runStep("a second one of this user is refused", func() error {
		return w.service(4, []string{"run", "agent", "--state", "x"}, "runs already")
	})
	s.runStep("a program that died is started again", func() error {
		if err := w.killService("--child"); err != nil {
			return err
		}
		return watch.Poll(later, func() error {
			if err := w.service(0, []string{"status"}, " 1         connected to the hub"); err != nil {
				return err
			}
			return w.waitForNodes("here", "second")
		})
	})
	s.runStep("it runs again after a logon", w.logOnAgain)
	p := w.startLongPlay(300)
	begin := time.Now()
	s.runStep("it stops, and its calls are run again", func() error {
		if err := w.service(0, []string{"stop", "agent"}); err != nil {
			return err
		}
		return p.waitForRequeue("second", begin, soon)
	})
	s.runStep("the answers are right, and the run says what was run again", func() error { return p.checkEnd("second") })
	s.runStep("its log is a file", func() error {
		text, err := os.ReadFile(filepath.Join(w.state, "service.log"))
		if err == nil && !strings.Contains(string(text), "connected to the hub") {
			err = fmt.Errorf("%s", text)
		}
		return err
	})
	s.runStep("a started program is a node again", func() error {
		if err := w.service(0, []string{"start", "agent"}); err != nil {
			return err
		}
		return w.waitForNodes("here", "second")
	})
	w.removeService()
}
