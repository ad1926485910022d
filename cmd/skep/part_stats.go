// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"skep/internal/cli"
)

type partStats struct {
	json   bool
	ledger string
}

func (p *partStats) options(f *cli.Flags) {
	f.BoolVar(&p.json, "json", false, "print JSON, for programs")
	f.StringVar(&p.ledger, "ledger", "", "the `FILE` that part run --ledger wrote")
}

// A figure of a ledger, one number for each core.
type ledgerFigure struct {
	Name  string   `json:"name"`
	Cores []uint64 `json:"cores"`
}

func (p *partStats) run(_ context.Context, f *cli.Flags, words []string) error {
	word := ""
	if len(words) == 1 && p.ledger == "" {
		word = words[0]
	} else if len(words) != 0 {
		return f.Expectf("one partition or --ledger FILE is expected")
	}
	path := p.ledger
	if path == "" {
		i, err := onePartition(word)
		if err != nil {
			return partError(err)
		}
		if path, err = ledgerOf(i.ID); err != nil {
			return err
		}
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Errorf(cli.Refused, "you have not run a program there yet: %s does not exist", path)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	figures, cores, err := readLedger(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if p.json {
		return cli.PrintJSON(os.Stdout, figures)
	}
	return ledgerTable(figures, cores).Write(os.Stdout)
}

func ledgerTable(figures []*ledgerFigure, cores int) *cli.Table {
	head := []string{"WHAT"}
	for c := range cores {
		head = append(head, fmt.Sprintf("CORE %d", c))
	}
	table := cli.NewTable(head...)
	for _, f := range figures {
		row := []any{f.Name}
		for _, n := range f.Cores {
			row = append(row, n)
		}
		table.Row(row...)
	}
	return table
}

// Limits of a ledger: the most that sms-proxy can write.
const (
	ledgerCores = 256
	ledgerBytes = 16 << 20
)

var errLedger = errors.New("this is not a complete ledger of a run")

// readLedger reads lines "core N NAME COUNT" between a first and a last line.
func readLedger(r io.Reader) (figures []*ledgerFigure, cores int, err error) {
	text, err := io.ReadAll(io.LimitReader(r, ledgerBytes))
	if err != nil {
		return nil, 0, err
	}
	body, complete := strings.CutSuffix(string(text), "\nend\n")
	lines := strings.Split(body, "\n")
	if !complete || lines[0] != "sms-ledger 1" {
		return nil, 0, errLedger
	}
	by := map[string]*ledgerFigure{}
	for _, line := range lines[1:] {
		w := strings.Fields(line)
		if len(w) != 4 || w[0] != "core" {
			continue
		}
		core, err := strconv.ParseUint(w[1], 10, 32)
		count, err2 := strconv.ParseUint(w[3], 10, 64)
		if err != nil || err2 != nil || core >= ledgerCores {
			return nil, 0, errLedger
		}
		f := by[w[2]]
		if f == nil {
			f = &ledgerFigure{Name: w[2]}
			by[w[2]] = f
			figures = append(figures, f)
		}
		for len(f.Cores) <= int(core) {
			f.Cores = append(f.Cores, 0)
		}
		f.Cores[core] = count
		cores = max(cores, int(core)+1)
	}
	return figures, cores, nil
}
