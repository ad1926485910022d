// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"skep/internal/cli"
	labs "skep/lab"
	"skep/lab/hold"
)

func labWords() []command {
	return []command{
		{name: "lab up", usage: "lab up [--name NAME] [MACHINE OPTIONS] [--user] [--detach]", runner: &labUp{},
			summary: "open a shell in a throw-away machine, which ends with the shell"},
		{name: "lab shell", usage: "lab shell [NAME] [--user] [--node N]", runner: &labShell{},
			summary: "open another shell in a running machine"},
		{name: "lab run", usage: "lab run [--name NAME | MACHINE OPTIONS] [--user] [--node N] [--dir DIR] -- COMMAND [ARGS]", runner: &labRun{}, program: true,
			summary: "run a command in the running machine, or else in a new one"},
		{name: "lab list", usage: "lab list [--json]", runner: &labList{},
			summary: "list the machines"},
		{name: "lab down", usage: "lab down [NAME | --all]", runner: &labDown{},
			summary: "end a machine"},
		{name: "lab hold", usage: "lab hold", runner: &labHold{}, hidden: true,
			summary: "own a machine for other commands"},
	}
}

// labBuild returns the canonical path of the build folder, by which machines are found.
func labBuild() (string, error) {
	dir, err := labs.BuildDir()
	if err != nil {
		return "", err
	}
	if cache, err := labs.CacheDir(); err == nil && dir == cache {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("there is no build folder yet: run make (%w)", err)
	}
	return real, nil
}

// findMachine finds a machine by its name, or the only machine if no name is given. Without
// a name it is no error if there is none. A dead machine is reported once; if it is the one
// named, as an error.
func findMachine(build, name string) (*hold.Machine, error) {
	all, dead, err := hold.List(build)
	if err != nil {
		return nil, err
	}
	return chooseMachine(build, name, all, dead)
}

func chooseMachine(build, name string, all []*hold.Machine, dead []*hold.Info) (*hold.Machine, error) {
	running := labOffered(all, name)
	var meant error
	for _, i := range dead {
		death := cli.CleanText(i.Death())
		if meant == nil && (name == i.Name || (name == "" && len(running) == 0)) {
			meant = cli.Errorf(cli.Unreachable, "%s", death)
			continue
		}
		fmt.Fprintln(os.Stderr, "skep:", death)
	}
	if meant != nil {
		return nil, meant
	}
	for _, m := range running {
		if name == m.Name || (name == "" && len(running) == 1) {
			return m, nil
		}
	}
	switch {
	case name == "" && len(running) == 0:
		return nil, nil
	case name == "":
		return nil, cli.Errorf(cli.Usage, "several machines run, name one of them: %s", hold.JoinNames(running))
	case len(running) > 0:
		return nil, cli.Errorf(cli.Unreachable, "no machine is named %s; these run: %s", name, hold.JoinNames(running))
	case (labs.Machine{Name: name, Build: build}).Check() != nil:
		return nil, cli.Errorf(cli.Unreachable, "no machine is named %s, and no machine can have this name: %s", name, labNames)
	}
	return nil, cli.Errorf(cli.Unreachable, "no machine is named %s, and none runs: 'skep lab up --detach --name %s' starts it", name, name)
}

// labNames describes valid machine names.
const labNames = "a name has letters, digits and ._- and begins with a letter or digit"

// labOffered omits, if none is named, machines that belong to a single command.
func labOffered(all []*hold.Machine, name string) []*hold.Machine {
	if name != "" {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(m *hold.Machine) bool { return strings.HasPrefix(m.Name, labAlone) })
}

// labAlone is the prefix of the names of machines that belong to a single command.
const labAlone = "run-"

// labStart boots a machine that ends with this process. The progress is shown on a
// terminal; that of fetching a kernel, which takes minutes, always.
func labStart(ctx context.Context, build string, m labs.Machine) (*hold.Machine, error) {
	// Find a missing program before a kernel is fetched, which takes minutes.
	if _, err := labs.GuestProgram(build); err != nil {
		return nil, err
	}
	p := newLabProgress(m.Kernel)
	defer p.hide()
	if _, err := labs.FetchKernel(ctx, build, m.Kernel, p); err != nil {
		return nil, labStopped(ctx, err)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	machine, err := hold.Start(ctx, []string{exe, "lab", "hold"}, build, m, p.showState)
	return machine, labStopped(ctx, err)
}

func labStopped(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return cli.Exit(exitStopped)
	}
	return err
}

// labProgress shows one line of progress and its age.
type labProgress struct {
	line  *cli.Progress
	texts chan string
	ended chan struct{}
}

func newLabProgress(kernel string) *labProgress {
	p := &labProgress{line: cli.NewProgress(os.Stderr), texts: make(chan string), ended: make(chan struct{})}
	go p.showText("looking for kernel " + kernel)
	return p
}

