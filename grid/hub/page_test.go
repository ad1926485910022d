// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"html"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fillTexts puts a text into each string of a value, and one element into each list.
func fillTexts(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillTexts(v.Index(0), text)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1000, 0)))
			return
		}
		for i := range v.NumField() {
			fillTexts(v.Field(i), text)
		}
	}
}

func render(t testing.TB, name string, v any) string {
	t.Helper()
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, name, v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// renderTexts renders both pages with a text in place of each text that they show.
func renderTexts(t testing.TB, text string) (pages [2]string) {
	var o Overview
	fillTexts(reflect.ValueOf(&o).Elem(), text)
	o.History = make([]Interval, intervals)
	p := newPage(o, true)
	p.Title = text
	var c callPage
	fillTexts(reflect.ValueOf(&c.Steps).Elem(), text)
	c.Title, c.Session = text, text
	return [2]string{render(t, "overview", p), render(t, "call", c)}
}

var tagsOf = regexp.MustCompile(`<[^>]*>`)

// checkInert reports an error if a text changes anything on the pages but texts.
func checkInert(t testing.TB, text string) {
	t.Helper()
	text = "x" + text // parts without text are left out
	plain := renderTexts(t, "plain")
	for i, got := range renderTexts(t, text) {
		want := tagsOf.FindAllString(plain[i], -1)
		tags := tagsOf.FindAllString(got, -1)
		if strings.Join(tags, "\n") != strings.Join(want, "\n") {
			t.Errorf("%q adds or changes a tag:\n%s", text, got)
		}
		for _, r := range tagsOf.ReplaceAllString(html.UnescapeString(got), "") {
			if r < ' ' && r != '\n' || r == '\u202e' {
				t.Errorf("%q: the character %U is on the page", text, r)
			}
		}
	}
}

// The bar of now is on the right, also if the hub is young; one failed call among many is seen.
func TestBars(t *testing.T) {
	bars, most := barsOf([]Interval{{Done: 4000}, {Done: 1000, Failed: 1}})
	if len(bars) != 2 || most != 4000 || bars[1].X != 2+10*(intervals-1) || bars[0].X != bars[1].X-10 || bars[0].Good != barHeight || bars[1].Good != barHeight/4 || bars[1].Bad != 2 || bars[1].BadY != bars[1].GoodY-2 {
		t.Errorf("%+v, %d", bars, most)
	}
	if bars, most := barsOf(make([]Interval, intervals)); most != 0 || bars[0].X != 2 || bars[0].Good != 0 || bars[0].Bad != 0 {
		t.Errorf("without calls: %+v, %d", bars[0], most)
	}
}

var hostileTexts = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</title><svg onload=alert(1)>`,
	`</style><script>`, `<!--`, `-->`, `{{.Status}}`, `javascript:alert(1)`, `&lt;script&gt;`, "a\x00b\x1b[31m\r\n", "abc\u202edef", "\xff\xfe<b>",
}

func TestPageEscapesTexts(t *testing.T) {
	for _, text := range hostileTexts {
		checkInert(t, text)
	}
	if page := renderTexts(t, `<b>"pc"</b>`)[0]; strings.Count(page, "&lt;b&gt;&#34;pc&#34;&lt;/b&gt;") < 35 {
		t.Errorf("texts are not on the page as they are:\n%s", page)
	}
}

func FuzzPage(f *testing.F) {
	for _, text := range hostileTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkInert(t, text) })
}

// Each table has heads for its columns, and each row one of its own.
func TestPageIsAccessible(t *testing.T) {
	for _, page := range renderTexts(t, "x") {
		tables, rows := strings.Count(page, "<table>"), strings.Count(page, "<tr")
		heads := strings.Count(page, "<thead><tr>")
		if tables == 0 || heads != tables || strings.Count(page, `<th scope="row">`) != rows-heads || strings.Contains(page, "<th>") {
			t.Errorf("%d tables, %d heads, %d rows:\n%s", tables, heads, rows, page)
		}
		if !strings.Contains(page, `<html lang="en">`) || !strings.Contains(page, "<main>") || !strings.Contains(page, "<title>x</title>") {
			t.Errorf("the page has no language, main part or title:\n%s", page)
		}
	}
	if !strings.Contains(pageStyle, "prefers-color-scheme: dark") {
		t.Error("the page is not dark where people want that")
	}
}

// Of very many nodes those are shown that are not up, and then the first ones.
func TestPageOfManyNodes(t *testing.T) {
	o := Overview{Nodes: make([]NodeInfo, rowsMax+10)}
	for i := range o.Nodes {
		o.Nodes[i] = NodeInfo{Name: "n", State: NodeUp}
	}
	o.Nodes[rowsMax+5] = NodeInfo{Name: "away", State: NodeDown}
	p := newPage(o, true)
	if len(p.Rows) != rowsMax || p.Hidden != 10 || p.Rows[0].Name != "away" {
		t.Errorf("%d rows, %d hidden, first %s", len(p.Rows), p.Hidden, p.Rows[0].Name)
	}
}
