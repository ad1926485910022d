// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"skep/lab"
)

// questions are the intervals of tests/bench/o2g/receiver.c, and the number of messages by
// which each part's count is divided.
var questions = []struct {
	number, messages int
	name             string
}{
	{1, 1, "one, posted"},
	{2, 1, "one, unexpected"},
	{3, 1, "posting a receive"},
	{4, 32, "32 at once, posted"},
	{5, 32, "32 at once, unexpected"},
	{6, 64, "a read that finds nothing"},
}

// ticksInterval is an interval of loops without system calls, so that all kernel
// instructions in it are interrupts.
const ticksInterval = 0

// receiverMessages keeps a run in the emulator below a minute.
const receiverMessages = 200

var fabricProviders = []string{"o2g", "tcp"}

// o2gInstructions counts the work of a receiver per message with 2 and with 1,000
// connections: instructions in a guest, and system calls in the guest and on this computer.
func (b *bench) o2gInstructions() error {
	sizes, err := socketsAsked()
	if err != nil {
		return err
	}
	if err := b.countNative(sizes); err != nil {
		return err
	}
	unlock, err := b.onlyMachine()
	if err != nil {
		return err
	}
	defer unlock()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Minute)
	defer stop()
	g, err := lab.Start(ctx, lab.Machine{Name: "bench-o2g", Kernel: "6.1", Memory: 4096, Build: b.build, Count: &lab.Count{}})
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.Dir())
	defer g.Kill()
	symbols, err := guestSymbols(ctx, g)
	if err != nil {
		return err
	}
	fmt.Println()
	fmt.Printf("in a guest with Debian's %s, QEMU without KVM, counted by its plugin; 8 bytes, %d messages a question\n", g.Hello().Release, receiverMessages)
	fmt.Printf("%-8s %-6s %-26s %9s %9s %9s %9s\n", "sockets", "", "per message", "user", "kernel", "calls", "faults")
	before := lab.Counts{Figures: map[lab.Interval]*lab.Figures{}}
	for _, n := range sizes {
		for _, provider := range fabricProviders {
			if err := b.inGuest(ctx, g, provider, n); err != nil {
				fmt.Printf("%-8d %-6s %v\n", n, provider, err)
				continue
			}
			after, err := lab.ReadCounts(filepath.Join(g.Dir(), "counts"))
			if err != nil {
				return err
			}
			if err := b.countRows(n, provider, symbols, before, after); err != nil {
				return err
			}
			before = after
		}
	}
	return nil
}

// socketsAsked returns the numbers of connections: those on the command line, else 2 and
// 1,000.
func socketsAsked() ([]int, error) {
	if flag.NArg() < 2 {
		return []int{2, 1000}, nil
	}
	var sizes []int
	for _, word := range flag.Args()[1:] {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no number of sockets", word)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// onlyMachine waits for the lock of VM tests.
func (b *bench) onlyMachine() (func(), error) {
	path := filepath.Join(b.build, "lab", ".lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(30 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("%s is taken: wait for the test that has a machine, or end it", path)
		}
	}
}

func guestSymbols(ctx context.Context, g *lab.Guest) (lab.Symbols, error) {
	var out bytes.Buffer
	_, err := g.Run(ctx, lab.Program{Args: []string{"/bin/cat", "/proc/kallsyms"}}, lab.Streams{Out: &out})
	if err != nil {
		return lab.Symbols{}, err
	}
	return lab.ReadSymbols(&out)
}

func (b *bench) receiverCommand(provider string, senders int, options ...string) (args, env []string) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	args = append([]string{filepath.Join(b.build, "bench", "o2g", "receiver")}, options...)
	args = append(args, provider, strconv.Itoa(senders), strconv.Itoa(receiverMessages))
	env = []string{
		"FI_PROVIDER_PATH=" + filepath.Join(b.build, "lib"),
		"LD_LIBRARY_PATH=" + filepath.Join(b.prefixMPI, "lib", "mpich"), // its libfabric
		"SKEP_O2G_SECRET=" + hex.EncodeToString(secret), "SKEP_O2G_IFACE=lo",
	}
	return args, env
}

func (b *bench) inGuest(ctx context.Context, g *lab.Guest, provider string, senders int) error {
	args, env := b.receiverCommand(provider, senders, "-r")
	ctx, stop := context.WithTimeout(ctx, 8*time.Minute)
	defer stop()
	var said bytes.Buffer
	status, err := g.Run(ctx, lab.Program{Args: args, Env: env}, lab.Streams{Out: &said, Err: &said})
	if err == nil && status != 0 {
		err = fmt.Errorf("status %d: %s", status, strings.TrimSpace(said.String()))
	}
	fmt.Fprint(os.Stderr, said.String())
	return err
}

