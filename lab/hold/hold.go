// SPDX-License-Identifier: MIT

//go:build linux

// Package hold keeps the machines of users. Each belongs to a holder, a process in a
// session of its own, so that no terminal can end it. Clients reach the guest through the
// holder's socket.
//
//	client ── unix socket ──> holder ── virtio-serial ──> guest
//	       a request, an answer, then the bytes of one stream of the guest
//
// The files of a holder are in build/lab/.hold/NAME: the socket, and a lock that it holds
// as long as it lives. If the lock is free, the machine is dead, whatever other files
// exist. A process that creates, checks or removes such a folder holds the lock of
// build/lab/.hold meanwhile.
package hold

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"skep/internal/atomicfile"
	"skep/lab"
)

// A State is the state of a user's machine.
type State string

// States. The holder of a silent machine is alive but does not answer.
const (
	Waiting State = "waiting" // for another machine to boot
	Booting State = "booting"
	Up      State = "up"
	Ending  State = "ending"
	Silent  State = "silent"
	Dead    State = "dead"
)

// Info describes a machine to its users.
type Info struct {
	Name    string    `json:"name"`
	Kernel  string    `json:"kernel"`
	Release string    `json:"release,omitempty"`
	CPUs    int       `json:"cpus"`
	Memory  int       `json:"memory"` // MiB
	Nodes   int       `json:"nodes"`
	Since   time.Time `json:"since"`
	Boot    float64   `json:"boot"` // seconds until it was up
	State   State     `json:"state"`
	Cause   string    `json:"cause,omitempty"` // of its death
	Dir     string    `json:"dir"`             // console.log and out/ are there
}

// Console returns the path of the file with all messages of the guest's kernel.
func (i *Info) Console() string { return filepath.Join(i.Dir, "console.log") }

// Out returns the path of the guest's /out.
func (i *Info) Out() string { return filepath.Join(i.Dir, "out") }

// Death returns a sentence about the machine's end.
func (i *Info) Death() string {
	text := fmt.Sprintf("the machine %s died: %s", i.Name, i.Cause)
	if _, err := os.Stat(i.Console()); err == nil {
		text += "; its console is " + i.Console()
	}
	return text
}

// An order is the first message to a holder. If one byte follows it, the machine stays
// after the client's end; otherwise it ends with the client.
type order struct {
	Build   string
	Machine lab.Machine
}

const keep = 'k'

type op string

const (
	opInfo   op = "info"
	opStream op = "stream" // the bytes after the answer are a guest's stream
	opDown   op = "down"   // answered when the machine is gone
)

type ask struct{ Op op }

// An answer is the reply to a request or an order. Answers that only report progress may
// precede the last one.
type answer struct {
	Progress State
	Error    string
	Info     *Info
}

// Names in a machine's folder.
const (
	lockName   = "lock"
	socketName = "socket"
	infoName   = "info" // its Info, used when the holder no longer answers
	logName    = "log"  // the holder's own errors
)

// Names beside the machines' folders. No machine's name begins with a dot.
const (
	rootLock = ".lock"
	bootLock = ".boot" // lock held while a machine boots
)

func rootDir(build string) string { return filepath.Join(build, "lab", ".hold") }

// recordsDir returns the folder of the machine's console.log and out.
func recordsDir(build, name string) string { return filepath.Join(build, "lab", name) }

func machineDir(build, name string) string { return filepath.Join(rootDir(build), name) }

// claimDir creates the folder of a machine and locks it.
func claimDir(build, name string) (*os.File, error) {
	var lock *os.File
	err := withLock(build, func() error {
		dir := machineDir(build, name)
		if isAlive(dir) {
			return fmt.Errorf("a machine named %s exists already: 'skep lab shell %s' opens a shell in it, 'skep lab down %s' ends it, --name gives another name", name, name, name)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		var err error
		lock, err = waitLock(filepath.Join(dir, lockName))
		return err
	})
	return lock, err
}

// isAlive reports whether a holder has the folder's lock. It tries a shared lock, so that
// several callers at the same time do not mistake one another for the holder.
func isAlive(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// describeDead returns the Info of a machine whose holder is dead.
func describeDead(build, name string) *Info {
	dir := machineDir(build, name)
	info, err := readInfo(dir)
	if err == nil && info.State == Dead {
		return info
	}
	if err != nil { // the holder ended before it wrote the file
		info = &Info{Name: name, Dir: recordsDir(build, name)}
	}
	info.State, info.Cause = Dead, "its holder was killed"
	if text := lastLine(filepath.Join(dir, logName)); text != "" {
		info.Cause = "its holder ended: " + text
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		info.Cause = fmt.Sprintf("the record of its end can't be read: %v", err)
	}
	return info
}

// removeDead removes the folder of a dead machine and returns its Info.
func removeDead(build, name string) *Info {
	info := describeDead(build, name)
	os.RemoveAll(machineDir(build, name))
	return info
}

func readInfo(dir string) (*Info, error) {
	text, err := os.ReadFile(filepath.Join(dir, infoName))
	if err != nil {
		return nil, err
	}
	info := &Info{}
	return info, json.Unmarshal(text, info)
}

// writeInfo replaces the file atomically: the holder may be killed at any time, and the
// disk may be full.
func writeInfo(dir string, info Info) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, infoName), text, 0o600)
}
