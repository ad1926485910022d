// SPDX-License-Identifier: MIT

package picture

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
)

// Sizes of a session's picture, in pixels.
const (
	cell   = 7.2
	leap   = 17
	margin = 16
	title  = 30
)

// The terminal is dark, on light pages too.
const sessionStyle = `
rect { fill: #1b1f27 }
.bar { fill: #2b303b }
text { font: 12px "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d5d9e2; white-space: pre }
.key { fill: #8fd18a; font-weight: bold }
.head { fill: #f0c674; font-weight: bold }
`

// Draw writes the screen as SVG. words is a description for readers who do not see the
// picture.
func (s *Screen) Draw(w io.Writer, words string) error {
	lines := s.Text()
	width := int(float64(s.Columns)*cell) + 2*margin
	height := title + leap*len(lines) + margin
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- SPDX-License-Identifier: MIT -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" xml:space=\"preserve\" role=\"img\">\n<title>%s</title>\n<style>%s</style>\n",
		width, height, width, height, html.EscapeString(words), sessionStyle)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" rx=\"8\"/>\n<rect class=\"bar\" width=\"%d\" height=\"18\" rx=\"8\"/>\n", width, height, width)
	for i, line := range lines {
		drawText(&b, line, title+leap*i+4)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// drawText sets the width of a line, so that columns are aligned in any font.
func drawText(b *strings.Builder, line string, y int) {
	text := strings.TrimLeft(line, " ")
	cells := len([]rune(text))
	if cells == 0 {
		return
	}
	class := ""
	switch {
	case strings.HasPrefix(text, "$ "), strings.HasPrefix(text, `C:\>`), strings.HasSuffix(text, "All is well."):
		class = ` class="key"`
	case strings.HasPrefix(text, "== "):
		class = ` class="head"`
	}
	x := margin + cell*float64(len([]rune(line))-cells)
	fmt.Fprintf(b, "<text%s x=\"%.1f\" y=\"%d\" textLength=\"%.1f\">%s</text>\n", class, x, y, cell*float64(cells), html.EscapeString(text))
}

// SessionText reads the text of a session's picture.
func SessionText(svg io.Reader) ([]string, error) {
	var lines []string
	d := xml.NewDecoder(svg)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "text" {
			continue
		}
		var text string
		if err := d.DecodeElement(&text, &start); err != nil {
			return nil, err
		}
		lines = append(lines, text)
	}
}

var (
	digest = regexp.MustCompile(`[0-9a-f]{12,}…`)
	number = regexp.MustCompile(`[-+]?\d+(\.\d+)*(e[-+]?\d+)?`)
	unit   = regexp.MustCompile(`(#m)?# ?([kMG]?B|[mnµ]?s)\b`)
	spaces = regexp.MustCompile(`\s+`)
)

// ShapesOf returns the lines without the parts that differ between runs: numbers, digests,
// units and the width of columns. Equal rows of a table occur once.
func ShapesOf(lines []string) []string {
	var list []string
	for _, line := range lines {
		line = digest.ReplaceAllString(line, "#")
		line = number.ReplaceAllString(line, "#")
		line = unit.ReplaceAllStringFunc(line, func(u string) string { return "#" + u[len(u)-1:] })
		line = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
		if line != "" && (len(list) == 0 || list[len(list)-1] != line) {
			list = append(list, line)
		}
	}
	return list
}
