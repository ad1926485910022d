// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"skep/dynamos/update/pack"
	"skep/grid/hub"
	"skep/grid/label"
	"skep/grid/proto"
	"skep/internal/cli"
)

type execute struct {
	state  string
	on     string
	limits proto.Limits
	env    []string
	update string

	movable    bool
	checkpoint float64
}

func (e *execute) options(f *cli.Flags) {
	f.StringVar(&e.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.StringVar(&e.on, "on", "any", "`SELECTOR`: any, all, or terms such as os=NAME, node=NAME, substrate=NAME, cpus>=N, memory>=SIZE and labels, with commas between them")
	f.Func("env", "set `NAME=VALUE` for the program (any number of times)", func(s string) error {
		if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
			return errors.New("want NAME=VALUE")
		}
		e.env = append(e.env, s)
		return nil
	})
	f.StringVar(&e.update, "update", "", "put the committed kernel update `NAME` in force for the program on each node")
	f.BoolVar(&e.movable, "movable", false, "run the program under bee on a Linux node, so that skep move can move it")
	f.Float64Var(&e.checkpoint, "checkpoint", 0, "like --movable, and save the program every so many `SECONDS`; output waits for the next time")
	limitOptions(f, "", "the program", &e.limits)
}

// Exit codes of a shell for programs that could not be started.
const (
	exitCannot  = 126
	exitMissing = 127
	exitStopped = 130 // by its user
)

func (e *execute) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return f.Expectf("a program is expected")
	}
	if _, err := label.Parse(e.on); err != nil {
		return f.Usagef("%v", err)
	}
	if f.Given("update") && !pack.ValidName(e.update) {
		return f.Usagef("--update %q: this is not the name of an update", e.update)
	}
	if f.Given("checkpoint") && !(e.checkpoint >= checkpointMin && e.checkpoint <= checkpointMax) {
		return f.Usagef("--checkpoint takes %d to %d seconds", checkpointMin, checkpointMax)
	}
	if e.movable = e.movable || e.checkpoint > 0; e.movable && f.Given("update") {
		return f.Usagef("a program with --update cannot be moved: the kernel of another node may lack the update")
	}
	c, err := openControl(e.state)
	if err != nil {
		return err
	}
	chosen, err := e.choose(ctx, c)
	if err != nil {
		return err
	}
	blob, err := put(ctx, c, words[0], e.movable)
	if err != nil {
		return err
	}
	job := &job{client: c, stdin: newFan(os.Stdin, len(chosen)), many: len(chosen) > 1}
	return job.runAll(ctx, chosen, hub.ExecRequest{Program: blob.Digest, Name: words[0], Args: words[1:], Env: e.env, Limits: e.limits, Update: e.update,
		Movable: e.movable, On: e.on, Checkpoint: e.checkpoint})
}

// Bounds of --checkpoint, in seconds.
const (
	checkpointMin = 1
	checkpointMax = 1 << 20
)

// choose returns the nodes for the program. A movable one runs on one node, which can move it.
func (e *execute) choose(ctx context.Context, c *hub.Client) ([]hub.NodeInfo, error) {
	on := e.on
	if e.movable && on == "any" {
		on = "all"
	}
	list, err := c.Nodes(ctx, on)
	if err != nil {
		return nil, noNode(err)
	}
	if !e.movable {
		return list, nil
	}
	list = slices.DeleteFunc(list, func(n hub.NodeInfo) bool { return !n.Moves })
	if len(list) == 0 {
		return nil, cli.Errorf(cli.Unreachable, "no node that is up and matches %s runs movable programs: %s", e.on, hub.MovesNeed)
	}
	return []hub.NodeInfo{slices.MaxFunc(list, func(a, b hub.NodeInfo) int { return cmp.Compare(a.Free, b.Free) })}, nil
}

// noNode reports that no node matches. The selector was checked before, so it is valid.
func noNode(err error) error {
	var p *proto.Problem
	if errors.As(err, &p) && p.Code == proto.ProblemRequest {
		return cli.WithCode(cli.Unreachable, err)
	}
	return withExitCode(err)
}