func (p *labProgress) showText(text string) {
	defer close(p.ended)
	tick := time.Tick(time.Second / 4)
	begin := time.Now()
	for {
		select {
		case next, more := <-p.texts:
			if !more {
				return
			}
			text, begin = next, time.Now()
		case <-tick:
		}
		p.line.Set([]string{fmt.Sprintf("skep: %s (%d s)", cli.CleanText(text), time.Since(begin)/time.Second)})
	}
}

// Write shows lines about the fetching of a kernel.
func (p *labProgress) Write(b []byte) (int, error) {
	if !p.line.Terminal() {
		return os.Stderr.Write(b)
	}
	p.texts <- string(bytes.TrimSpace(b))
	return len(b), nil
}

func (p *labProgress) showState(s hold.State) {
	switch s {
	case hold.Waiting:
		p.texts <- "waiting for another machine to boot"
	case hold.Booting:
		p.texts <- "booting"
	}
}

func (p *labProgress) hide() {
	close(p.texts)
	<-p.ended
	p.line.Set(nil)
	p.line.Done()
}

// A labProgram is the program that up, shell and run start in a machine.
type labProgram struct {
	user bool
	node int
	dir  string
}

func (p *labProgram) newProgram(build string, args []string) labs.Program {
	env := []string{"PATH=" + labBin(build) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if term := os.Getenv("TERM"); term != "" {
		env = append(env, "TERM="+term)
	}
	return labs.Program{Args: args, Env: env, Dir: p.dir, User: p.user, Node: p.node}
}

// labBin returns the folder of skep's programs, in the build folder or the installation.
func labBin(build string) string {
	bin := filepath.Join(build, "bin")
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	if self, err := os.Executable(); err == nil {
		return filepath.Dir(self)
	}
	return bin
}

// check refuses a node that the machine does not have.
func (p *labProgram) check(f *cli.Flags, m *hold.Info) error {
	if p.node < 0 || p.node > m.Nodes {
		return f.Usagef("there is no node %d: the machine %s has %d, give --nodes N where it starts", p.node, m.Name, m.Nodes)
	}
	return nil
}

// showDir makes a folder below /tmp or /run visible in a machine, which has a /tmp and a
// /run of its own and this computer's below /host. An existing folder there that contains
// only folders may be the parent of a mount, such as build, and is shown too.
const showDir = `if [ -d "$1" ]; then
	[ -d "/host$1" ] || exit 0
	case $(stat -c %m "$1") in /tmp|/run) ;; *) exit 0 ;; esac
	[ -z "$(find "$1" -xdev ! -type d -print -quit)" ] || exit 0
fi
[ -d "/host$1" ] || { echo "there is no folder $1" >&2; exit 1; }
s=$(mktemp -d /run/skep-dir.XXXXXX) && chmod 755 "$s" &&
mkdir "$s/up" "$s/work" && mkdir -p "$1" &&
mount -t overlay -o "lowerdir=/host$1,upperdir=$s/up,workdir=$s/work" overlay "$1"`

// chooseDir sets the program's working directory, by default that of this command.
func (p *labProgram) chooseDir(ctx context.Context, m *hold.Machine) error {
	dir, err := filepath.Abs(p.dir)
	if err != nil {
		return err
	}
	if p.dir = dir; !strings.HasPrefix(dir, "/tmp/") && !strings.HasPrefix(dir, "/run/") {
		return nil
	}
	if strings.ContainsAny(dir, `,:\`) {
		return fmt.Errorf("the folder %s has a character that a mount takes for its own: go elsewhere, or give --dir", dir)
	}
	var said labs.Limited
	status, err := m.Exec(ctx, labs.Program{Args: []string{"/bin/sh", "-c", showDir, "sh", dir}}, labs.Streams{Err: &said})
	if err == nil && status != 0 {
		err = fmt.Errorf("the folder %s can't be shown in the machine: %s", dir, cli.CleanText(strings.TrimSpace(string(said))))
	}
	return labEnd(0, err)
}

// labEnd returns the error with which skep ends after a program in a machine.
func labEnd(status int, err error) error {
	var failed *labs.RunError
	var gone *hold.Gone
	switch {
	case errors.As(err, &failed):
		return cli.Errorf(failed.Status, "%s", cli.CleanText(failed.Reason))
	case errors.As(err, &gone):
		return cli.Errorf(cli.Unreachable, "%s", cli.CleanText(gone.Text))
	case errors.Is(err, context.Canceled):
		return cli.Exit(exitStopped)
	case err != nil:
		return err
	case status != 0:
		// A shell sees only the low 8 bits, which must not be 0.
		return cli.Exit(max(1, status&0xff))
	}
	return nil
}
