// SPDX-License-Identifier: MIT

package service

import (
	"context"
	"os"
	"sync"
	"time"
)

// Supervise runs a program again each time it ended by itself, as systemd would:
// later after each time. It gives the program's code when ctx ends, or where a
// restart does not cure that code.
func Supervise(ctx context.Context, run func(restarts int) int, lasting func(code int) bool) int {
	for failures, restarts := 0, 0; ; restarts++ {
		began := time.Now()
		code := run(restarts)
		if lasting(code) || ctx.Err() != nil {
			return code
		}
		if time.Since(began) > RecoveryReset {
			failures = 0
		}
		wait := time.NewTimer(RecoveryDelays[min(failures, len(RecoveryDelays)-1)])
		failures++
		select {
		case <-ctx.Done():
			wait.Stop()
			return code
		case <-wait.C:
		}
	}
}

// A LogFile keeps the last lines of a program that has no console: the file and
// one older, each of at most Limit bytes.
type LogFile struct {
	Path  string
	Limit int64

	lock sync.Mutex // guards file and size
	file *os.File
	size int64
}

// Write appends to the file, and begins a new one where it would grow too long.
func (l *LogFile) Write(b []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if err := l.open(); err != nil {
		return 0, err
	}
	if l.size > 0 && l.size+int64(len(b)) > l.Limit {
		l.file.Close()
		l.file = nil
		if err := os.Rename(l.Path, l.Path+".old"); err != nil {
			return 0, err
		}
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(b)
	l.size += int64(n)
	return n, err
}

func (l *LogFile) open() error {
	if l.file != nil {
		return nil
	}
	file, err := os.OpenFile(l.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Close closes the file, which the next Write opens again.
func (l *LogFile) Close() error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
