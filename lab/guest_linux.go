// SPDX-License-Identifier: MIT

// A Guest owns its folder, the folder's lock and the running QEMU. The mutex guards the
// fields vm, end, cause and hello.

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"skep/internal/load"
	"skep/lab/wire"
)

// A Guest is a machine that has been started.
type Guest struct {
	machine Machine
	kernel  *Kernel
	lock    *os.File
	accel   string // tcg or kvm; set when it is booted
	// Files that QEMU has open: the initramfs, then the disks. Their names are already
	// removed from the folder, so that none remains however this process ends.
	files []*os.File
	done  chan struct{}

	mu    sync.Mutex
	vm    *vm
	hello wire.Hello
	end   ending
	cause error
}

// An ending is the expected end of the running QEMU.
type ending int

const (
	unwanted ending = iota
	turningOff
	restarting
	panicking
)

// ErrKilled is the cause of the end after Kill.
var ErrKilled = errors.New("it was killed")

// Start checks m, boots it, and returns when it is up: modules are loaded, and swap, nodes
// and the wire are set up. It takes at most two minutes, longer under load.
func Start(ctx context.Context, m Machine) (*Guest, error) {
	m, err := m.withDefaults()
	if err != nil {
		return nil, err
	}
	k, err := FindKernel(m.Build, m.Kernel)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		g, err := startOnce(ctx, m, k)
		if err == nil {
			return g, nil
		}
		if try == bootTries || !g.staleText() {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "lab: %v: the emulator ran text that the kernel had changed; booting it again\n", err)
	}
}

// startOnce boots a machine once. If the boot fails, it returns the ended guest with the
// error.
func startOnce(ctx context.Context, m Machine, k *Kernel) (*Guest, error) {
	g := &Guest{machine: m, kernel: k, done: make(chan struct{})}
	if err := g.prepareDir(); err != nil {
		if g.lock != nil {
			os.RemoveAll(g.Dir())
		}
		g.releaseAll()
		return nil, fmt.Errorf("machine %q: %w", m.Name, err)
	}
	if err := g.startQEMU(ctx); err != nil {
		if console := filepath.Join(g.Dir(), consoleFile); size(console) > 0 {
			err = fmt.Errorf("%w; its console is %s", err, console)
		} else if lock, failed := claimDir(g.Dir()); failed == nil { // empties the folder too
			os.Remove(g.Dir())
			lock.Close()
		}
		return g, fmt.Errorf("machine %q: %w", m.Name, err)
	}
	return g, nil
}

// prepareDir creates the folder and all files that QEMU opens.
func (g *Guest) prepareDir() error {
	m := &g.machine
	dir := m.dir()
	var err error
	if g.lock, err = claimDir(dir); err != nil {
		return err
	}
	if m.Wire != nil {
		if m.Wire, err = m.Wire.copy(); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, outDir), 0o755); err != nil {
		return err
	}
	for _, name := range []string{consoleFile, resultsFile, emulator} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			return err
		}
	}
	initramfs, err := g.createUnnamed()
	if err != nil {
		return err
	}
	if err := m.writeInitramfs(g.kernel, initramfs); err != nil {
		return err
	}
	for _, d := range m.Disks {
		disk, err := g.createUnnamed()
		if err == nil {
			err = disk.Truncate(int64(d.MiB) << 20)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// createUnnamed creates the next of g.files in the folder and removes its name.
func (g *Guest) createUnnamed() (*os.File, error) {
	f, err := os.CreateTemp(g.Dir(), "file")
	if err != nil {
		return nil, err
	}
	g.files = append(g.files, f)
	return f, os.Remove(f.Name())
}

// claimDir locks the folder and removes the files of an earlier run.
func claimDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: choose another name if a file of the lab has this one", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		f.Close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("%s belongs to a machine that runs: end that one, or choose another name", dir)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	// Its owner may have removed the folder while it was being opened.
	if now, err := os.Stat(dir); err != nil || !sameFile(f, now) {
		f.Close()
		return nil, fmt.Errorf("%s was removed by a machine that ended: start again", dir)
	}
	old, err := os.ReadDir(dir)
	for i := 0; err == nil && i < len(old); i++ {
		err = os.RemoveAll(filepath.Join(dir, old[i].Name()))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("the files of an earlier run: %w", err)
	}
	return f, nil
}

func sameFile(f *os.File, info os.FileInfo) bool {
	own, err := f.Stat()
	return err == nil && os.SameFile(own, info)
}

// releaseAll frees the guest's resources on this computer; its logs remain.
func (g *Guest) releaseAll() {
	for _, f := range g.files {
		f.Close()
	}
	if g.machine.Wire != nil {
		g.machine.Wire.Close()
	}
	if g.lock != nil {
		g.lock.Close()
	}
}

// Dir returns the guest's folder with console.log, results.tap, qemu.log and out. The
// caller removes it after the guest's end.
func (g *Guest) Dir() string { return g.machine.dir() }

// Machine returns the machine that was started, with defaults filled in.
func (g *Guest) Machine() Machine { return g.machine }

// Hello returns the hello of the guest's last boot.
func (g *Guest) Hello() wire.Hello {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hello
}

// Done is closed when the guest has ended for good.
func (g *Guest) Done() <-chan struct{} { return g.done }

// Err returns nil while the guest runs and after PowerOff, else the cause of its end.
func (g *Guest) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause
}

