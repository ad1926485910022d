// SPDX-License-Identifier: MIT

package uapi

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// sampleManifest returns dmmul(IN int n, IN int shape[n], IN double a[n*shape[1]], OUT string s).
func sampleManifest() *Manifest {
	n := []byte{byte(OpParam), 0, byte(OpEnd)}
	item := append(append([]byte{byte(OpParam), 0}, ConstCode(1)...), byte(OpItem), 1, byte(OpMul), byte(OpEnd))
	none := CodeDefault
	size := func(at int) Dim { return Dim{uint32(at), none, none, none} }
	return &Manifest{
		Name: "eigen", Code: append(append([]byte{}, n...), item...),
		Functions: []Function{
			{Name: "Initialize", Init: true, Params: []Param{{Name: "n", Type: Int, Mode: ModeIn}}},
			{Name: "dmmul", Params: []Param{
				{Name: "n", Type: Int, Mode: ModeIn},
				{Name: "shape", Type: Int, Mode: ModeIn, Dims: []Dim{size(0)}},
				{Name: "a", Type: Double, Mode: ModeInOut, Dims: []Dim{size(len(n)), {0, none, 0, none}}},
				{Name: "s", Type: String, Mode: ModeOut},
				{Name: "u", Type: Long, Unsigned: true, Mode: ModeOut},
			}},
		},
	}
}

func encodeSample(t testing.TB) []byte {
	t.Helper()
	b, err := sampleManifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestManifestRoundTrip(t *testing.T) {
	m, err := ParseManifest(encodeSample(t))
	if err != nil {
		t.Fatal(err)
	}
	want := sampleManifest()
	if m.Name != want.Name || !bytes.Equal(m.Code, want.Code) || len(m.Functions) != 2 {
		t.Fatalf("%+v", m)
	}
	for i := range want.Functions {
		for j, p := range want.Functions[i].Params {
			got := m.Functions[i].Params[j]
			if got.Name != p.Name || got.Type != p.Type || got.Unsigned != p.Unsigned || got.Mode != p.Mode || len(got.Dims) != len(p.Dims) || len(p.Dims) > 0 && !reflect.DeepEqual(got.Dims, p.Dims) {
				t.Errorf("%+v, not %+v", got, p)
			}
		}
	}
	if m.Lookup("dmmul") != 1 || m.Lookup("none") != -1 || m.Initialize() != 0 {
		t.Error("functions are not found")
	}
}

// Offsets in the sample, to damage it at known places.
const (
	firstFunction = 88
	firstParam    = 88 + 2*80
	shapeParam    = firstParam + 2*136
	code          = firstParam + 6*136
)

func TestHostileManifests(t *testing.T) {
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	put8 := func(at int, v byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	for name, damage := range map[string]func([]byte) []byte{
		"empty":                    func([]byte) []byte { return nil },
		"cut":                      func(b []byte) []byte { return b[:len(b)-1] },
		"longer":                   func(b []byte) []byte { return append(b, 0) },
		"huge":                     func(b []byte) []byte { return append(b, make([]byte, ManifestMax)...) },
		"magic":                    put8(0, 0),
		"revision":                 put32(8, 2),
		"many functions":           put32(12, ^uint32(0)),
		"many params":              put32(16, 0x80000000),
		"much code":                put32(20, ^uint32(0)),
		"no name":                  put8(24, 0),
		"name without end":         func(b []byte) []byte { copy(b[24:], strings.Repeat("x", 64)); return b },
		"bytes behind a name":      put8(24+60, 1),
		"control in a name":        put8(24, 7),
		"slash in a name":          put8(24, '/'),
		"first parameter":          put32(firstFunction+64, 1),
		"parameters of a function": put32(firstFunction+68, 2),
		"function flags":           put32(firstFunction+72, 3),
		"unknown function flags":   put32(firstFunction+72, 32),
		"ranks without a number":   func(b []byte) []byte { b[firstParam+136+64] = byte(Long); return put32(firstFunction+80+72, 2)(b) },
		"a method of no class":     put32(firstFunction+76, 1),
		"two Initialize":           put32(firstFunction+80+72, 1),
		"type":                     put8(firstParam+64, 12),
		"type zero":                put8(firstParam+64, 0),
		"unsigned double":          put8(firstParam+64, byte(Double)|TypeUnsigned),
		"mode":                     put8(firstParam+65, 5),
		"mode zero":                put8(firstParam+65, 0),
		"dims":                     put8(firstParam+66, 5),
		"pad":                      put8(firstParam+67, 1),
		"size not given":           put32(shapeParam+72, CodeDefault),
		"size outside":             put32(shapeParam+72, 1<<20),
		"stride at the end":        put32(shapeParam+84, 1<<16),
		"unknown instruction":      put8(code, 99),
		"parameter in code":        put8(code+1, 200),
		"parameter is an array":    put8(code+1, 1),
		"no end":                   put8(code+2, byte(OpParam)),
		"end at once":              put8(code, byte(OpEnd)),
		"item of a scalar":         put8(code+3+2+9+1, 0),
		"item of doubles":          put8(code+3+2+9+1, 2),
		"too few values":           put8(code+3, byte(OpMul)),
		"last end gone":            func(b []byte) []byte { b[len(b)-1] = byte(OpConst); return b },
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := ParseManifest(damage(encodeSample(t))); err == nil {
				t.Errorf("accepted: %+v", m)
			}
		})
	}
}

