// SPDX-License-Identifier: MIT

package picture

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// A Group is one row of a table of figures, drawn as bars below one another.
type Group struct {
	Name   string
	Better string // which figures are better: "less", "more", or "" where that depends
	Bars   []Bar
}

// A Bar is one figure. Skep's own figures are drawn in its colour.
type Bar struct {
	Name  string
	Value float64
	Ours  bool
}

// BetterOf says which figures of a unit are better: "less", "more", or "" for another unit.
func BetterOf(unit string) string {
	switch unit = strings.ToLower(unit); {
	case slices.Contains([]string{"ns", "us", "ms", "s", "instructions", "entries"}, unit):
		return "less"
	case unit == "mbs", unit == "calls", strings.HasSuffix(unit, "/s"):
		return "more"
	}
	return ""
}

// Sizes of a picture of bars, in pixels.
const (
	barsWidth  = 860
	barsNames  = 230
	barsFigure = 90
	barHigh    = 16
	groupGap   = 14
	barsHead   = 58
)

const barsStyle = `
.paper { fill: #ffffff; stroke: #d0d7de }
.ours { fill: #2f855a }
.peer { fill: #8a94a6 }
text { font: 13px "DejaVu Sans", Verdana, sans-serif; fill: #1f2933 }
.head { font-size: 15px; font-weight: bold }
.small { font-size: 12px; fill: #52606d }
.right { text-anchor: end }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117; stroke: #30363d }
.ours { fill: #48bb78 }
.peer { fill: #6b7686 }
text { fill: #e6edf3 }
.small { fill: #9aa5b1 }
}
`

// DrawBars writes groups of bars as SVG. Each group has its own scale, on which its longest
// bar fills the width, because figures of different groups are rarely comparable. The line below
// the title says so.
func DrawBars(w io.Writer, title, below string, groups []Group) error {
	if len(groups) > 1 {
		below += " Each group has its own scale."
	}
	height := barsHead
	for _, g := range groups {
		height += (1+len(g.Bars))*barHigh + groupGap
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- SPDX-License-Identifier: MIT -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n<title>%s</title>\n<style>%s</style>\n",
		barsWidth, height, barsWidth, height, html.EscapeString(title), barsStyle)
	fmt.Fprintf(&b, "<rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", barsWidth-1, height-1)
	fmt.Fprintf(&b, "<text class=\"head\" x=\"16\" y=\"24\">%s</text>\n<text class=\"small\" x=\"16\" y=\"42\">%s</text>\n", html.EscapeString(title), html.EscapeString(below))
	y := barsHead
	for _, g := range groups {
		y = drawGroup(&b, g, y)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func drawGroup(b *strings.Builder, g Group, y int) int {
	most := 0.0
	for _, bar := range g.Bars {
		if !math.IsNaN(bar.Value) && !math.IsInf(bar.Value, 0) {
			most = max(most, bar.Value)
		}
	}
	name := html.EscapeString(g.Name)
	if g.Better != "" {
		name += fmt.Sprintf(` <tspan class="small">%s is better</tspan>`, html.EscapeString(g.Better))
	}
	fmt.Fprintf(b, "<text x=\"16\" y=\"%d\">%s</text>\n", y+12, name)
	y += barHigh // a name may be longer than the column of names
	for _, bar := range g.Bars {
		class, width := "peer", 0.0
		if bar.Ours {
			class = "ours"
		}
		if most > 0 && bar.Value > 0 {
			width = math.Min(1, bar.Value/most) * (barsWidth - barsNames - barsFigure - 16)
		}
		// One line for each bar: a picture of a hundred rows is a change that can be read.
		fmt.Fprintf(b, "<text class=\"small right\" x=\"%d\" y=\"%d\">%s</text>", barsNames-8, y+12, html.EscapeString(bar.Name))
		fmt.Fprintf(b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>", class, barsNames, y+2, width, barHigh-4)
		fmt.Fprintf(b, "<text class=\"small\" x=\"%.1f\" y=\"%d\">%s</text>\n", barsNames+width+6, y+12, formatFigure(bar.Value))
		y += barHigh
	}
	return y + groupGap
}

// formatFigure formats a figure with three or four digits.
func formatFigure(v float64) string {
	if math.Abs(v) >= 1000 || v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
