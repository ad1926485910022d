// SPDX-License-Identifier: MIT

// Package walk reads commands from pages, with the output shown below each, and types them.
package walk

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"

	"skep/tests/picture"
)

// A Command is one that a page shows.
type Command struct {
	Page   string
	Line   int
	Prompt string   // "$", "lab#" in a machine of the lab, `C:\>` on a PC; empty in a block without prompts
	Text   string   // with the lines of a here document, without a comment at its end
	Output []string // that the page shows
}

func (c Command) String() string { return fmt.Sprintf("%s:%d: %s", c.Page, c.Line, c.Text) }

// Name is the command in one line: a here document is left out.
func (c Command) Name() string {
	first, _, _ := strings.Cut(c.Text, "\n")
	return strings.Join(strings.Fields(first), " ")
}

var (
	prompted = regexp.MustCompile(`^(\$|lab#|C:\\>) (.*)$`)
	hereDoc  = regexp.MustCompile(`<<'?(\w+)'?`)
	comment  = regexp.MustCompile(`\s+#\s.*$`)
	// Of a block without prompts: programs that people start.
	program = regexp.MustCompile(`^(\w+=\S* )*(export |sudo |wine )?(\S*/)?(apt|apt-get|bash|bee|bee\.exe|cat|cd|cp|curl|docker|dpkg|echo|gcc|git|go|insmod|jq|make|man|mkdir|modprobe|mpicc|mpiexec|openssl|pip|powershell|python3?|ring|rm|rmmod|scp|sha256sum|skep|skep\.exe|source|srun|ssh|systemctl|tar|unzip|wine|zip)( |$)`)
	ownPath = regexp.MustCompile(`^(\.\.?|build/(bin|examples|mpich))/[^\s<]+( |$)|^export `)
)

// Read returns the commands of a page with this name.
func Read(path, name string) ([]Command, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []Command
	var block []string
	begin, fenced, number := 0, false, 0
	end := func() {
		list = append(list, readBlock(name, begin, block)...)
		block = nil
	}
	for scan := bufio.NewScanner(strings.NewReader(string(text))); scan.Scan(); {
		number++
		line := scan.Text()
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			end()
			continue
		}
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case fenced:
			code = line
		case indented:
		case line == "" && len(block) > 0:
			code = ""
		default:
			end()
			continue
		}
		if len(block) == 0 {
			begin = number
		}
		block = append(block, code)
	}
	end()
	return list, nil
}

func readBlock(page string, begin int, block []string) []Command {
	prompts := false
	for _, line := range block {
		prompts = prompts || prompted.MatchString(line)
	}
	var list []Command
	for i := 0; i < len(block); i++ {
		c := Command{Page: page, Line: begin + i, Text: block[i]}
		m := prompted.FindStringSubmatch(block[i])
		switch {
		case m != nil:
			c.Prompt, c.Text = m[1], m[2]
		case prompts && len(list) > 0:
			last := &list[len(list)-1]
			last.Output = append(last.Output, block[i])
			continue
		case prompts || !program.MatchString(c.Text) && !ownPath.MatchString(c.Text):
			continue
		}
		for strings.HasSuffix(c.Text, `\`) && i+1 < len(block) {
			i++
			c.Text = strings.TrimSuffix(c.Text, `\`) + strings.TrimSpace(block[i])
		}
		if here := hereDoc.FindStringSubmatch(c.Text); here != nil {
			for i++; i < len(block) && block[i] != here[1]; i++ {
				c.Text += "\n" + block[i]
			}
			c.Text += "\n" + here[1] + "\n"
		} else {
			c.Text = comment.ReplaceAllString(c.Text, "")
		}
		list = append(list, c)
	}
	return list
}

// Match compares printed lines with those of a page, ignoring numbers and the width of columns.
// … stands for any text; on a line of its own it stands for any lines.
func Match(shown, printed []string) error {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range shown {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(.*\n)*`)
			continue
		}
		for _, shape := range picture.ShapesOf([]string{line}) {
			shape = strings.ReplaceAll(regexp.QuoteMeta(shape), "…", ".*")
			pattern.WriteString(shape + `\n`)
		}
	}
	var got strings.Builder
	for _, line := range printed {
		for _, shape := range picture.ShapesOf([]string{line}) {
			got.WriteString(shape + "\n")
		}
	}
	re, err := regexp.Compile(pattern.String() + `$`)
	if err != nil {
		return err
	}
	if !re.MatchString(got.String()) {
		return fmt.Errorf("the page shows\n%s\nprinted was\n%s", strings.Join(shown, "\n"), strings.Join(printed, "\n"))
	}
	return nil
}
