// SPDX-License-Identifier: MIT

package image

import (
	"strings"
	"testing"
)

// A typeWriter writes functions and the types that they use.
type typeWriter struct {
	btf
	count uint32
}

func newTypeWriter() *typeWriter { return &typeWriter{btf: btf{names: []byte{0}}} }

// put adds a type and returns its number.
func (w *typeWriter) put(name string, kind, vlen, size uint32, details ...uint32) uint32 {
	w.add(name, kind, vlen, size, details...)
	w.count++
	return w.count
}

// function adds a function with these parameters; 0 is a variable list.
func (w *typeWriter) function(name string, result uint32, params ...uint32) {
	var details []uint32
	for _, p := range params {
		details = append(details, 0, p)
	}
	w.put(name, kindFunc, 0, w.put("", kindProto, uint32(len(params)), result, details...))
}

func (w *typeWriter) image(t *testing.T) *Image {
	t.Helper()
	all, err := readTypes(w.encodeSection())
	if err != nil {
		t.Fatal(err)
	}
	return &Image{types: all}
}

const (
	encodingNone   = 0
	encodingSigned = 1 << 24
	encodingBool   = 4 << 24
)

// The result's kind says how an error is told, and what fits into one register.
func TestResultOfAFunction(t *testing.T) {
	w := newTypeWriter()
	signed4 := w.put("int", kindInt, 0, 4, encodingSigned|32)
	for name, id := range map[string]uint32{
		"nothing":       0,
		"int":           signed4,
		"long":          w.put("long", kindInt, 0, 8, encodingSigned|64),
		"unsigned":      w.put("unsigned int", kindInt, 0, 4, encodingNone|32),
		"short":         w.put("short", kindInt, 0, 2, encodingSigned|16),
		"bool":          w.put("_Bool", kindInt, 0, 1, encodingBool|8),
		"int128":        w.put("__int128", kindInt, 0, 16, encodingSigned|128),
		"pointer":       w.put("", kindPointer, 0, signed4),
		"typedef_int":   w.put("int32_t", kindTypedef, 0, signed4),
		"const_int":     w.put("", kindConst, 0, w.put("", kindVolatile, 0, signed4)),
		"typedef_void":  w.put("nothing_t", kindTypedef, 0, 0),
		"enum":          w.put("color", kindEnum, 1, 4, w.addString("red"), 0),
		"enum64":        w.put("wide", kindEnum64, 1, 8, w.addString("far"), 0, 1),
		"pair":          w.put("pair", kindStruct, 0, 8),
		"union8":        w.put("word", kindUnion, 0, 8),
		"struct9":       w.put("more", kindStruct, 0, 9),
		"double":        w.put("double", kindFloat, 0, 8),
		"only_declared": w.put("later", kindForward, 0, 0),
	} {
		w.function(name, id)
	}
	im := w.image(t)
	for name, want := range map[string]string{
		"nothing": "void", "int": "int", "long": "long", "unsigned": "value", "short": "value", "bool": "value", "pointer": "pointer",
		"typedef_int": "int", "const_int": "int", "typedef_void": "void", "enum": "value", "enum64": "value", "pair": "value", "union8": "value",
		"int128": "", "struct9": "", "double": "", "only_declared": "",
	} {
		p, err := im.Prototype(name)
		if err != nil || p.Result != want && want != "" || strings.Contains(p.Uncounted, "more than one register") != (want == "") {
			t.Errorf("%s: %+v, %v, want %q", name, p, err, want)
		}
	}
}

// Arguments take registers by their size. Larger ones than two registers are in memory.
func TestRegistersOfArguments(t *testing.T) {
	w := newTypeWriter()
	number := w.put("int", kindInt, 0, 4, encodingSigned|32)
	pair := w.put("pair", kindStruct, 0, 16)
	for name, params := range map[string][]uint32{
		"six": {number, number, number, number, number, number}, "seven": {number, number, number, number, number, number, number},
		"pairs": {pair, pair, pair}, "pairs_and_one": {pair, pair, pair, number},
		"one_byte": {w.put("b", kindStruct, 0, 1)}, "eight": {w.put("e", kindStruct, 0, 8)}, "nine": {w.put("n", kindStruct, 0, 9)},
		"sixteen": {pair}, "seventeen": {w.put("s", kindUnion, 0, 17)}, "empty": {w.put("nil", kindStruct, 0, 0)},
		"pointer": {w.put("", kindPointer, 0, pair)}, "enum": {w.put("color", kindEnum, 0, 4)}, "enum64": {w.put("wide", kindEnum64, 0, 8)},
		"float": {w.put("double", kindFloat, 0, 8)}, "int128": {w.put("__int128", kindInt, 0, 16, 128)},
		"list": {number, 0}, "list_of_many": {number, number, number, number, number, number, 0},
	} {
		w.function(name, 0, params...)
	}
	im := w.image(t)
	for name, want := range map[string]int{
		"six": 6, "pairs": 6, "one_byte": 1, "eight": 1, "nine": 2, "sixteen": 2, "empty": 0, "pointer": 1, "enum": 1, "enum64": 1, "int128": 2,
	} {
		if p, err := im.Prototype(name); err != nil || p.Args != want || p.Uncounted != "" {
			t.Errorf("%s: %d registers, %v, want %d", name, p.Args, err, want)
		}
	}
	for name, why := range map[string]string{
		"seven": "more arguments than the six", "pairs_and_one": "more arguments than the six", "seventeen": "takes a union s in memory",
		"float": "takes a double in memory", "list": "variable number", "list_of_many": "variable number",
	} {
		if p, err := im.Prototype(name); err != nil || !strings.Contains(p.Uncounted, why) {
			t.Errorf("%s: %+v, %v, want %q", name, p, err, why)
		}
	}
	if p, err := im.Prototype("none"); err == nil || !strings.Contains(err.Error(), "do not know none") {
		t.Errorf("none: %+v, %v", p, err)
	}
	for name, want := range map[string]bool{"list": true, "list_of_many": true, "six": false, "none": false} {
		if got := im.Variadic(name); got != want {
			t.Errorf("%s takes a list: %v", name, got)
		}
	}
}

