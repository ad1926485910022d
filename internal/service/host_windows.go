// SPDX-License-Identifier: MIT

package service

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
)

// A Host runs a program as a service of Windows.
type Host struct {
	Name    string
	State   string                        // folder of the service's state, where it writes how it does
	Run     func(ctx context.Context) int // the program; ctx ends when it has to stop
	Lasting func(code int) bool           // whether a restart cannot cure an exit code
}

const (
	newsFile  = "service.says"  // what the service says of itself
	crashFile = "service.crash" // what Go printed when the service died
	crashMax  = 16 << 10        // bytes of it that become an event
	lineMax   = 30 << 10        // bytes of an event; Windows takes 31,839 characters
)

// Serve runs the program for the service control manager, until that stops it.
func (h *Host) Serve() error {
	log, err := eventlog.Open(h.Name)
	if err != nil {
		return explain(err, h.Name)
	}
	defer log.Close()
	h.reportCrash(log)
	stdout, stderr := os.Stdout, os.Stderr
	done, err := divertOutput(log)
	if err != nil {
		return err
	}
	err = svc.Run(h.Name, h)
	diverted := events.Swap(nil)
	os.Stdout, os.Stderr = stdout, stderr
	diverted.Close()
	<-done
	if err != nil {
		return explain(err, h.Name)
	}
	return nil
}

// reportCrash makes an event of what Go printed when the service died last, and
// has it print there again.
func (h *Host) reportCrash(log *eventlog.Log) {
	path := filepath.Join(h.State, crashFile)
	if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
		log.Error(eventError, "the service died before:\r\n"+string(text[:min(len(text), crashMax)]))
	}
	file, err := os.Create(path)
	if err == nil {
		err = debug.SetCrashOutput(file, debug.CrashOptions{})
		file.Close()
	}
	if err != nil {
		log.Warning(eventWarning, fmt.Sprintf("what a crash prints will be lost: %v", err))
	}
}

// Numbers of our events; the message file has a text for each up to 1000.
const (
	eventInfo = iota + 1
	eventWarning
	eventError
)

// divertOutput makes events of the lines that this program prints: a service has
// no console.
func divertOutput(log *eventlog.Log) (done chan struct{}, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	os.Stdout, os.Stderr = w, w
	events.Store(w)
	done = make(chan struct{})
	go func() {
		defer close(done)
		in := bufio.NewReaderSize(r, lineMax)
		for {
			line, _, err := in.ReadLine() // a longer line becomes two events
			if err != nil {
				return
			}
			reportLine(log, string(bytes.TrimRight(line, "\r")))
		}
	}()
	return done, nil
}

// reportLine can't do anything about an error: there is no other log.
func reportLine(log *eventlog.Log, line string) {
	switch level, text := CutPriority(line); level {
	case slog.LevelError:
		log.Error(eventError, text)
	case slog.LevelWarn:
		log.Warning(eventWarning, text)
	case slog.LevelInfo:
		log.Info(eventInfo, text)
	}
}

// Progress of a stop that goes on is told to the manager so often.
const stopStep = time.Second

// Execute is called by package svc.
func (h *Host) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	const accepts = svc.AcceptStop | svc.AcceptShutdown | svc.AcceptPreShutdown
	status <- svc.Status{State: svc.StartPending, WaitHint: uint32(time.Minute / time.Millisecond)}
	ready := make(chan struct{}, 1)
	ctx, stop := context.WithCancel(WithNotifier(context.Background(), &newsWriter{h.State, ready}))
	defer stop()
	ended := make(chan int, 1)
	go func() { ended <- h.Run(ctx) }()
	stopping := svc.Status{State: svc.StopPending, WaitHint: uint32(10 * stopStep / time.Millisecond)}
	var tick <-chan time.Time
	for {
		select {
		case <-ready:
			if ctx.Err() == nil {
				status <- svc.Status{State: svc.Running, Accepts: accepts}
			}
		case <-tick:
			stopping.CheckPoint++
			status <- stopping
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown, svc.PreShutdown:
				stop()
				status <- stopping
				tick = time.Tick(stopStep)
			}
		case code := <-ended:
			noteEnd(h.State, code)
			return h.exitCode(code)
		}
	}
}

// exitCode is what the manager gets: one that is not 0 has it start the service
// again, which does not cure a wrong option.
func (h *Host) exitCode(code int) (specific bool, number uint32) {
	if code == 0 || h.Lasting(code) {
		return false, 0
	}
	return true, uint32(code)
}

// A newsWriter keeps what a service says of itself in a file of its state.
type newsWriter struct {
	state string
	ready chan<- struct{}
}

func (n *newsWriter) Write(b []byte) (int, error) {
	ready, text := ReadNews(string(b))
	if ready && n.ready != nil {
		select {
		case n.ready <- struct{}{}:
		default:
		}
	}
	if text == "" {
		return len(b), nil
	}
	return len(b), os.WriteFile(filepath.Join(n.state, newsFile), []byte(text+"\n"), 0o600)
}

// noteEnd replaces what a service said while it ran.
func noteEnd(state string, code int) {
	if code == 0 {
		os.Remove(filepath.Join(state, newsFile))
		return
	}
	text := fmt.Sprintf("ended with exit code %d\n", code)
	if err := os.WriteFile(filepath.Join(state, newsFile), []byte(text), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// ReadSays is what the service of a state folder said last of itself, or empty
// where this user may not read it.
func ReadSays(state string) string {
	file, err := os.Open(filepath.Join(state, newsFile))
	if err != nil {
		return ""
	}
	defer file.Close()
	line, err := bufio.NewReader(io.LimitReader(file, 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return oneLine(string(bytes.TrimSpace([]byte(line))))
}