// Kill ends the guest at once, and returns when it is gone.
func (g *Guest) Kill() {
	g.fail(ErrKilled)
	<-g.done
}

// fail ends QEMU with a cause. Only the first cause is kept.
func (g *Guest) fail(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cause == nil {
		g.cause = cause
	}
	g.end = unwanted
	if g.vm != nil {
		g.vm.process.kill()
	}
}

// bootLimit is the time limit from the start to the hello on an idle computer. It is ten
// times what a boot takes, since the load during the boot cannot be known before.
const bootLimit = 2 * time.Minute

// startQEMU starts QEMU and waits for the hello. The guest has ended if it fails.
func (g *Guest) startQEMU(ctx context.Context) error {
	limit := time.Duration(float64(load.Stretch(bootLimit)) * g.machine.slowFactor())
	timed, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no hello within %v", limit.Round(time.Second)))
	defer cancel()
	v, err := g.startVM(timed)
	if err != nil {
		g.setEnded(err)
		return err
	}
	g.mu.Lock()
	g.vm, g.end = v, unwanted
	killed := g.cause != nil
	g.mu.Unlock()
	if killed {
		v.process.kill()
	}
	go g.watchVM(v)
	hello, err := v.waitHello(timed)
	if err == nil && hello.Failure != "" {
		err = fmt.Errorf("the guest could not %s", hello.Failure)
	}
	if err != nil {
		g.settleEnd(v, err)
		<-g.done
		return g.Err()
	}
	g.mu.Lock()
	g.hello = hello
	g.mu.Unlock()
	return nil
}

// settleEnd ends a guest whose channel failed with err. If QEMU ends by itself meanwhile,
// the cause of that end is reported instead.
func (g *Guest) settleEnd(v *vm, err error) {
	if !errors.Is(err, errChannel) {
		g.fail(err)
		return
	}
	timer := time.NewTimer(load.Stretch(5 * time.Second))
	defer timer.Stop()
	select {
	case <-v.process.done:
	case <-timer.C:
		g.fail(err)
	}
}

// watchVM watches one QEMU until its end.
func (g *Guest) watchVM(v *vm) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	broken := v.session.CloseChan()
	for {
		select {
		case <-v.process.done:
			g.judgeEnd(v)
			return
		case <-broken:
			broken = nil
			go g.settleEnd(v, v.channelError())
		case <-tick.C:
			if err := g.tooMuch(v.process.cmd.Process.Pid); err != nil {
				g.fail(err)
			}
		}
	}
}

// Limits on what a guest can write to this computer: each log, and /out.
const (
	logMax      = 64 << 20
	outMax      = 2 << 30
	outFilesMax = 10000
)

func (g *Guest) tooMuch(qemu int) error {
	for _, name := range []string{consoleFile, resultsFile, emulator} {
		path := filepath.Join(g.Dir(), name)
		if info, err := os.Stat(path); err == nil && info.Size() > logMax {
			return fmt.Errorf("the guest wrote more than %d MiB to %s", logMax>>20, path)
		}
	}
	return outTooMuch(filepath.Join(g.Dir(), outDir), qemu, outMax, outFilesMax)
}