// A name of which only one function takes a list is not sure to print.
func TestFunctionsOfOneNameThatTakeAList(t *testing.T) {
	w := newTypeWriter()
	number := w.put("int", kindInt, 0, 4, encodingSigned|32)
	w.function("both", 0, number, 0)
	w.function("both", 0, 0)
	w.function("one", 0, number, 0)
	w.function("one", 0, number)
	w.function("nothing", 0)
	w.put("bad", kindFunc, 0, number)
	w.put("torn", kindFunc, 0, w.put("s", kindStruct, 1, 4, 0, 0, 0))
	im := w.image(t)
	for name, want := range map[string]bool{"both": true, "one": false, "nothing": false, "bad": false, "torn": false} {
		if got := im.Variadic(name); got != want {
			t.Errorf("%s takes a list: %v", name, got)
		}
	}
	if _, err := im.Prototype("bad"); err == nil || !strings.Contains(err.Error(), "the type of bad is damaged") {
		t.Errorf("a function whose type is a number: %v", err)
	}
}

// Functions of one name that differ in one part are told with both types.
func TestFunctionsOfOneNameWithDifferentTypes(t *testing.T) {
	w := newTypeWriter()
	number := w.put("int", kindInt, 0, 4, encodingSigned|32)
	wide := w.put("long", kindInt, 0, 8, encodingSigned|64)
	w.function("args", number, number)
	w.function("args", number, number, number)
	w.function("result", number, number)
	w.function("result", wide, number)
	w.function("same", number, number)
	w.function("same", number, wide)
	w.function("counted", number, number)
	w.function("counted", number, number, 0)
	im := w.image(t)
	for name, want := range map[string]string{"args": "int args(int) and int args(int, int)", "result": "int result(int) and long result(int)",
		"counted": "int counted(int) and int counted(int, ...)"} {
		if _, err := im.Prototype(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if p, err := im.Prototype("same"); err != nil || p.Text != "int same(int)" {
		t.Errorf("registers agree: %+v, %v", p, err)
	}
}

func TestTextOfTypes(t *testing.T) {
	w := newTypeWriter()
	number := w.put("int", kindInt, 0, 4, encodingSigned|32)
	array := w.put("", kindArray, 0, 0, number, number, 3)
	deep := number
	for range 20 {
		deep = w.put("", kindPointer, 0, deep)
	}
	for name, id := range map[string]uint32{
		"void *":           w.put("", kindPointer, 0, 0),
		"const int *":      w.put("", kindPointer, 0, w.put("", kindConst, 0, number)),
		"int * *":          w.put("", kindPointer, 0, w.put("", kindRestrict, 0, w.put("", kindPointer, 0, w.put("", kindVolatile, 0, number)))),
		"struct s *":       w.put("", kindPointer, 0, w.put("s", kindStruct, 0, 4)),
		"union u *":        w.put("", kindPointer, 0, w.put("u", kindUnion, 0, 4)),
		"enum e":           w.put("e", kindEnum, 0, 4),
		"enum e64":         w.put("e64", kindEnum64, 0, 8),
		"struct fwd *":     w.put("", kindPointer, 0, w.put("fwd", kindForward, 0, 0)),
		"function *":       w.put("", kindPointer, 0, w.put("", kindProto, 0, 0)),
		"char_t":           w.put("char_t", kindTypedef, 0, number),
		"int *":            w.put("", kindPointer, 0, w.put("user", kindTypeTag, 0, number)),
		"? *":              w.put("", kindPointer, 0, array),
		"?":                w.put("", kindEnum, 0, 4) + 1000,
		"?" + deepText(17): deep,
	} {
		w.function("f"+name, 0, id)
	}
	all, err := readTypes(w.encodeSection())
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range all.functions {
		k, _ := all.get(list[0])
		if got := all.typeText(le32(all.body[k.at+4:]), 0); got != name[1:] {
			t.Errorf("%q, not %q", got, name[1:])
		}
	}
}

func deepText(n int) string { return strings.Repeat(" *", n) }

// All kinds of types have the length that the next one begins behind.
func TestEachKindHasItsLength(t *testing.T) {
	for kind, words := range map[uint32]int{
		kindInt: 1, kindPointer: 0, kindArray: 3, kindStruct: 6, kindUnion: 6, kindEnum: 4, kindForward: 0, kindTypedef: 0, kindVolatile: 0,
		kindConst: 0, kindRestrict: 0, kindFunc: 0, kindProto: 4, kindVar: 1, kindDatasec: 6, kindFloat: 0, kindDeclTag: 1, kindTypeTag: 0, kindEnum64: 6,
	} {
		w := newTypeWriter()
		w.put("", kind, 2, 0, make([]uint32, words)...)
		w.function("last", 0, 1)
		all, err := readTypes(w.encodeSection())
		if err != nil || len(all.list) != 4 || len(all.functions["last"]) != 1 {
			t.Errorf("kind %d: %+v, %v", kind, all, err)
		}
		one := newTypeWriter()
		one.put("", kind, 2, 0, make([]uint32, words)...)
		if words == 0 {
			continue
		}
		one.types = one.types[:len(one.types)-1]
		if _, err := readTypes(one.encodeSection()); err == nil || !strings.Contains(err.Error(), "type 1 is of an unknown kind") {
			t.Errorf("kind %d without its last byte: %v", kind, err)
		}
	}
	for _, kind := range []uint32{0, 20, 31} {
		w := newTypeWriter()
		w.put("", kind, 0, 0)
		if _, err := readTypes(w.encodeSection()); err == nil || !strings.Contains(err.Error(), "type 1 is of an unknown kind") {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}

// The header's lengths may reach to the end of the section and no further.
func TestHeaderOfTypes(t *testing.T) {
	w := newTypeWriter()
	w.function("f", 0)
	whole := w.encodeSection()
	for name, c := range map[string]struct {
		at    int
		value uint32
		why   string
	}{
		"as it is":                   {0, le32(whole), ""},
		"another magic number":       {0, 0x01eb9e, "there are none"},
		"another version":            {0, 0x02eb9f, "there are none"},
		"types that end behind it":   {12, le32(whole[12:]) + uint32(len(w.names)) + 1, "outside of their section"},
		"names that end behind it":   {20, le32(whole[20:]) + 1, "outside of their section"},
		"names that end before it":   {20, le32(whole[20:]) - 1, ""},
		"types that begin later":     {8, uint32(len(whole)), "outside of their section"},
		"a header of another length": {4, uint32(len(whole)), "outside of their section"},
	} {
		b := append([]byte{}, whole...)
		le.PutUint32(b[c.at:], c.value)
		if _, err := readTypes(b); (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
	for n, why := range map[int]string{23: "there are none", 24: ""} {
		b := newTypeWriter().encodeSection()[:24]
		le.PutUint32(b[20:], 0)
		if _, err := readTypes(b[:n]); (err == nil) != (why == "") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A name is read up to its zero byte, if that comes within 512 bytes.
func TestNamesOfTypes(t *testing.T) {
	long := strings.Repeat("n", 511)
	all := &types{names: []byte("\x00a\x00" + long + "\x00" + long + "n\x00open")}
	for at, want := range map[uint32]string{0: "", 1: "a", 2: "", 3: long, 515: "", 516: long, 1028: "", 1032: "", 1 << 31: ""} {
		if got := all.name(at); got != want {
			t.Errorf("at %d is %q, not %q", at, got, want)
		}
	}
}

// Qualifiers are followed, but not in a circle, and a void behind them is a void.
func TestQualifiersInACircle(t *testing.T) {
	w := newTypeWriter()
	number := w.put("int", kindInt, 0, 4, encodingSigned|32)
	id := number
	for range 63 {
		id = w.put("again", kindTypedef, 0, id)
	}
	w.function("deep", id)
	w.function("deeper", w.put("again", kindTypedef, 0, id))
	circle := w.count + 1
	w.put("a", kindTypedef, 0, circle+1)
	w.put("b", kindConst, 0, circle)
	w.function("circle", circle)
	w.function("takes_circle", 0, circle)
	im := w.image(t)
	if p, err := im.Prototype("deep"); err != nil || p.Result != "int" {
		t.Errorf("63 names: %+v, %v", p, err)
	}
	for _, name := range []string{"deeper", "circle", "takes_circle"} {
		if p, err := im.Prototype(name); err == nil || !strings.Contains(err.Error(), "the type of "+name+" is damaged") {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// So many parameters as a function may have, and one more.
func TestParametersOfAFunction(t *testing.T) {
	w := newTypeWriter()
	empty := w.put("nil", kindStruct, 0, 0)
	many := make([]uint32, maxParams+1)
	for i := range many {
		many[i] = empty
	}
	w.function("most", 0, many[1:]...)
	w.function("more", 0, many...)
	im := w.image(t)
	if p, err := im.Prototype("most"); err != nil || p.Args != 0 {
		t.Errorf("%d parameters: %+v, %v", maxParams, p, err)
	}
	if _, err := im.Prototype("more"); err == nil || !strings.Contains(err.Error(), "the type of more is damaged") {
		t.Errorf("%d parameters: %v", maxParams+1, err)
	}
}
