// SPDX-License-Identifier: MIT

package agent

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"skep/internal/proto"
	"skep/internal/uapi"
)

// A beeLoader is the program that runs workers where the kernel does not: on
// Windows always. Empty: the kernel runs them.
type beeLoader string

func (b beeLoader) used() bool { return b != "" }

func (a *Agent) substrate() uapi.Substrate {
	switch {
	case !a.bee.used():
		return uapi.SubstrateLinux
	case systemIsWindows:
		return uapi.SubstrateBeeWindows
	}
	return uapi.SubstrateBeeLinux
}

// programOptions are what a worker and a program of exec differ in.
type programOptions struct {
	dir    string
	memory uint64
	report string
	name   string
	args   []string
	env    []string
	nonce  *uint64 // is set where bee runs the program
	stream bool
}

const (
	guestPATH   = "PATH=/usr/local/bin:/usr/bin:/bin"
	lowestBytes = 16 << 20 // --memory below this starts nothing
)

// command says how to start a program of the cache on this substrate.
func (a *Agent) command(path, digest string, o programOptions) (*command, error) {
	tmp, err := a.guestPath(o.dir)
	if err != nil {
		return nil, failf(proto.ReasonNode, uapi.EInternal, "%v", err)
	}
	env := append([]string{guestPATH, "TMPDIR=" + tmp}, o.env...)
	if a.bee.used() {
		*o.nonce = newNonce()
		return &command{path: string(a.bee), dir: o.dir, env: os.Environ(),
			args: a.beeArgs(path, o, env)}, nil
	}
	program, err := a.programs.get(digest, path)
	if err != nil {
		return nil, err
	}
	return &command{program: program, dir: o.dir, env: env, args: append([]string{o.name}, o.args...)}, nil
}

func (a *Agent) beeArgs(path string, o programOptions, env []string) []string {
	args := []string{string(a.bee), "--idle", "--clean-env",
		"--report", o.report, "--nonce", fmt.Sprintf("%016x", *o.nonce)}
	for _, v := range env {
		args = append(args, "--env", v)
	}
	if systemIsWindows { // the guest sees this folder and nothing else
		args = append(args, "--root", a.work)
	}
	if o.memory > 0 {
		args = append(args, "--memory", strconv.FormatUint(max(o.memory, lowestBytes), 10))
	}
	if len(o.env) > 0 && strings.HasPrefix(o.env[0], "SKEP_STREAM=") {
		args = append(args, "--stream", streamNumber)
	}
	if o.name != "" {
		args = append(args, "--name", o.name)
	}
	return append(append(args, path), o.args...)
}

// A report is what bee wrote about a start.
type report struct {
	nonce   uint64
	calls   uint64
	program string
}

func readReport(path string) (*report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, seen := &report{}, 0
	in := bufio.NewScanner(io.LimitReader(f, 64<<10))
	for in.Scan() {
		key, value, _ := strings.Cut(strings.TrimRight(in.Text(), "\r"), " ")
		switch key {
		case "nonce":
			r.nonce, err = strconv.ParseUint(value, 16, 64)
		case "calls":
			r.calls, err = strconv.ParseUint(value, 10, 64)
		case "sha256_file":
			r.program = value
		default:
			continue
		}
		if seen++; err != nil {
			return nil, err
		}
	}
	if seen < 3 {
		return nil, errors.New("it lacks nonce, calls or digest")
	}
	return r, in.Err()
}

// programs holds sealed copies of the programs that run natively, one per
// digest for as long as somebody starts it. mu guards all.
type programs struct {
	mu   sync.Mutex
	open map[string]*openProgram
}

type openProgram struct {
	file  *os.File
	users int
}

// get gives the program with this digest, checked; put gives it back.
func (p *programs) get(digest, path string) (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.open[digest]; o != nil {
		o.users++
		return o.file, nil
	}
	f, err := openChecked(digest, path)
	if err != nil {
		return nil, err
	}
	if p.open == nil {
		p.open = map[string]*openProgram{}
	}
	p.open[digest] = &openProgram{f, 1}
	return f, nil
}

func (p *programs) put(digest string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.open[digest]; o != nil {
		if o.users--; o.users == 0 {
			o.file.Close()
			delete(p.open, digest)
		}
	}
}

// openChecked copies a program to where nobody can change it, digests what it
// copied, and refuses what would not run on every substrate.
func openChecked(digest, path string) (*os.File, error) {
	from, err := os.Open(path)
	if err != nil {
		return nil, failf(proto.ReasonNode, uapi.EInternal, "the program is not in the cache: %v", err)
	}
	defer from.Close()
	sum := sha256.New()
	f, err := sealed(io.TeeReader(from, sum), "skep")
	if err != nil {
		return nil, failf(proto.ReasonNode, uapi.EInternal, "%v", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		f.Close()
		return nil, failf(proto.ReasonNode, uapi.EInternal, "the program in the cache was changed: it is not %.12s", digest)
	}
	if err := uapi.CheckStatic(f); err != nil {
		f.Close()
		return nil, failf(proto.ReasonError, uapi.EBadModule, "the program cannot run here: %v", err)
	}
	return f, nil
}
