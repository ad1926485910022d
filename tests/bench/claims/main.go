// SPDX-License-Identifier: MIT

// Claims writes docs/results/README.md and its pictures from claims.tbl, a table of the
// main figures of the pages of results, and lists the pages of make bench: claims DOCS/RESULTS.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"skep/tests/picture"
)

// A row is a line of the table.
type row struct {
	id, claim, what, unit string
	ours, peers           []figure
	page, machine, day    string
}

type figure struct {
	name, text string // the text as its page has it
	value      float64
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: claims FOLDER")
		os.Exit(2)
	}
	files, err := render(os.Args[1])
	if err == nil {
		err = writeFiles(os.Args[1], files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "claims:", err)
		os.Exit(1)
	}
}

func writeFiles(folder string, files map[string]string) error {
	if err := os.MkdirAll(filepath.Join(folder, "pictures"), 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// unitColumn is empty for a ratio.
const unitColumn = 3

func readRows(text string) ([]row, error) {
	var list []row
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		c := strings.Split(line, "\t")
		if len(c) != 9 {
			return nil, fmt.Errorf("claims.tbl:%d: %d columns, not 9", i+1, len(c))
		}
		for at, cell := range c {
			if cell == "" && at != unitColumn {
				return nil, fmt.Errorf("claims.tbl:%d: column %d is empty", i+1, at+1)
			}
		}
		if _, err := time.Parse(time.DateOnly, c[8]); err != nil {
			return nil, fmt.Errorf("claims.tbl:%d: %q is no day", i+1, c[8])
		}
		ours, err := parseFigures(c[4])
		if err != nil {
			return nil, fmt.Errorf("claims.tbl:%d: %w", i+1, err)
		}
		peers, err := parseFigures(c[5])
		if err != nil {
			return nil, fmt.Errorf("claims.tbl:%d: %w", i+1, err)
		}
		list = append(list, row{c[0], c[1], c[2], c[3], ours, peers, c[6], c[7], c[8]})
	}
	return list, nil
}

func parseFigures(text string) (list []figure, err error) {
	for _, part := range strings.Split(text, "; ") {
		name, number, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=FIGURE", part)
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(number, ",", ""), 64)
		if err != nil {
			return nil, err
		}
		list = append(list, figure{name, number, v})
	}
	return list, nil
}

const head = `<!-- SPDX-License-Identifier: MIT -->
<!-- Written by make claims from claims.tbl. -->
# Results at a glance

Each row is a figure of one of the pages in this folder, which say how it was measured and what was not.
Nothing here was measured on Windows itself or on several real hosts. [If you have such a machine, measure it](../measuring.md).

| claim | measured | Skep | peers | machine | day | page |
|---|---|---|---|---|---|---|
`

// render returns the contents of the files by name.
func render(folder string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(folder, "claims.tbl"))
	if err != nil {
		return nil, err
	}
	rows, err := readRows(string(text))
	if err != nil {
		return nil, err
	}
	var table, shown strings.Builder
	files := map[string]string{}
	groups := map[string][]picture.Group{}
	for i, r := range rows {
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s | [%s](%s) |\n", r.claim, r.measured(), listFigures(r.ours), listFigures(r.peers), r.machine, r.day, strings.TrimSuffix(r.page, ".md"), r.page)
		groups[r.id] = append(groups[r.id], r.group())
		if i+1 < len(rows) && rows[i+1].id == r.id {
			continue
		}
		var svg strings.Builder
		if err := picture.DrawBars(&svg, r.claim, r.machine+", "+r.day+".", groups[r.id]); err != nil {
			return nil, err
		}
		files["pictures/"+r.id+".svg"] = svg.String()
		fmt.Fprintf(&shown, "\n![%s](pictures/%s.svg)\n", r.claim, r.id)
	}
	runs, err := listRuns(folder)
	files["README.md"] = head + table.String() + shown.String() + runs
	return files, err
}

// listRuns returns the section of the pages that make bench wrote.
func listRuns(folder string) (string, error) {
	pages, err := filepath.Glob(filepath.Join(folder, "bench", "*.md"))
	if err != nil || len(pages) == 0 {
		return "", err
	}
	text := "\n## Last runs of the benchmarks\n\n`make bench` writes these pages. They have whatever load the machine had.\n\n| benchmark | day | machine | tree |\n|---|---|---|---|\n"
	for _, page := range pages {
		lines, err := os.ReadFile(page)
		if err != nil {
			return "", err
		}
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		// The line below the title: machine; day; commit.
		_, below, _ := strings.Cut(string(lines), "\n# make bench T="+name+"\n\n")
		line, _, _ := strings.Cut(below, "\n")
		words := strings.Split(strings.TrimSuffix(line, "."), "; ")
		if len(words) != 3 {
			return "", fmt.Errorf("%s: no line of machine, day and commit below the title", page)
		}
		text += fmt.Sprintf("| [%s](bench/%s.md) | %s | %s | %s |\n", name, name, words[1], words[0], words[2])
	}
	return text, nil
}

func (r row) measured() string {
	if r.unit == "" {
		return r.what
	}
	return r.what + ", " + r.unit
}

func (r row) group() picture.Group {
	g := picture.Group{Name: r.measured(), Better: picture.BetterOf(r.unit)}
	for _, f := range r.ours {
		g.Bars = append(g.Bars, picture.Bar{Name: f.name, Value: f.value, Ours: true})
	}
	for _, f := range r.peers {
		g.Bars = append(g.Bars, picture.Bar{Name: f.name, Value: f.value})
	}
	return g
}

func listFigures(list []figure) string {
	var words []string
	for _, f := range list {
		words = append(words, f.name+" "+f.text)
	}
	return strings.Join(words, ", ")
}
