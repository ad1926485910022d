// SPDX-License-Identifier: MIT

package manual

import (
	"fmt"
	"io"
	"strings"
)

const environmentIntro = "This page lists each environment variable that a program of Skep reads."

// WriteEnvironmentRoff writes the page skep-environment(7).
func WriteEnvironmentRoff(out io.Writer, t Title) error {
	var b strings.Builder
	writeTitle(&b, "skep-environment", t)
	b.WriteString(".SH NAME\nskep\\-environment \\- environment variables that programs of Skep read\n")
	b.WriteString(".SH DESCRIPTION\n" + textLines(environmentIntro))
	for _, g := range Groups() {
		fmt.Fprintf(&b, ".SS %s\n", quoteHeading(escapeText(g.Heading)))
		if g.Text != "" {
			b.WriteString(textLines(g.Text))
		}
		var entries []Entry
		for _, v := range g.Variables {
			entries = append(entries, Entry{v.Name, v.Text + " (read by " + readerOf(v.Readers) + ")"})
		}
		writeEntries(&b, entries)
	}
	b.WriteString(".SH SEE ALSO\n" + referenceLines([]string{"bee(1)", "skep(1)", "fi_o2g(7)"}))
	_, err := io.WriteString(out, b.String())
	return err
}

func readerOf(page string) string {
	if page == "skep(1)" {
		return "several commands of skep"
	}
	return page
}

// WriteEnvironmentMarkdown writes docs/environment.md.
func WriteEnvironmentMarkdown(out io.Writer) error {
	var b strings.Builder
	b.WriteString("<!-- SPDX-License-Identifier: MIT -->\n<!-- Written by `make man` from internal/manual/environment.go. -->\n" +
		"# Environment variables\n\n" + environmentIntro + "\n`man skep-environment` shows the same.\n")
	for _, g := range Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n", g.Heading)
		if g.Text != "" {
			b.WriteString(g.Text + "\n\n")
		}
		b.WriteString("| variable | read by | meaning |\n|---|---|---|\n")
		for _, v := range g.Variables {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Name, readerOf(v.Readers), v.Text)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
