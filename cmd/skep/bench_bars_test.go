// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/internal/report"
)

// A plantedKit is a kit of scripts, whose bee runs them with BEE set and notes it.
func plantedKit(t *testing.T, scripts map[string]string) *measuring {
	t.Helper()
	folder := t.TempDir()
	m := &measuring{Report: &report.Report{}, bench: bench{folder: folder}, bee: filepath.Join(folder, "bee"), work: t.TempDir()}
	scripts["../bee"] = `BEE=yes exec "$@"`
	for name, text := range scripts {
		path := filepath.Join(folder, "programs", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *measuring) figureTexts() (list []string) {
	for _, f := range m.Figures {
		text := fmt.Sprintf("%s: %s %v %s", f.Bar, f.Name, f.Value, f.Unit)
		if f.PeerValue != nil {
			text += fmt.Sprintf("; %s %v", f.Peer, *f.PeerValue)
		}
		list = append(list, text)
	}
	return list
}

// Programs of the kit are measured under bee and beside it.
func TestBarsOfTheKit(t *testing.T) {
	m := plantedKit(t, map[string]string{
		"bench/calls": `echo "get pid ${BEE:+1}5"; [ -z "$BEE" ] || echo "alone 7"; echo word; echo no figure`,
		"bench/point": `[ "$*" = "--time 12 3" ] || exit 1; echo "solved in ${BEE:+1}.25"`,
		"musl/hello":  `echo run >>"${0%/*}/${BEE:-no}"; exit 3`,
	})
	for _, measure := range []func() error{
		func() error { return measureCalls(t.Context(), m) },
		func() error { return measureEigen(t.Context(), m) },
		func() error { return measureStart(t.Context(), m) },
	} {
		if err := measure(); err != nil {
			t.Fatal(err)
		}
	}
	start := m.Figures[len(m.Figures)-1]
	if start.Value <= 0 || start.PeerValue == nil || *start.PeerValue <= 0 || start.Peer != "Linux itself" || start.Bar != "start" {
		t.Errorf("%+v", start)
	}
	m.Figures = m.Figures[:len(m.Figures)-1]
	want := []string{"calls: get pid 15 ns; Linux itself 5", "calls: alone 7 ns", "eigen: one solve 1250 ms; Linux itself 250"}
	if got := m.figureTexts(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, side := range []string{"yes", "no"} {
		if text, err := os.ReadFile(filepath.Join(m.folder, "programs/musl", side)); err != nil || strings.Count(string(text), "run\n") != 9 {
			t.Errorf("under bee, %s: %q, %v", side, text, err)
		}
	}
}

// A program that prints nothing, fails, or is not there gives no figure.
func TestBarsThatFail(t *testing.T) {
	m := plantedKit(t, map[string]string{"bench/point": `echo`, "bench/calls": `[ -n "$BEE" ] || { echo broken >&2; exit 4; }`})
	if err := measureEigen(t.Context(), m); err == nil || !strings.Contains(err.Error(), "the solver printed") {
		t.Error(err)
	}
	if err := measureCalls(t.Context(), m); err == nil || !strings.Contains(err.Error(), "exit status 4") || !slices.Contains(m.Log, "calls: exit status 4: broken") {
		t.Errorf("%v, %q", err, m.Log)
	}
	m.folder = t.TempDir()
	for _, bar := range listBars() {
		if bar.name == "join" { // it needs no kit
			continue
		}
		var unshown unshownError
		if err := bar.measure(t.Context(), m); !errors.As(err, &unshown) {
			t.Errorf("%s: %v", bar.name, err)
		}
	}
	if len(m.Figures) != 0 {
		t.Errorf("%q", m.figureTexts())
	}
}

// Each case of the kit's table is run, and those that pass are counted.
func TestBarOfPrograms(t *testing.T) {
	m := plantedKit(t, map[string]string{"good": "echo good", "bad": "echo bad"})
	bee := `while [ "$1" != --nonce ]; do shift; done; nonce=$2; shift 2; [ "$1" = --report ] || exit 9
{ echo nonce $nonce; echo sha256_file $(sha256sum "$3" | cut -c1-64); echo calls 3; } >"$2"; shift 2; exec "$@"`
	for name, text := range map[string]string{"bee": "#!/bin/sh\n" + bee + "\n", "kit.tbl": "# name program\n\nshort\na good\nb bad\nc good\n",
		"expected/a.out": "good\n", "expected/a.code": "0\n", "expected/b.out": "good\n", "expected/b.code": "0\n", "expected/c.out": "good\n", "expected/c.code": "0\n"} {
		path := filepath.Join(m.folder, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := measurePrograms(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := m.figureTexts(); len(got) != 1 || got[0] != "programs: same output as on Linux 2 programs; in the kit 3" {
		t.Errorf("%q, %q", got, m.Log)
	}
	if !strings.HasPrefix(strings.Join(m.Log, "\n"), "b: exit code 0, wanted 0") {
		t.Errorf("%q", m.Log)
	}
}