// outTooMuch returns an error if a guest's files in dir exceed a limit. It counts allocated
// blocks, so holes do not count. Files that vanish meanwhile do not count either; removed
// files count as long as QEMU has them open.
func outTooMuch(dir string, qemu int, bytesMax, filesMax int64) error {
	bytes, files := countUnlinked(dir, qemu)
	tooMuch := func() error {
		if bytes > bytesMax || files > filesMax {
			return fmt.Errorf("the guest wrote more than %d MiB or %d files to /out", bytesMax>>20, filesMax)
		}
		return nil
	}
	if err := tooMuch(); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil
		}
		if err != nil { // for example ENAMETOOLONG
			return fmt.Errorf("what the guest wrote to /out can't be looked through: %w", err)
		}
		if info, err := d.Info(); err == nil {
			bytes += allocatedBytes(info)
			files++
		}
		return tooMuch()
	})
}

func allocatedBytes(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks * 512 }

// countUnlinked counts the files of a folder that a process has open and that have
// been removed.
func countUnlinked(dir string, process int) (bytes, files int64) {
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", process))
	for _, fd := range open {
		path, err := os.Readlink(fd)
		deep := errors.Is(err, syscall.ENAMETOOLONG) // only files of the guest have such paths
		if !deep && !(strings.HasPrefix(path, dir+"/") && strings.HasSuffix(path, " (deleted)")) {
			continue
		}
		if info, err := os.Stat(fd); err == nil {
			bytes += allocatedBytes(info)
			files++
		}
	}
	return bytes, files
}

// judgeEnd decides whether the end of a QEMU was in order, and records its cause.
func (g *Guest) judgeEnd(v *vm) {
	v.session.Close()
	g.mu.Lock()
	end, cause := g.end, g.cause
	g.mu.Unlock()
	switch {
	case cause != nil:
	case end == restarting && v.process.err == nil && g.panicLine(v) == "":
		close(v.gone)
		return
	case end == panicking && v.process.err == nil && g.panicLine(v) != "":
		close(v.gone)
		return
	case end == turningOff && v.process.err == nil && g.panicLine(v) == "":
	default:
		cause = g.findCause(v)
	}
	g.setEnded(cause)
	close(v.gone)
}

func (g *Guest) setEnded(cause error) {
	g.mu.Lock()
	g.cause = cause
	g.mu.Unlock()
	g.releaseAll()
	close(g.done)
}

// PowerOff asks the guest to turn itself off and waits for its end. A guest that does not
// turn off in time is killed, and PowerOff returns an error.
func (g *Guest) PowerOff(ctx context.Context) error {
	v, err := g.requestEnd(ctx, turningOff, wire.PowerOff)
	if err != nil {
		return err
	}
	return g.waitGone(ctx, v)
}

// Reboot turns the guest off in order and boots it again with the same disks. Its memory
// is lost, and with it all files that programs wrote outside disks and /out.
func (g *Guest) Reboot(ctx context.Context) error {
	v, err := g.requestEnd(ctx, restarting, wire.Reboot)
	if v == nil {
		return err
	}
	if err != nil {
		g.fail(err)
	}
	if err := g.betweenBoots(ctx, v); err != nil {
		return err
	}
	return g.startQEMU(ctx)
}

// ExpectPanic says that this boot ends with a panic of the kernel: the guest can then boot
// again by RebootAfterPanic. Any other end is still the guest's death.
func (g *Guest) ExpectPanic() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end = panicking
}

// RebootAfterPanic waits for the panic that ExpectPanic declared, and boots the guest again
// with the same disks, as a machine with the kernel's parameter panic does by itself. A guest
// that has not panicked when ctx ends is killed.
func (g *Guest) RebootAfterPanic(ctx context.Context) error {
	g.mu.Lock()
	v, end := g.vm, g.end
	g.mu.Unlock()
	if end != panicking {
		return errors.New("no panic was declared: call ExpectPanic before it can happen")
	}
	select {
	case <-v.gone:
	case <-ctx.Done():
		g.fail(fmt.Errorf("the guest did not panic: %w", context.Cause(ctx)))
	}
	if err := g.betweenBoots(ctx, v); err != nil {
		return err
	}
	return g.startQEMU(ctx)
}

