// SPDX-License-Identifier: MIT

package picture

import (
	"math"
	"strings"
	"testing"
)

// The longest bar of a group fills the width and the others are in proportion. No figure or
// name makes the picture invalid.
func TestSizesOfBars(t *testing.T) {
	var svg strings.Builder
	err := DrawBars(&svg, "a & b", "<below>", []Group{{"one", "less", []Bar{{"own", 10, true}, {"<peer>", 40, false}}}, {"odd", "", []Bar{{"nan", math.NaN(), false}, {"inf", math.Inf(1), false}, {"less", -1, false}, {"0", 0, true}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`class="ours" x="230" y="76" width="131.0"`, `class="peer" x="230" y="92" width="524.0"`, "a &amp; b", "&lt;below&gt;", "&lt;peer&gt;", `y="70">one <tspan class="small">less is better</tspan></text>`, `">odd</text>`} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("no %s in\n%s", want, &svg)
		}
	}
	if strings.Contains(svg.String(), `width="NaN`) || strings.Contains(svg.String(), `width="+Inf`) || strings.Contains(svg.String(), `width="-`) {
		t.Error(svg.String())
	}
	if _, err := SessionText(strings.NewReader(svg.String())); err != nil {
		t.Errorf("it is no XML: %v", err)
	}
}
