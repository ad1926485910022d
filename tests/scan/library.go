// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"skep/tests/tap"
	"skep/tests/watch"
)

// The program loads libraries as dlopen does and says what is mapped at the end. libcrypto is
// left out: its text holds sentences, and one of them reads as an access through gs.
const loadLibraries = `import ctypes, sqlite3, lzma, bz2, zlib, decimal, readline, _uuid
print(open("/proc/self/maps").read())`

// scanLibraries searches the dynamic loader and the libraries of a program: what bee
// stored when it rewrote them, at the addresses where they lay.
func scanLibraries(o options, report *tap.Report, dir string, reasons tables) {
	name := "no leak in the libraries of " + filepath.Base(o.dynamic)
	if _, err := os.Stat(o.dynamic); err != nil {
		report.Skip(name, "not installed")
		return
	}
	cache := filepath.Join(dir, "libraries")
	files, err := mappedFiles(o, cache)
	if err == nil && len(files) < 5 {
		err = fmt.Errorf("only %d files with an image: %q", len(files), files)
	}
	errs := []error{err}
	var insns, sites int
	for _, file := range files {
		s, err := scanLibrary(file, cache, dir, reasons)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
		if s != nil {
			insns += s.insns
			sites += len(s.img.sites)
		}
	}
	report.Note("%d files, %d instructions, %d sites", len(files), insns, sites)
	report.Ok(name, errors.Join(errs...))
}

func storedImage(cache string, file []byte) string {
	return filepath.Join(cache, fmt.Sprintf("%x.bee", sha256.Sum256(file)))
}

// mappedFiles runs the program and returns the files that were mapped and rewritten. Each
// file that runs must have an image.
func mappedFiles(o options, cache string) ([]string, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	words := append(strings.Fields(o.bee), "--cache", cache, o.dynamic, "-c", loadLibraries)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = bareEnvironment(o)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	late, err := watch.Run(cmd, 120*time.Second)
	if code := watch.ExitCode(cmd.ProcessState); err != nil || late || code != 0 {
		return nil, fmt.Errorf("bee: exit %d, late %v, %v: %s", code, late, err, said.String())
	}
	var files []string
	for line := range strings.Lines(out.String()) {
		words := strings.Fields(line)
		if len(words) < 6 || !strings.Contains(words[1], "x") || slices.Contains(files, words[5]) {
			continue
		}
		file, err := os.ReadFile(words[5])
		if err == nil {
			_, err = os.Stat(storedImage(cache, file))
		}
		if err != nil {
			return nil, err
		}
		files = append(files, words[5])
	}
	return files, nil
}

func scanLibrary(path, cache, dir string, reasons tables) (*scan, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	stored, err := os.ReadFile(storedImage(cache, file))
	if err != nil {
		return nil, err
	}
	img, err := readImage(file, stored)
	if err != nil {
		return nil, err
	}
	s, err := scanImage(img, path, dir, reasons)
	if err != nil {
		return s, err
	}
	if len(img.sites) == 0 { // a library may have none
		if len(s.hits) > 0 {
			return s, errors.New(s.hits[0].String())
		}
		return s, nil
	}
	return s, s.checkClean(reasons, path)
}