// put uploads a program to the hub, which checks that it can run.
func put(ctx context.Context, c *hub.Client, name string, movable bool) (hub.BlobAnswer, error) {
	info, err := os.Stat(name)
	if err != nil {
		return hub.BlobAnswer{}, cli.Errorf(exitMissing, "%s can't be read: %w", name, reasonOf(err))
	}
	if !info.Mode().IsRegular() {
		return hub.BlobAnswer{}, cli.Errorf(exitCannot, "%s is not a program: give an ELF file of Linux", name)
	}
	store := c.Program
	if movable {
		store = c.MovableProgram
	}
	blob, err := store(ctx, name)
	var p *proto.Problem
	if errors.As(err, &p) && p.Code == proto.ProblemRequest {
		return blob, cli.Errorf(exitCannot, "%s can't run: %w", name, err)
	}
	return blob, withExitCode(err)
}

// notRun returns the error for a program of this machine that does not start, with a
// shell's exit code.
func notRun(name string, err error) error {
	code := exitCannot
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		code = exitMissing
	}
	return cli.Errorf(code, "%s can't be run: %w", name, reasonOf(err))
}

// reasonOf returns an error without the path, which the message already names.
func reasonOf(err error) error {
	var path *os.PathError
	var look *exec.Error
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &look):
		return look.Err
	}
	return err
}

// A job is one program on one or more nodes. The lock guards what is printed.
type job struct {
	client *hub.Client
	stdin  *fan
	many   bool // each line begins with the name of its node
	lock   sync.Mutex
}

// runAll runs the program on all nodes; the first failure in the nodes' order is the result.
func (j *job) runAll(ctx context.Context, chosen []hub.NodeInfo, req hub.ExecRequest) error {
	ends := make([]error, len(chosen))
	var wait sync.WaitGroup
	for i, n := range chosen {
		wait.Add(1)
		go func() {
			defer wait.Done()
			r := req
			r.Node = n.ID
			defer j.stdin.releaseReader(i)
			ends[i] = j.runOn(ctx, n, r, j.stdin.newReader(i))
		}()
	}
	wait.Wait()
	var first error
	for i, err := range ends {
		code, text := cli.ExitCode(err)
		if text != "" && j.many {
			fmt.Fprintf(os.Stderr, "skep: %s: %s\n", chosen[i].Name, text)
			err = cli.Exit(code)
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// runOn runs the program on one node and copies its output here.
func (j *job) runOn(ctx context.Context, n hub.NodeInfo, req hub.ExecRequest, stdin io.Reader) error {
	out, errs := j.newOutput(os.Stdout, n.Name), j.newOutput(os.Stderr, n.Name)
	defer out.flush()
	defer errs.flush()
	status, err := j.client.Exec(ctx, req, stdin, out, errs)
	var failed *hub.ExecError
	switch {
	case errors.Is(err, context.Canceled):
		return cli.Exit(exitStopped)
	case errors.As(err, &failed):
		return cli.Errorf(failedCode(failed), "%s on node %s", cli.CleanText(failed.Text), n.Name)
	case err != nil:
		return withExitCode(err)
	case status != 0:
		return cli.Exit(status & 0xff)
	}
	return nil
}

func failedCode(e *hub.ExecError) int {
	switch e.Kind {
	case proto.ExecGone:
		return cli.Unreachable
	case proto.ExecRefused:
		return cli.Refused
	}
	return exitCannot
}

// An output passes bytes on, or whole lines prefixed with the node's name.
type output struct {
	job  *job
	file *os.File
	name string
	part bytes.Buffer // the beginning of a line
}

const lineMax = 64 << 10

func (j *job) newOutput(file *os.File, name string) *output {
	return &output{job: j, file: file, name: cli.CleanText(name)}
}

func (o *output) Write(b []byte) (int, error) {
	o.job.lock.Lock()
	defer o.job.lock.Unlock()
	if !o.job.many {
		return o.file.Write(b)
	}
	o.part.Write(b)
	for {
		at := bytes.IndexByte(o.part.Bytes(), '\n')
		if at < 0 && o.part.Len() < lineMax {
			return len(b), nil
		}
		end := ""
		if at < 0 { // keep the rest: another node's line may be printed before its end
			at, end = lineMax-1, "\n"
		}
		if _, err := fmt.Fprintf(o.file, "%s: %s%s", o.name, o.part.Next(at+1), end); err != nil {
			return 0, err
		}
	}
}

// flush prints a last line that has no newline.
func (o *output) flush() {
	o.job.lock.Lock()
	defer o.job.lock.Unlock()
	if o.part.Len() > 0 {
		fmt.Fprintf(o.file, "%s: %s\n", o.name, o.part.Bytes())
	}
}
