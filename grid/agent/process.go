// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"skep/grid/proto"
)

// A command describes what to start. Where the substrate is bee, path is bee's
// own and the program is among args; natively the program is the descriptor.
type command struct {
	program *os.File // run through this descriptor; nil: by path
	path    string
	args    []string // with args[0]
	env     []string
	dir     string
	stdin   *os.File // nil: empty
	stdout  io.Writer
	stderr  io.Writer
	bounds  bounds
	limits  proto.Limits
	stream  bool     // give it a two-way stream as descriptor 3
	initial *os.File // goes with a stream: memory that it finds at initialPath
	control bool     // give it a socket for snapshots as descriptor 3, in place of the stream
	cwd     string   // as the program sees it; "": dir
	update  string   // of the kernel, in force for it; "": none
}

// initialPath is where a worker that the kernel runs finds command.initial.
const initialPath = "/proc/self/fd/4"

// A process is a started command and everything that it started itself. kill
// ends all of them and may be called at any time and more than once.
type process struct {
	stream io.ReadWriteCloser // nil when none was asked for
	pid    int
	kill   func()
	begin  func(cpu float64) // a call may take that many seconds of processors
	stop   func(on bool)     // stops all of it, or lets it go on; setPaused calls it
	paused pause
	done   chan struct{} // closed when exit is valid and output is drained
	exit   exit

	once sync.Once
}

func (p *process) finish(e exit) {
	p.once.Do(func() {
		p.exit = e
		if p.stream != nil {
			p.stream.Close()
		}
		close(p.done)
	})
}

// An exit describes how a process ended.
type exit struct {
	Code   int     `json:"code"`
	Signal int     `json:"signal,omitempty"`
	Error  string  `json:"error,omitempty"` // it could not be started, or watched
	Over   *excess `json:"over,omitempty"`  // it was ended for this
}

// drainLimit bounds the wait for the rest of the output after the end.
const drainLimit = 5 * time.Second

const signalKill = 9

// bee's own exit codes.
const (
	beeRefused  = 126
	beeNotFound = 127
	beeSignal   = 128
)

func (e exit) String() string {
	switch {
	case e.Error != "":
		return e.Error
	case e.Signal != 0:
		return fmt.Sprintf("it was ended by signal %d (%s)", e.Signal, signalName(e.Signal))
	}
	return fmt.Sprintf("it ended with exit status %d", e.Code)
}

// underBee converts bee's exit status to the guest's: bee reports signals as a shell does.
func (e exit) underBee() exit {
	if e.Error == "" && e.Signal == 0 && e.Code > beeSignal && e.Code <= beeSignal+64 {
		return exit{Code: e.Code, Signal: e.Code - beeSignal}
	}
	return e
}

// status is the exit status that a shell would report.
func (e exit) status() int {
	switch {
	case e.Error != "":
		return beeRefused
	case e.Signal != 0:
		return beeSignal + e.Signal
	}
	return e.Code
}

var signalNames = map[int]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL",
	5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1",
	11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
	24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS"}

func signalName(n int) string {
	if name := signalNames[n]; name != "" {
		return name
	}
	return "no common one"
}
