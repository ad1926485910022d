// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"skep/internal/cli"
)

// kit runs the programs of the Windows kit under bee. It compares their output with the
// output on Linux and checks bee's proof. kit.tbl has one line per case: its name, then
// program and arguments. NAME.in is the input, NAME.out the expected output, NAME.code the
// exit code.
type kit struct {
	bee    string
	folder string
}

func (k *kit) options(f *cli.Flags) {
	f.StringVar(&k.bee, "bee", "", "run programs with `FILE`, else with the one beside skep")
}

const kitTimeout = 2 * time.Minute

func (k *kit) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) != 1 {
		return f.Expectf("one folder is expected")
	}
	k.folder = words[0]
	if k.bee == "" {
		path, err := beePath()
		if err != nil {
			return err
		}
		k.bee = path
	}
	table, err := os.ReadFile(filepath.Join(k.folder, "kit.tbl"))
	if err != nil {
		return err
	}
	n, failed := 0, 0
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		n++
		verdict := "ok"
		begin := time.Now()
		why := k.runCase(ctx, fields[0], fields[1:])
		if why != nil {
			failed++
			verdict = "not ok"
		}
		fmt.Printf("%s %d - %s (%d ms)\n", verdict, n, fields[0], time.Since(begin).Milliseconds())
		if why != nil {
			fmt.Println("# " + strings.ReplaceAll(strings.TrimSpace(why.Error()), "\n", "\n# "))
		}
	}
	fmt.Printf("1..%d\n", n)
	if failed > 0 || n == 0 {
		return fmt.Errorf("%d of %d programs of the kit failed", failed, n)
	}
	return nil
}

// readExpected reads a file of a case. Only a missing input counts as an empty one.
func (k *kit) readExpected(name, suffix string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(k.folder, "expected", name+suffix))
	if errors.Is(err, os.ErrNotExist) && suffix == ".in" {
		return nil, nil
	}
	return b, err
}

func (k *kit) runCase(ctx context.Context, name string, argv []string) error {
	in, err := k.readExpected(name, ".in")
	if err != nil {
		return err
	}
	want, err := k.readExpected(name, ".out")
	if err != nil {
		return err
	}
	code, err := k.readExpected(name, ".code")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, kitTimeout)
	defer cancel()
	program := filepath.Join(k.folder, "programs", argv[0])
	report := filepath.Join(k.folder, "kit.report")
	defer os.Remove(report)
	nonce := fmt.Sprintf("%016x", rand.Uint64())
	args := append([]string{"--clean-env", "--nonce", nonce, "--report", report, program}, argv[1:]...)
	cmd := exec.CommandContext(ctx, k.bee, args...)
	cmd.WaitDelay = time.Second
	cmd.Stdin = bytes.NewReader(in)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return err
	}
	if err := judgeCase(out.Bytes(), want, cmd.ProcessState.ExitCode(), strings.TrimSpace(string(code)), errs.String()); err != nil {
		return err
	}
	return checkReport(report, nonce, program)
}

// checkReport checks bee's report, which proves that bee ran this very file.
func checkReport(report, nonce, program string) error {
	text, err := os.ReadFile(report)
	if err != nil {
		return fmt.Errorf("bee left no report: %w", err)
	}
	file, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.ReplaceAll(string(text), "\r", ""), "\n")
	for _, want := range []string{"nonce " + nonce, fmt.Sprintf("sha256_file %x", sha256.Sum256(file))} {
		if !slices.Contains(lines, want) {
			return fmt.Errorf("bee's report lacks the line %q", want)
		}
	}
	if slices.Contains(lines, "calls 0") {
		return errors.New("bee's report counts no calls")
	}
	return nil
}

const kitShown = 2000 // bytes of an output in the result file

func judgeCase(out, want []byte, code int, wantCode, errs string) error {
	if bytes.Equal(out, want) && fmt.Sprint(code) == wantCode {
		return nil
	}
	cut := func(b []byte) []byte { return b[:min(len(b), kitShown)] }
	return fmt.Errorf("exit code %d, wanted %s\nstdout: %q\nwanted: %q\nstderr: %q",
		code, wantCode, cut(out), cut(want), cut([]byte(errs)))
}
