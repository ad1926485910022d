// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"skep/grid/hub"
	"skep/tests/watch"
	"skep/tests/wine/wineserver"
)

const (
	soon   = 20 * time.Second
	later  = 90 * time.Second
	joined = `SKEP_TOKEN=(skep1\.\S+) skep join (\S+)`
)

// A stage holds the demo's directory and processes, which close removes.
type stage struct {
	*watch.Stage
	ctx context.Context
	o   options

	client  *hub.Client
	address string
	token   string
}

func newStage(ctx context.Context, o options) (*stage, error) {
	s, err := watch.NewStage("demo")
	return &stage{Stage: s, ctx: ctx, o: o}, err
}

// close ends all processes, in any state; those of Wine by wineserver -k. SIGTERM comes first:
// a hub that ends in order ends its node's workers itself.
func (s *stage) close() {
	s.EndAll(func(a *watch.Actor) { a.End(2 * time.Second) })
	wineserver.Stop(s.wineEnv())
	os.RemoveAll(s.Dir)
}

// start starts a process, which is killed when this program ends. It has its own process group,
// so that Ctrl-C reaches only this program. Call start from the main thread.
func (s *stage) start(env []string, argv ...string) (*watch.Actor, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return s.Start(filepath.Base(argv[0]), cmd)
}

// wineEnv returns an environment in which Wine writes its files below the stage's
// directory or the prefix.
func (s *stage) wineEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") })
	if usesTMPDIR() {
		env = append(env, "TMPDIR="+s.Dir)
	}
	return append(append(env, wineserver.Env(s.o.prefix)...), "LC_ALL=C.UTF-8")
}

// usesTMPDIR is true for Wine 8 of Debian 12, whose server has a folder there. Wine 10 of
// Debian 13 has it in the prefix, and aborts ("free(): invalid pointer") if TMPDIR is set.
var usesTMPDIR = sync.OnceValue(func() bool {
	out, err := exec.Command("wine", "--version").Output()
	return err == nil && strings.HasPrefix(string(out), "wine-8.")
})

// startHub starts the hub with the Linux node in it.
func (s *stage) startHub() error {
	state := filepath.Join(s.Dir, "hub")
	a, err := s.start(os.Environ(), filepath.Join(s.o.bin, "skep"), "up", "--state", state,
		"--listen", "127.0.0.1:0", "--name", "linux", "--slots", "1")
	if err != nil {
		return err
	}
	words, err := a.WaitForLine(s.ctx, joined, soon)
	if err != nil {
		return err
	}
	s.token, s.address = words[1], words[2]
	s.client = hub.NewClient(hub.ControlSocket(filepath.Join(state, "hub")))
	s.sayf("The hub listens on %s; its one port is all that nodes need.", s.address)
	return s.waitForNode(a, "linux", soon)
}

// join starts the Windows node.
func (s *stage) join() error {
	s.titlef("A Windows PC joins")
	if err := wineserver.Check(s.o.prefix); err != nil {
		return err
	}
	bin, err := s.windowsFiles()
	if err != nil {
		return err
	}
	s.sayf("C:\\> set SKEP_TOKEN=%.12s…", s.token)
	s.sayf("C:\\> skep join %s", s.address)
	// Workers have the lowest priority on both systems, but Wine does not apply
	// it. Without nice they would slow down the Linux workers on the cores that
	// both nodes share.
	a, err := s.start(append(s.wineEnv(), "SKEP_TOKEN="+s.token), "nice", "-n", "19", "wine", filepath.Join(bin, "skep.exe"), "join", s.address,
		"--state", "Z:"+strings.ReplaceAll(filepath.Join(s.Dir, "pc"), "/", `\`), "--name", "windows", "--slots", "1")
	if err != nil {
		return err
	}
	return s.waitForNode(a, "windows", later)
}

// waitForNode waits until the hub lists the node, and prints its row.
func (s *stage) waitForNode(a *watch.Actor, name string, limit time.Duration) error {
	return a.Poll(s.ctx, limit, func() error {
		list, err := s.client.Nodes(s.ctx, "")
		if err != nil {
			return err
		}
		for _, n := range list {
			if n.Name == name && n.State == hub.NodeUp {
				s.sayf("node %-8s %s, substrate %s, %d slot", n.Name, n.System, n.Substrate, n.Slots)
				return nil
			}
		}
		return fmt.Errorf("node %s is not up", name)
	})
}

// windowsFiles creates the folder that the owner of a Windows PC has: skep.exe and bee.exe.
func (s *stage) windowsFiles() (string, error) {
	if s.o.bee == "" {
		return s.o.bin, nil
	}
	dir := filepath.Join(s.Dir, "files")
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = copyFile(filepath.Join(s.o.bin, "skep.exe"), filepath.Join(dir, "skep.exe"))
	}
	if err == nil {
		err = copyFile(s.o.bee, filepath.Join(dir, "bee.exe"))
	}
	return dir, err
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}
