// SPDX-License-Identifier: MIT

package service

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// Priorities of syslog(3), which the journal reads as the prefix of a line.
const (
	priorityError   = 3
	priorityWarning = 4
	priorityInfo    = 6
	priorityDebug   = 7
)

func priorityOf(level slog.Level) int {
	switch {
	case level >= slog.LevelError:
		return priorityError
	case level >= slog.LevelWarn:
		return priorityWarning
	case level >= slog.LevelInfo:
		return priorityInfo
	}
	return priorityDebug
}

// A JournalHandler writes log lines to a stream that the journal reads: priority, message,
// attributes. The journal adds time and program.
type JournalHandler struct {
	level slog.Level
	with  []func(slog.Handler) slog.Handler // attributes and groups, in order

	lock *sync.Mutex // guards out
	out  io.Writer
}

// NewJournalHandler returns a handler that drops records below the level.
func NewJournalHandler(out io.Writer, level slog.Level) *JournalHandler {
	return &JournalHandler{level: level, lock: &sync.Mutex{}, out: out}
}

// Enabled implements slog.Handler.
func (h *JournalHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle writes one line.
func (h *JournalHandler) Handle(ctx context.Context, r slog.Record) error {
	var attributes bytes.Buffer
	var inner slog.Handler = slog.NewTextHandler(&attributes, &slog.HandlerOptions{Level: h.level, ReplaceAttr: dropFixed})
	for _, add := range h.with {
		inner = add(inner)
	}
	if err := inner.Handle(ctx, r); err != nil {
		return err
	}
	line := strings.TrimRight(oneLine(r.Message)+" "+strings.TrimRight(attributes.String(), "\n"), " ")
	h.lock.Lock()
	defer h.lock.Unlock()
	_, err := fmt.Fprintf(h.out, "<%d>%s\n", priorityOf(r.Level), line)
	return err
}

// dropFixed drops attributes that the line begins with or that the journal adds.
func dropFixed(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// WithAttrs returns a handler that adds attributes to each line.
func (h *JournalHandler) WithAttrs(list []slog.Attr) slog.Handler {
	return h.extend(func(inner slog.Handler) slog.Handler { return inner.WithAttrs(list) })
}

// WithGroup returns a handler that puts later attributes into a group.
func (h *JournalHandler) WithGroup(name string) slog.Handler {
	return h.extend(func(inner slog.Handler) slog.Handler { return inner.WithGroup(name) })
}

func (h *JournalHandler) extend(add func(slog.Handler) slog.Handler) slog.Handler {
	more := *h
	more.with = append(append([]func(slog.Handler) slog.Handler(nil), h.with...), add)
	return &more
}

// Priority returns the prefix of a line that the journal reads, or an empty string for
// other streams.
func Priority(f *os.File, level slog.Level) string {
	if !IsJournal(f) {
		return ""
	}
	return fmt.Sprintf("<%d>", priorityOf(level))
}

// CutPriority takes a line of ours apart. One without a priority is information.
func CutPriority(line string) (slog.Level, string) {
	if len(line) < 3 || line[0] != '<' || line[2] != '>' {
		return slog.LevelInfo, line
	}
	switch line[1] - '0' {
	case priorityError:
		return slog.LevelError, line[3:]
	case priorityWarning:
		return slog.LevelWarn, line[3:]
	case priorityInfo:
		return slog.LevelInfo, line[3:]
	case priorityDebug:
		return slog.LevelDebug, line[3:]
	}
	return slog.LevelInfo, line
}
