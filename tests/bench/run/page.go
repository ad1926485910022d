// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"skep/tests/picture"
)

// A pageMaker runs one bench of make and writes what it printed into a page of docs/results,
// with a picture of its figures.
type pageMaker struct {
	lines  string // folder of the files "*.results", which the bench writes
	folder string // of the pages
	out    io.Writer
	now    time.Time
}

// make runs a shell command. Its output goes to the terminal too. Lines that begin with "result"
// are for the picture, those of the output as well as those of the files. If the command fails,
// the former page stays.
func (m pageMaker) make(name, command string) error {
	where := fmt.Sprintf("%s, %d CPUs, load %s", cpuModel(), runtime.NumCPU(), readLoad())
	fmt.Fprintln(m.out, "machine:", where)
	if err := os.RemoveAll(m.lines); err != nil {
		return err
	}
	for _, folder := range []string{m.lines, m.folder} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	var said bytes.Buffer
	cmd := exec.Command("sh", "-c", command)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	cmd.Stdout = io.MultiWriter(m.out, &said)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; its page stays as it was", name, err)
	}
	table, lines, err := m.collect(said.String())
	if err != nil {
		return err
	}
	day := m.now.Format("2 January 2006")
	page := fmt.Sprintf("<!-- SPDX-License-Identifier: MIT -->\n<!-- Written by make bench T=%s. -->\n# make bench T=%s\n\n%s; %s; %s.\n",
		name, name, where, day, readCommit())
	if groups := plotResults(lines); len(groups) > 0 {
		var svg strings.Builder
		if err := picture.DrawBars(&svg, "make bench T="+name, where+", "+day+".", groups); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(m.folder, name+".svg"), []byte(svg.String()), 0o644); err != nil {
			return err
		}
		page += fmt.Sprintf("\n![The figures as bars](%s.svg)\n", name)
	}
	file := filepath.Join(m.folder, name+".md")
	if err := os.WriteFile(file, []byte(page+"\n"+table), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(m.out, "written:", file)
	return nil
}

// collect returns the output as a block of the page, without the path of the tree, and the
// lines for the picture.
func (m pageMaker) collect(said string) (table string, lines []string, err error) {
	tree, err := os.Getwd()
	if err != nil {
		return "", nil, err
	}
	said = strings.ReplaceAll(said, tree+"/", "")
	for _, line := range strings.Split(strings.Trim(said, "\n"), "\n") {
		line = strings.TrimRight(line, " \t")
		switch {
		case strings.HasPrefix(line, "result "):
			lines = append(lines, line)
		case line == "":
			table += "\n"
		default:
			table += "    " + line + "\n"
		}
	}
	files, err := filepath.Glob(filepath.Join(m.lines, "*.results"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", nil, err
		}
		lines = append(lines, strings.Split(string(text), "\n")...)
	}
	return strings.TrimRight(table, "\n") + "\n", lines, err
}

// readCommit names the commit of the tree, and says if files differ from it, apart from the results.
func readCommit() string {
	commit, err := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return "of no commit"
	}
	text := "commit " + strings.TrimSpace(string(commit))
	changed, err := exec.Command("git", "status", "--porcelain", "--", ".", ":!docs/results").Output()
	if err != nil || len(changed) > 0 {
		text += " with changes"
	}
	return text
}
