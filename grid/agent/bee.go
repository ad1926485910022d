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

	"skep/grid/proto"
	"skep/internal/uapi"
)

// A beeLoader is the path of bee, which runs programs; empty if the kernel runs them.
// On Windows it is never empty.
type beeLoader string

func (b beeLoader) isSet() bool { return b != "" }

func (a *Agent) substrate() uapi.Substrate {
	switch {
	case !a.bee.isSet():
		return uapi.SubstrateLinux
	case systemIsWindows:
		return uapi.SubstrateBeeWindows
	}
	return uapi.SubstrateBeeLinux
}

// programOptions has the differences between a worker and a program of exec.
type programOptions struct {
	root   string // of the user's area
	dir    string
	memory uint64
	report string
	name   string
	args   []string
	env    []string
	nonce  *uint64  // set if bee runs the program
	files  []string // of the agent, which the program reads
	limits proto.Limits
	stream bool // a worker has one
}

const (
	guestPATH   = "PATH=/usr/local/bin:/usr/bin:/bin"
	lowestBytes = 16 << 20 // --memory below this starts nothing
)

// command returns the command that starts a cached program on this substrate.
func (a *Agent) command(path, digest string, o programOptions) (*command, error) {
	tmp, err := guestPath(o.root, o.dir)
	if err != nil {
		return nil, failf(proto.ReasonNode, uapi.EInternal, "%v", err)
	}
	env := append([]string{guestPATH, "TMPDIR=" + tmp}, o.env...)
	l := a.limitsFor(o.limits)
	if a.bee.isSet() {
		o.memory, l.Memory = l.Memory, 0 // bee measures it
		if err := checkCached(digest, path); err != nil {
			return nil, err
		}
		*o.nonce = newNonce()
		if err := a.makeReport(o.report); err != nil {
			return nil, failf(proto.ReasonNode, uapi.EInternal, "no file can be made for bee's report: %v", err)
		}
		return &command{path: string(a.bee), dir: o.dir, env: os.Environ(), args: a.beeArgs(path, o, env),
			bounds: a.boundsFor([]string{o.dir, o.report}, append(o.files, string(a.bee), path)), limits: l}, nil
	}
	program, err := a.programs.get(digest, path)
	if err != nil {
		return nil, err
	}
	return &command{program: program, dir: o.dir, env: env, args: append([]string{o.name}, o.args...),
		bounds: a.boundsFor([]string{o.dir}, o.files), limits: l}, nil
}

func (a *Agent) beeArgs(path string, o programOptions, env []string) []string {
	args := []string{string(a.bee), "--idle", "--clean-env",
		"--report", o.report, "--nonce", fmt.Sprintf("%016x", *o.nonce)}
	for _, v := range env {
		args = append(args, "--env", v)
	}
	if systemIsWindows { // the guest sees this folder and nothing else
		args = append(args, "--root", o.root)
	}
	if o.memory > 0 {
		args = append(args, "--memory", strconv.FormatUint(max(o.memory, lowestBytes), 10))
	}
	if o.stream {
		args = append(args, "--stream", streamNumber)
	}
	if o.name != "" {
		args = append(args, "--name", o.name)
	}
	return append(append(args, path), o.args...)
}

// A report is bee's report about a start.
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

// memories holds sealed copies of blobs that workers get from this process and
// not by a name, one per digest while a worker starts with it: other programs
// of the same user may write to the cache. mu guards all.
type memories struct {
	fits func(io.ReaderAt) error // nil: any content is good

	mu   sync.Mutex
	open map[string]*sealedBlob
}

type sealedBlob struct {
	file  *os.File
	users int
}

// get returns the blob with this digest, checked; put gives it back.
func (m *memories) get(digest, path string) (*os.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.open[digest]; o != nil {
		o.users++
		return o.file, nil
	}
	f, err := sealChecked(digest, path)
	if err != nil {
		return nil, err
	}
	if m.fits != nil {
		if err := m.fits(f); err != nil {
			f.Close()
			return nil, failf(proto.ReasonError, uapi.EBadModule, "the program cannot run here: %v", err)
		}
	}
	if m.open == nil {
		m.open = map[string]*sealedBlob{}
	}
	m.open[digest] = &sealedBlob{f, 1}
	return f, nil
}

func (m *memories) put(digest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.open[digest]; o != nil {
		if o.users--; o.users == 0 {
			o.file.Close()
			delete(m.open, digest)
		}
	}
}

// sealChecked copies a blob to sealed memory and digests the copy.
func sealChecked(digest, path string) (*os.File, error) {
	from, err := openCached(path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	sum := sha256.New()
	f, err := sealProgram(io.TeeReader(from, sum), "skep")
	if err != nil {
		return nil, failf(proto.ReasonNode, uapi.EInternal, "%v", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		f.Close()
		return nil, blobChanged(digest)
	}
	return f, nil
}

// checkCached digests a blob that bee reads by its name. bee's report and the worker later
// prove what was read; this check comes early enough to fetch the blob again.
func checkCached(digest, path string) error {
	f, err := openCached(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return failf(proto.ReasonNode, uapi.EInternal, "the cache cannot be read: %v", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return blobChanged(digest)
	}
	return nil
}

func openCached(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, failf(proto.ReasonNode, uapi.EInternal, "a blob is not in the cache: %v", err)
	}
	return f, nil
}

// blobChanged returns the failure for a blob whose file another process changed.
func blobChanged(digest string) *failure {
	f := failf(proto.ReasonNode, uapi.EInternal, "blob %.12s in the node's cache was changed by another program", digest)
	f.changed = digest
	return f
}
