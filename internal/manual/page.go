// SPDX-License-Identifier: MIT

// Package manual holds the description of a command in one form and writes it as help text
// and as a manual page, with the same words.
package manual

import (
	"fmt"
	"io"
	"strings"
)

// An Entry is a name and what it means.
type Entry struct{ Name, Text string }

// A Page is the whole description of one command.
type Page struct {
	Name        string   // skep up
	Usage       []string // without the word "usage"
	Summary     string
	Text        []string // paragraphs
	Commands    []Entry
	CommandsEnd string // a sentence below the commands
	Options     []Entry
	Examples    []Entry // a line as typed, and what it does
	Files       []Entry
	Environment []Entry
	Exit        []Entry
	See         []string // skep-up(1)
}

// A section is a heading with entries below it. Help and page have the same sections.
type section struct {
	help, page string // heading
	entries    []Entry
}

func (p *Page) sections() []section {
	return []section{
		{"Options", "OPTIONS", p.Options},
		{"Examples", "EXAMPLES", p.Examples},
		{"Files", "FILES", p.Files},
		{"Environment", "ENVIRONMENT", p.Environment},
		{"Exit codes", "EXIT STATUS", p.Exit},
	}
}

const lineWidth = 80

// WriteHelp writes the page as help text.
func (p *Page) WriteHelp(out io.Writer) error {
	var b strings.Builder
	for i, line := range p.Usage {
		word := "usage:"
		if i > 0 {
			word = "      "
		}
		fmt.Fprintf(&b, "%s %s\n", word, line)
	}
	fmt.Fprintf(&b, "\n%s\n", p.Summary)
	for _, text := range p.Text {
		b.WriteString("\n" + wrapText(text, "", lineWidth))
	}
	if len(p.Commands) > 0 {
		b.WriteString("\n")
		WriteColumns(&b, p.Commands)
		fmt.Fprintf(&b, "\n%s\n", p.CommandsEnd)
	}
	for _, s := range p.sections() {
		if len(s.entries) > 0 {
			fmt.Fprintf(&b, "\n%s:\n", s.help)
			WriteColumns(&b, s.entries)
		}
	}
	if len(p.See) > 0 {
		b.WriteString("\n" + wrapText("See also: "+strings.Join(p.See, ", "), "", lineWidth))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// textColumn is the last column at which explanations may begin, so that lines stay short.
const textColumn = 34

// WriteColumns writes names and, in a second column, their texts. The text of a name that
// is too long begins on the next line.
func WriteColumns(b *strings.Builder, entries []Entry) {
	width := 0
	for _, e := range entries {
		if len(e.Name) <= textColumn-4 {
			width = max(width, len(e.Name))
		}
	}
	if width == 0 {
		width = 4
	}
	indent := strings.Repeat(" ", width+4)
	for _, e := range entries {
		text := strings.TrimPrefix(wrapText(e.Text, indent, lineWidth), indent)
		if len(e.Name) > width {
			fmt.Fprintf(b, "  %s\n%s%s", e.Name, indent, text)
			continue
		}
		fmt.Fprintf(b, "  %-*s  %s", width, e.Name, text)
	}
}

// wrapText breaks text between words; each line begins with indent.
func wrapText(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line) > len(indent) && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = indent
		}
		if len(line) > len(indent) {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}