func TestEncodeRefusesWhatCannotBeRead(t *testing.T) {
	long := strings.Repeat("x", NameMax)
	for name, change := range map[string]func(*Manifest){
		"module name":    func(m *Manifest) { m.Name = long },
		"function name":  func(m *Manifest) { m.Functions[1].Name = long },
		"parameter name": func(m *Manifest) { m.Functions[1].Params[0].Name = long },
		"twice":          func(m *Manifest) { m.Functions[1].Name = "Initialize" },
		"dimensions":     func(m *Manifest) { m.Functions[1].Params[2].Dims = make([]Dim, 5) },
		"parameters":     func(m *Manifest) { m.Functions[1].Params = make([]Param, ParamsMax+1) },
	} {
		m := sampleManifest()
		change(m)
		if _, err := m.Encode(); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

// buildProgram compiles a C program that has b in the section, or no section.
func buildProgram(t *testing.T, b []byte, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source := "int main(void) { return 0; }\n"
	if b != nil {
		source += "__attribute__((section(\".skep.module\"), used)) static const unsigned char m[] = {"
		for _, c := range b {
			source += "0x" + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]) + ","
		}
		source += "};\n"
	}
	name, program := filepath.Join(dir, "w.c"), filepath.Join(dir, "w")
	if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", append(flags, "-o", program, name)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func TestManifestOfAProgram(t *testing.T) {
	read := func(name string) (*Manifest, []byte, error) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return ReadManifest(f)
	}
	m, raw, err := read(buildProgram(t, encodeSample(t), "-static"))
	if err != nil || m.Name != "eigen" || !bytes.Equal(raw, encodeSample(t)) {
		t.Fatalf("%+v, %v", m, err)
	}
	for name, want := range map[string]struct {
		program, text string
	}{
		"dynamic":       {buildProgram(t, encodeSample(t)), "-static"},
		"no section":    {buildProgram(t, nil, "-static"), "skep gen"},
		"bad section":   {buildProgram(t, []byte("garbage"), "-static"), "too few"},
		"not a program": {buildProgram(t, encodeSample(t), "-c"), "not a program"},
		"no ELF":        {"uapi_test.go", "not an ELF"},
	} {
		if _, _, err := read(want.program); err == nil || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Limits are in a section of their own.
func TestLimitsOfAProgram(t *testing.T) {
	read := func(section string) (Limits, error) {
		header := filepath.Join(t.TempDir(), "limits.h")
		if err := os.WriteFile(header, []byte("__attribute__((section(\".skep.limits\"), used)) static const "+section+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(buildProgram(t, encodeSample(t), "-static", "-include", header))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, _, err := ReadManifest(f)
		if err != nil {
			return Limits{}, err
		}
		return m.Limits, nil
	}
	if l, err := read("unsigned long long l[5] = {1, 2, 3, 1000000000000, 5};"); err != nil || l != (Limits{1, 2, 3, LimitTimeMax, 5}) {
		t.Errorf("%+v, %v", l, err)
	}
	for section, want := range map[string]string{
		"unsigned long long l[4] = {1};":                      "the limits of the module",
		"unsigned long long l[6] = {1};":                      "the limits of the module",
		"unsigned long long l[5] = {0, 0, 1000000000001};":    "more than",
		"unsigned long long l[5] = {0, 0, 0, 1000000000001};": "more than",
	} {
		if l, err := read(section); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", section, l, err)
		}
	}
}

func TestPayloadsRoundTrip(t *testing.T) {
	e := Errorf(EWorker, "it %s", "died")
	if got, err := ParseError(e.Encode()); err != nil || *got != *e {
		t.Errorf("%+v, %v", got, err)
	}
	i := Init{3, 1 << 40, "/tmp/a b", [32]byte{1, 31: 2}}
	if got, err := ParseInit(i.Encode()); err != nil || got != i {
		t.Errorf("%+v, %v", got, err)
	}
	b := Bound{7, []byte("manifest")}
	if got, err := ParseBound(b.Encode()); err != nil || got.Module != 7 || string(got.Manifest) != "manifest" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, e.Encode()[:9], append(e.Encode(), 0)} {
		if _, err := ParseError(bad); err == nil {
			t.Errorf("%x was taken", bad)
		}
	}
	if _, err := DecodeExact[Call](make([]byte, 17)); err == nil {
		t.Error("a byte too many was taken")
	}
	var r Result
	r.SetNode(strings.Repeat("n", 100))
	if len(r.NodeName()) != 63 {
		t.Errorf("a name of %d bytes", len(r.NodeName()))
	}
	for s := SubstrateLinux; s <= SubstrateBare; s++ {
		if got, err := ParseSubstrate(s.String()); err != nil || got != s {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add(encodeSample(f))
	f.Add([]byte{})
	f.Add(encodeSample(f)[:firstParam])
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseManifest(b)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatalf("what was accepted cannot be encoded: %v", err)
		}
		// Unused dimensions may hold anything; the rest must be equal.
		if len(again) != len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(again))
		}
	})
}

func FuzzParseFrame(f *testing.F) {
	f.Add(Append(nil, Frame{3, TypeData, FlagLast, 9}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseFrame(b)
		if err != nil {
			return
		}
		if !bytes.Equal(Append(nil, h), b[:FrameSize]) || h.Length > FrameMax {
			t.Fatalf("%+v of %x", h, b)
		}
		var out [FrameSize]byte
		PutFrame(out[:], h)
		if !bytes.Equal(out[:], b[:FrameSize]) {
			t.Fatalf("%x became %x", b, out)
		}
	})
}
