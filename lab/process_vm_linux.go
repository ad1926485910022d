// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"skep/internal/load"
	"skep/lab/wire"
)

// A vm is one QEMU and the channel to its process 1.
type vm struct {
	process *process
	session *yamux.Session
	said    *lastLine // the first error of the channel
	gone    chan struct{}
	console int64 // where this boot begins in console.log
}

// errChannel marks errors for which the end of QEMU may be a better explanation.
var errChannel = errors.New("the control channel broke")

// startVM starts QEMU on the guest's folder.
func (g *Guest) startVM(ctx context.Context) (*vm, error) {
	m := &g.machine
	qemu, err := findQEMU()
	if err != nil {
		return nil, err
	}
	image, err := m.plainImage(g.kernel)
	if err != nil {
		return nil, err
	}
	accel, err := m.chooseAccel(ctx, qemu, image)
	if err != nil {
		return nil, err
	}
	g.accel = accel
	h := hardware{accel: accel, image: image, mapping: mapOwners(filepath.Join(g.Dir(), outDir)), scale: load.Scale(),
		processors: runtime.NumCPU()}
	log, err := os.OpenFile(filepath.Join(g.Dir(), emulator), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	conn, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	args, err := m.qemuArgs(h)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(qemu, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = append([]*os.File{theirs}, g.files...)
	if m.Wire != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, m.Wire.file)
	}
	v := &vm{said: &lastLine{}, gone: make(chan struct{}), console: size(filepath.Join(g.Dir(), consoleFile))}
	if v.process, err = startProcess(cmd); err != nil {
		conn.Close()
		return nil, fmt.Errorf("start %s: %w", qemu, err)
	}
	if v.session, err = yamux.Client(wire.Guard(conn), wire.Yamux(v.said)); err != nil {
		v.process.kill()
		return nil, err
	}
	return v, nil
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// waitHello waits for the guest's first message.
func (v *vm) waitHello(ctx context.Context) (wire.Hello, error) {
	var h wire.Hello
	stream, err := v.session.AcceptStreamWithContext(ctx)
	if ctx.Err() != nil {
		return h, context.Cause(ctx)
	}
	if err != nil {
		return h, v.channelError()
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.SetReadDeadline(time.Now()) })()
	switch err := wire.Read(stream, &h); {
	case ctx.Err() != nil || errors.Is(err, yamux.ErrTimeout):
		return h, fmt.Errorf("%w: half a hello", context.Cause(ctx))
	case err != nil && v.session.IsClosed():
		return h, v.channelError()
	case err != nil:
		return h, fmt.Errorf("%w in its hello: %w", errNonsense, err)
	case h.Failure == "" && !validRelease(h.Release):
		return h, fmt.Errorf("%w in its hello: it calls its kernel %q", errNonsense, cleanLine(h.Release))
	}
	return h, nil
}

// channelError returns the error with which the channel ended.
func (v *vm) channelError() error {
	if line := v.said.String(); line != "" {
		return fmt.Errorf("%w: %w: %s", errChannel, errNonsense, line)
	}
	return errChannel
}

// findCause returns the cause of an end that was not requested.
func (g *Guest) findCause(v *vm) error {
	if how := v.process.endText(); how != "" {
		if said := readTail(filepath.Join(g.Dir(), emulator), 0); said != "" {
			how += ": " + lastOf(said)
		}
		return errors.New(how)
	}
	if line := g.panicLine(v); line != "" {
		return errors.New(line)
	}
	console := readTail(filepath.Join(g.Dir(), consoleFile), v.console)
	const own = "skep-guest: "
	if at := strings.LastIndex(console, own); at >= 0 {
		line, _, _ := strings.Cut(console[at+len(own):], "\n")
		return fmt.Errorf("the guest could not %s", cleanLine(line))
	}
	return errors.New("the guest turned itself off or restarted, and nobody had asked for it")
}

// panicLine returns the kernel's panic message of this boot, or an empty string.
func (g *Guest) panicLine(v *vm) string {
	const sign = "Kernel panic - not syncing"
	console := readTail(filepath.Join(g.Dir(), consoleFile), v.console)
	at := strings.Index(console, sign)
	if at < 0 {
		return ""
	}
	line, _, _ := strings.Cut(console[at:], "\n")
	return cleanLine(line)
}

// tailMax is how much of a log's end is read for an error.
const tailMax = 256 << 10

// readTail reads the end of a file, but nothing before offset from.
func readTail(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	f.Seek(max(from, size(path)-tailMax), io.SeekStart)
	data, _ := io.ReadAll(io.LimitReader(f, tailMax))
	return string(data)
}

func lastOf(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return cleanLine(lines[len(lines)-1])
}

// A lastLine keeps the last line of the first write that is no warning.
type lastLine struct {
	mu   sync.Mutex
	line string
}

func (l *lastLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Later errors only follow from the first.
	if l.line == "" && !bytes.Contains(b, []byte("[WARN]")) {
		l.line = lastOf(string(b))
	}
	return len(b), nil
}

func (l *lastLine) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line
}