// sumOf returns the figures of an interval on all processors, minus an earlier count.
func sumOf(number int, before, after lab.Counts) (lab.Figures, error) {
	f, err := after.Of(number)
	if err != nil {
		return f, err
	}
	old, err := before.Of(number)
	if err != nil { // none yet
		return f, nil
	}
	f.Times -= old.Times
	f.User -= old.User
	f.Kernel -= old.Kernel
	for at, n := range old.Entry {
		f.Entry[at] -= n
	}
	return f, nil
}

func (b *bench) countRows(sockets int, provider string, symbols lab.Symbols, before, after lab.Counts) error {
	call, err := symbols.Address("entry_SYSCALL_64")
	if err != nil {
		return err
	}
	fault, err := symbols.Address("asm_exc_page_fault")
	if err != nil {
		return err
	}
	for _, q := range questions {
		f, err := sumOf(q.number, before, after)
		if err != nil {
			return err
		}
		if f.Times == 0 {
			return fmt.Errorf("%s: interval %d was never begun", provider, q.number)
		}
		per := func(n uint64) float64 { return float64(n) / float64(f.Times) / float64(q.messages) }
		fmt.Printf("%-8d %-6s %-26s %9.0f %9.0f %9.2f %9.2f\n", sockets, provider, q.name,
			per(f.User), per(f.Kernel), per(f.Entry[call]), per(f.Entry[fault]))
		b.writeRecord("result o2g_instructions %d-sockets %s %s %.0f instructions", sockets, provider,
			strings.ReplaceAll(strings.ReplaceAll(q.name, ",", ""), " ", "-"), per(f.User)+per(f.Kernel))
	}
	f, err := sumOf(ticksInterval, before, after)
	if err == nil && f.User > 0 {
		fmt.Printf("%-8d %-6s interrupts alone add %.1f %%\n", sockets, provider, 100*float64(f.Kernel)/float64(f.User))
	}
	return err
}

// countNative counts system calls on this computer's kernel by strace, which traces only the
// receiver's main thread.
func (b *bench) countNative(sizes []int) error {
	strace, err := exec.LookPath("strace")
	if err != nil {
		fmt.Println("strace is missing: no system calls counted on this computer")
		return nil
	}
	fmt.Println()
	fmt.Printf("on this computer, system calls of the receiver's main thread by strace\n")
	fmt.Printf("%-8s %-6s %-26s %9s  %s\n", "sockets", "", "per message", "calls", "which")
	for _, n := range sizes {
		for _, provider := range fabricProviders {
			log := filepath.Join(b.work, "strace."+provider)
			args, env := b.receiverCommand(provider, n, "-c")
			ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
			cmd := exec.CommandContext(ctx, strace, append([]string{"-o", log}, args...)...)
			cmd.Env = append(os.Environ(), env...)
			cmd.WaitDelay = 5 * time.Second
			said, err := cmd.CombinedOutput()
			stop()
			if err != nil {
				fmt.Printf("%-8d %-6s %v: %s\n", n, provider, err, bytes.TrimSpace(said))
				continue
			}
			text, err := os.ReadFile(log)
			if err != nil {
				return err
			}
			callRows(n, provider, string(text))
		}
	}
	return nil
}

// callRows reads a log of strace, in which close(-1000-N) begins interval N
// and close(-2000-N) ends it.
func callRows(sockets int, provider, log string) {
	times := map[int]int{}
	calls := map[int]map[string]int{}
	inside := -1
	for line := range strings.Lines(log) {
		name, rest, ok := strings.Cut(line, "(")
		if !ok {
			continue
		}
		var mark int
		if _, err := fmt.Sscanf(rest, "-%d)", &mark); name == "close" && err == nil && mark >= 1000 {
			inside = -1
			if mark < 2000 {
				inside = mark - 1000
				times[inside]++
			}
			continue
		}
		if inside >= 0 {
			if calls[inside] == nil {
				calls[inside] = map[string]int{}
			}
			calls[inside][name]++
		}
	}
	for _, q := range questions {
		total, which := 0, ""
		for _, name := range []string{"epoll_wait", "recvfrom", "readv", "sendmsg", "sendto", "poll", "ppoll", "write", "futex"} {
			if n := calls[q.number][name]; n > 0 {
				which += fmt.Sprintf(" %s %.2f", name, float64(n)/float64(times[q.number]*q.messages))
			}
		}
		for _, n := range calls[q.number] {
			total += n
		}
		fmt.Printf("%-8d %-6s %-26s %9.2f %s\n", sockets, provider, q.name,
			float64(total)/float64(max(1, times[q.number])*q.messages), which)
	}
}
