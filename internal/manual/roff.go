// SPDX-License-Identifier: MIT

package manual

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// This file writes the macros of man(7). cobra/doc also writes manual pages, but has no
// sections for files, variables and exit codes, and converts its text by Markdown, which
// changes the words.

// Title is the line above and below each page.
type Title struct {
	Section int
	Date    string // 2006-01-02
	Release string // Skep 1.2.3
}

// PageName returns the name of a page's file without its section, for example skep-up.
func (p *Page) PageName() string { return strings.ReplaceAll(p.Name, " ", "-") }

// WriteRoff writes the page for man(1).
func (p *Page) WriteRoff(out io.Writer, t Title) error {
	var b strings.Builder
	writeTitle(&b, p.PageName(), t)
	b.WriteString(".SH NAME\n" + wrapText(escapeText(p.PageName())+" \\- "+escapeText(p.Summary), "", lineWidth-1))
	b.WriteString(".SH SYNOPSIS\n.nf\n")
	for _, line := range p.Usage {
		fmt.Fprintln(&b, escapeText(line))
	}
	b.WriteString(".fi\n")
	if len(p.Text) > 0 {
		b.WriteString(".SH DESCRIPTION\n")
		writeParagraphs(&b, p.Text)
	}
	if len(p.Commands) > 0 {
		b.WriteString(".SH COMMANDS\n")
		writeEntries(&b, p.Commands)
	}
	for _, s := range p.sections() {
		if len(s.entries) > 0 {
			fmt.Fprintf(&b, ".SH %s\n", quoteHeading(s.page))
			writeEntries(&b, s.entries)
		}
	}
	if len(p.See) > 0 {
		b.WriteString(".SH SEE ALSO\n" + referenceLines(p.See))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func writeTitle(b *strings.Builder, name string, t Title) {
	fmt.Fprintf(b, ".\\\" SPDX-License-Identifier: MIT\n.TH %s %d %s %q %q\n",
		escapeText(strings.ToUpper(name)), t.Section, t.Date, t.Release, "Skep manual")
}

func quoteHeading(text string) string {
	if strings.Contains(text, " ") {
		return `"` + text + `"`
	}
	return text
}

func writeParagraphs(b *strings.Builder, paragraphs []string) {
	for i, text := range paragraphs {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		b.WriteString(textLines(text))
	}
}

func writeEntries(b *strings.Builder, entries []Entry) {
	for _, e := range entries {
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR\n%s", escapeText(e.Name), textLines(e.Text))
	}
}

// referenceLines returns names of pages in bold, without the section.
func referenceLines(names []string) string {
	var b strings.Builder
	for i, name := range names {
		comma := " ,"
		if i == len(names)-1 {
			comma = ""
		}
		page, section, _ := strings.Cut(name, "(")
		fmt.Fprintf(&b, ".BR %s (%s%s\n", escapeText(page), section, comma)
	}
	return strings.ReplaceAll(b.String(), ") ,", "),")
}

// endOfSentence matches where a new line begins, because man(1) chooses the space after a
// sentence that ends a line.
var endOfSentence = regexp.MustCompile(`([a-z0-9)"'][.:]) `)

func textLines(text string) string {
	text = endOfSentence.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1\n")
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(wrapText(escapeText(line), "", lineWidth-1), "\n") + "\n")
	}
	return guardLines(b.String())
}

// guardLines escapes a dot or a quote at the start of a line, which would begin a macro.
func guardLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			b.WriteString(`\&`)
		}
		b.WriteString(line)
	}
	return b.String()
}

var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "~", `\(ti`, "^", `\(ha`, "`", `\(ga`, "'", `\(aq`)

func escapeText(text string) string { return escapes.Replace(text) }