// betweenBoots waits for QEMU's end before the next boot. If the guest must not boot
// again, its end is permanent even if QEMU ended in order.
func (g *Guest) betweenBoots(ctx context.Context, v *vm) error {
	err := g.waitGone(ctx, v)
	if err == nil {
		return nil
	}
	select {
	case <-g.done:
	default: // judgeEnd left the guest for the next boot
		g.setEnded(err)
	}
	return err
}

// requestEnd asks the guest to end and records end as the expected ending. It returns the
// vm also with an error, if the request may have been sent.
func (g *Guest) requestEnd(ctx context.Context, end ending, op wire.Op) (*vm, error) {
	// A guest that hangs may not even read the request.
	defer context.AfterFunc(ctx, func() { g.fail(context.Cause(ctx)) })()
	stream, err := g.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	g.mu.Lock()
	g.end = end
	v := g.vm
	g.mu.Unlock()
	if err := wire.Write(stream, wire.Request{Op: op}); err != nil && !g.hasObeyed(v) {
		return v, g.causeOf(err)
	}
	return v, nil
}

// hasObeyed reports whether a guest ended as requested although the write of the request
// failed: it may end as soon as it has read it, before the write returns.
func (g *Guest) hasObeyed(v *vm) bool {
	timer := time.NewTimer(load.Stretch(10 * time.Second))
	defer timer.Stop()
	select {
	case <-v.gone:
		return g.Err() == nil
	case <-timer.C:
		return false
	}
}

// offLimit is how long a guest may take to turn itself off.
const offLimit = 30 * time.Second

func (g *Guest) waitGone(ctx context.Context, v *vm) error {
	limit := time.Duration(float64(load.Stretch(offLimit)) * g.machine.slowFactor())
	timed, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the guest hangs: not off within %v", limit.Round(time.Second)))
	defer cancel()
	select {
	case <-v.gone:
	case <-timed.Done():
		select {
		case <-v.gone: // it ended just in time
			return g.Err()
		default:
		}
		g.fail(context.Cause(timed))
		<-v.gone
	}
	return g.Err()
}

// Stream opens a raw stream to process 1. The caller sends a wire request on it.
func (g *Guest) Stream(ctx context.Context) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	g.mu.Lock()
	v := g.vm
	g.mu.Unlock()
	stream, err := v.session.Open()
	if err != nil {
		return nil, g.causeOf(err)
	}
	return stream, nil
}

// causeOf returns the cause of the guest's end if it ends within a moment, else err.
func (g *Guest) causeOf(err error) error {
	timer := time.NewTimer(load.Stretch(10 * time.Second))
	defer timer.Stop()
	select {
	case <-g.done:
	case <-timer.C:
		return err
	}
	if cause := g.Err(); cause != nil {
		return &DeadError{Name: g.machine.Name, Cause: cause}
	}
	return &DeadError{Name: g.machine.Name, Cause: errors.New("it was turned off")}
}

// A DeadError is what a call to a guest returns when the guest has ended.
type DeadError struct {
	Name  string
	Cause error
}

func (e *DeadError) Error() string { return fmt.Sprintf("machine %q is dead: %v", e.Name, e.Cause) }

func (e *DeadError) Unwrap() error { return e.Cause }

// Run runs p and returns its exit status, or 128 plus the signal's number if a signal
// ended it. If ctx ends, the program and all processes that it started are killed.
func (g *Guest) Run(ctx context.Context, p Program, s Streams) (int, error) {
	stream, err := g.Stream(ctx)
	if err != nil {
		return 0, err
	}
	status, err := RunProgram(ctx, stream, p, s)
	var runErr *RunError
	switch {
	case err == nil, errors.As(err, &runErr), errors.Is(err, ErrOutput):
		return status, err
	case errors.Is(err, errUnanswered):
		g.fail(fmt.Errorf("the guest hangs: %w", err))
		<-g.done
		return 0, &DeadError{Name: g.machine.Name, Cause: g.Err()}
	case ctx.Err() != nil:
		return 0, err
	case errors.Is(err, errNonsense):
		g.fail(err)
	}
	return 0, g.causeOf(err)
}

// socketPair returns our end as a connection and QEMU's as a file.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}
