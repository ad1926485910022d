// SPDX-License-Identifier: MIT

package idl

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"skep/internal/cli"
	"skep/internal/uapi"
)

// A limitKind is the notation of a limit's values.
type limitKind struct {
	want  string
	parse func(string) (uint64, bool)
	show  func(uint64) string
}

var (
	sizeLimit  = limitKind{"a size such as 512M or 2G", parseSize, showNumber}
	timeLimit  = limitKind{"a time such as 30s, 10m or 2h", parseTime, showTime}
	countLimit = limitKind{"a number above 0", parseCount, showNumber}
)

// limits have the names of the options of skep run.
var limits = []struct {
	name string
	kind limitKind
	of   func(*uapi.Limits) *uint64
}{
	{"memory", sizeLimit, func(l *uapi.Limits) *uint64 { return &l.Memory }},
	{"disk", sizeLimit, func(l *uapi.Limits) *uint64 { return &l.Disk }},
	{"processes", countLimit, func(l *uapi.Limits) *uint64 { return &l.Processes }},
	{"cpu-time", timeLimit, func(l *uapi.Limits) *uint64 { return &l.CPU }},
	{"wall-time", timeLimit, func(l *uapi.Limits) *uint64 { return &l.Wall }},
}

// setLimits sets the limits of a worker from text such as "memory=2G cpu-time=10m".
func (p *parser) setLimits(m *Module, t token) {
	for word := range strings.FieldsSeq(t.text) {
		p.setLimit(m, t, word)
	}
}

func (p *parser) setLimit(m *Module, t token, word string) {
	name, value, _ := strings.Cut(word, "=")
	for _, l := range limits {
		if l.name != name {
			continue
		}
		to := l.of(&m.limits)
		switch n, ok := l.kind.parse(value); {
		case !ok:
			p.problemf(t.at, "%q: %s is %s", word, name, l.kind.want)
		case *to != 0 && *to != n:
			p.problemf(t.at, "%s was limited before: one program is made of the whole file", name)
		default:
			*to = n
		}
		return
	}
	p.problemf(t.at, "there is no limit %q: write memory, disk, cpu-time, wall-time or processes, as in \"memory=2G cpu-time=10m\"", name)
}

// dumpLimits returns limits as text for setLimits.
func dumpLimits(of uapi.Limits) string {
	var list []string
	for _, l := range limits {
		if n := *l.of(&of); n > 0 {
			list = append(list, l.name+"="+l.kind.show(n))
		}
	}
	return strings.Join(list, " ")
}

func parseSize(s string) (uint64, bool) {
	n, err := cli.ParseBytes(s)
	return n, err == nil && n > 0
}

func parseCount(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return n, err == nil && n > 0
}

// parseTime returns milliseconds.
func parseTime(s string) (uint64, bool) {
	d, err := time.ParseDuration(s)
	ms := uint64(d / time.Millisecond)
	return ms, err == nil && d >= time.Millisecond && ms <= uapi.LimitTimeMax
}

func showNumber(n uint64) string { return strconv.FormatUint(n, 10) }

func showTime(ms uint64) string { return fmt.Sprint(time.Duration(ms) * time.Millisecond) }
