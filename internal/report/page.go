// SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"html/template"
	"io"
	"math"
)

// html/template escapes the texts of reports according to their context.
var page = template.Must(template.New("page").Funcs(template.FuncMap{"number": FormatNumber, "width": barWidth}).Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Skep: received results</title>
<style>
:root { color-scheme: light dark }
body { font: 15px sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { text-align: left; padding: .2em .8em; border-bottom: 1px solid #8886 }
td.n { text-align: right; font-variant-numeric: tabular-nums }
.bar { display: inline-block; height: .8em; background: #2f855a }
.peer { background: #8a94a6 }
pre { overflow: auto; max-height: 20em; border: 1px solid #8886; padding: .5em }
</style>
<h1>Received results</h1>
{{range .}}<h2>{{.Machine.System}}</h2>
<p>{{.Machine.Processor}}, {{.Machine.CPUs}} CPUs. Skep {{.Skep.Version}}, commit {{.Skep.Commit}}. {{.Skep.Bee}}. {{.Date}}, {{number .Seconds}} s.</p>
<table>
<tr><th>bar<th>what<th>figure<th>unit<th>peer<th>its figure<th>
{{range .Figures}}<tr><td>{{.Bar}}<td>{{.Name}}<td class="n">{{number .Value}}<td>{{.Unit}}<td>{{.Peer}}<td class="n">{{if .PeerValue}}{{number .PeerValue}}{{end}}<td>{{if .PeerValue}}<span class="bar" style="width:{{width .Value .PeerValue}}em"></span><br><span class="bar peer" style="width:{{width .PeerValue .Value}}em"></span>{{end}}
{{end}}</table>
{{if .Absent}}<p>Not shown on this machine:</p>
<ul>
{{range .Absent}}<li>{{.Bar}}: {{.Reason}}
{{end}}</ul>
{{end}}<details><summary>Log</summary><pre>{{range .Log}}{{.}}
{{end}}</pre></details>
{{end}}</html>
`))

// WritePage writes one HTML page with all reports, without scripts.
func WritePage(w io.Writer, list []*Report) error { return page.Execute(w, list) }

// FormatNumber formats a number with four digits; a figure of one run is not more precise.
func FormatNumber(v any) string {
	f, ok := v.(float64)
	if p, is := v.(*float64); is {
		f, ok = *p, true
	}
	switch {
	case !ok:
		return ""
	case f == math.Trunc(f) && f < 1e7, f >= 1000 && f < 1e7:
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.4g", f)
}

// barWidth returns the width of a figure's bar. The longer of two bars has 12.
func barWidth(mine, other any) float64 {
	a, b := value(mine), value(other)
	if most := max(a, b); most > 0 {
		return math.Round(a/most*120) / 10
	}
	return 0
}

func value(v any) float64 {
	if p, ok := v.(*float64); ok {
		return *p
	}
	f, _ := v.(float64)
	return f
}
