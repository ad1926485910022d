// SPDX-License-Identifier: MIT

package uapi

import (
	"reflect"
	"strings"
	"testing"
)

// backSample is solve(IN int n, step(IN int k, IN double x[n])).
func backSample() *Manifest {
	whole := []Dim{{Size: 0, Low: CodeDefault, High: CodeDefault, Stride: CodeDefault}}
	return &Manifest{Name: "back", Code: []byte{byte(OpParam), 0, byte(OpEnd)}, Functions: []Function{
		{Name: "solve", Params: []Param{
			{Name: "n", Type: Int, Mode: ModeIn},
			{Name: "step", Type: MasterFunction, Mode: ModeIn, Refers: 1}}},
		{Name: "solve", Callback: true, Params: []Param{
			{Name: "n", Type: Int, Mode: ModeIn, Refers: 1},
			{Name: "k", Type: Int, Mode: ModeIn},
			{Name: "x", Type: Double, Mode: ModeIn, Dims: whole}}},
	}}
}

// A function of the master may have any name, and nobody finds it by that.
func TestCallbacksOfAManifest(t *testing.T) {
	m := backSample()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseManifest(b)
	if err != nil || !reflect.DeepEqual(back, m) {
		t.Fatalf("%v: %+v", err, back)
	}
	if back.Lookup("solve") != 0 || !back.Functions[0].HasCallbacks() || back.Functions[1].HasCallbacks() {
		t.Errorf("%d, %+v", back.Lookup("solve"), back.Functions)
	}
	back.Functions[0].Name = "other"
	if back.Lookup("solve") != -1 {
		t.Error("the master's function is found by its name")
	}
}

func TestHostileCallbacks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(outer, inner []Param, f []Function)
		want   string
	}{
		"no description":    {func(o, _ []Param, _ []Function) { o[1].Refers = 0 }, "nothing describes"},
		"outside the table": {func(o, _ []Param, _ []Function) { o[1].Refers = 2 }, "nothing describes"},
		"that returns":      {func(o, _ []Param, _ []Function) { o[1].Mode = ModeInOut }, "can't be a function of the master"},
		"an array":          {func(o, i []Param, _ []Function) { o[1].Dims = i[2].Dims }, "can't be a function of the master"},
		"of Initialize":     {func(_, _ []Param, f []Function) { f[0].Init = true }, "can't be a function of the master"},
		"of an MPI job":     {func(_, _ []Param, f []Function) { f[0].Ranks = true }, ""},
		"that is a job":     {func(_, _ []Param, f []Function) { f[1].Ranks = true }, "other flags"},
		"of a callback": {func(_, i []Param, _ []Function) {
			i[1] = Param{Name: "f", Type: MasterFunction, Mode: ModeIn, Refers: 1}
		}, "can't be a function of the master"},
		"two kinds":          {func(_, _ []Param, f []Function) { f[1].Init = true }, "other flags"},
		"refers to none":     {func(_, i []Param, _ []Function) { i[0].Refers = 3 }, "refers to none"},
		"refers to another":  {func(_, i []Param, _ []Function) { i[0].Type = Long }, "another type"},
		"refers to a sign":   {func(_, i []Param, _ []Function) { i[0].Unsigned = true }, "another type"},
		"refers to itself":   {func(_, i []Param, _ []Function) { i[0].Refers = 2 }, "another type"},
		"refers and returns": {func(_, i []Param, _ []Function) { i[0].Mode = ModeInOut }, "can't have the parameter"},
		"an array refers":    {func(_, i []Param, _ []Function) { i[2].Refers = 1 }, "another type"},
		"an outer one":       {func(o, _ []Param, _ []Function) { o[0].Refers = 1 }, "refers to something"},
		"a file":             {func(_, i []Param, _ []Function) { i[1].Type = Filename }, "can't have the parameter"},
		"files":              {func(_, i []Param, _ []Function) { i[2].Type = Filepointer }, "can't have the parameter"},
		"a returned string":  {func(_, i []Param, _ []Function) { i[1].Type, i[1].Mode = String, ModeOut }, ""},
		"strings":            {func(_, i []Param, _ []Function) { i[2].Type = String }, ""},
		"a complex number":   {func(_, i []Param, _ []Function) { i[1].Type = DComplex }, "can't have the parameter"},
		"a string":           {func(_, i []Param, _ []Function) { i[1].Type = String }, ""},
		"a returned complex": {func(_, i []Param, _ []Function) { i[1].Type, i[1].Mode = SComplex, ModeOut }, ""},
	} {
		m := backSample()
		c.change(m.Functions[0].Params, m.Functions[1].Params, m.Functions)
		_, err := m.Encode()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The payload of CALLBACK says how long its arguments are.
func TestCallbackPayload(t *testing.T) {
	b := append(Append(nil, Callback{Param: 3, Length: 2, Number: 9}), "ab"...)
	c, args, err := ParseCallback(b)
	if err != nil || c != (Callback{3, 2, 9}) || string(args) != "ab" {
		t.Errorf("%+v, %q, %v", c, args, err)
	}
	for _, bad := range [][]byte{nil, b[:15], b[:17], append(b, 0)} {
		if _, _, err := ParseCallback(bad); err == nil {
			t.Errorf("%d bytes were taken", len(bad))
		}
	}
}
