// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"

	"skep/internal/lazy"
)

// A Mismatch is a difference between a file compiled here and the image.
type Mismatch struct {
	Path   string // of the source
	Symbol string
	Offset uint64 // into it
	Reason string
}

func (m *Mismatch) Error() string {
	at := m.Path
	if m.Symbol != "" {
		at += ": " + m.Symbol
		if m.Offset != 0 {
			at += fmt.Sprintf("+%#x", m.Offset)
		}
	}
	return fmt.Sprintf("%s: %s: the source, the compiler or the configuration is not what this kernel was made of", at, m.Reason)
}

// A File is one file of the kernel whose place in the image is proved.
type File struct {
	Path      string
	Functions map[string]*Function
	// Symbols are where the image has all that the file's code refers to,
	// be it of this file or of others.
	Symbols map[string]uint64
}

// A Function is one of the kernel's own.
type Function struct {
	Name    string
	Addr    uint64
	Size    int    // as the kernel counts: up to the next symbol
	Traced  bool   // ftrace can step in
	Init    bool   // its text is freed once the kernel is up
	Returns bool   // false: no way out of it was found
	Digest  string // SHA-256 of its text, the place of ftrace's call zero
}

// splitSections are those that the compiler makes one of for each function
// when it is told to. The image was compiled without: there, functions of a
// file lie in one section, and near jumps between them are short.
var splitSections = lazy.Regexp(`(?m)^\t\.section\t\.text(\.[A-Za-z0-9_.$]+)(,"ax",@progbits)?$`)

// kinds of code have sections of their own in either case.
var kinds = []string{".unlikely", ".hot", ".startup", ".exit"}

// FoldSections undoes -ffunction-sections in the compiler's assembly.
func FoldSections(text []byte) []byte {
	return splitSections().ReplaceAllFunc(text, func(line []byte) []byte {
		m := splitSections().FindSubmatch(line)
		kind := ""
		for _, k := range kinds {
			if rest, ok := strings.CutPrefix(string(m[1]), k); ok && (rest == "" || rest[0] == '.') {
				kind = k
			}
		}
		return fmt.Appendf(nil, "\t.section\t.text%s%s", kind, m[2])
	})
}

// Gate proves that the image was built from an object: that each of its
// functions stands in the image byte by byte, each reference leads to where the
// kernel has that name, and constants and initial values are the same: those
// that are referred to, and those that have a name of their own. Code outside
// of functions, as what alternatives are made of, has no place that could be
// found. The object is folded assembly of the unchanged source.
func (im *Image) Gate(path string, object []byte) (*File, error) {
	o, err := readObject(object)
	if err != nil {
		return nil, &Mismatch{Path: path, Reason: "its object cannot be compared: " + err.Error()}
	}
	g := &gate{im: im, o: o, path: path, base: map[int]uint64{}, symbols: map[string]uint64{}}
	if err := g.placeText(); err != nil {
		return nil, err
	}
	for i, s := range o.sections {
		if _, placed := g.base[i]; placed && s.isCode() {
			if err := g.compare(i); err != nil {
				return nil, err
			}
		}
	}
	if err := g.compareData(); err != nil {
		return nil, err
	}
	g.placeData()
	if err := g.compareData(); err != nil {
		return nil, err
	}
	return g.result()
}

// A gate is one object on its way through.
type gate struct {
	im      *Image
	o       *object
	path    string
	base    map[int]uint64    // where the image has a section of the object
	symbols map[string]uint64 // where the image has a symbol
	queue   []int             // sections of data to compare
}

func (g *gate) mismatchf(symbol string, offset uint64, format string, args ...any) error {
	return &Mismatch{g.path, symbol, offset, fmt.Sprintf(format, args...)}
}

// placeText finds each section of code in the image: a linker moves it as a
// whole, so all its functions must have moved by the same distance. Names that
// several files use are decided by those that only this one has.
func (g *gate) placeText() error {
	for i, s := range g.o.sections {
		if !s.isCode() {
			continue
		}
		functions := g.o.functionsIn(i)
		if len(functions) == 0 {
			continue
		}
		base, ok := g.placeSection(functions)
		if !ok {
			return g.firstDifference(i, functions)
		}
		g.base[i] = base
	}
	return nil
}

// firstDifference reports why a section has no place in the image, as well as
// that can be told: distances between functions count as well.
func (g *gate) firstDifference(n int, functions []symbol) error {
	s := g.o.sections[n]
	free := make([]bool, len(s.data))
	for _, r := range s.relocs {
		for i := range uint64(r.size()) {
			free[min(r.offset+i, uint64(len(free)-1))] = true
		}
		free[max(r.offset, 1)-1] = free[max(r.offset, 1)-1] || g.o.symbols[r.symbol].name == "__fentry__"
	}
	for _, j := range g.o.jumps[n] {
		for i := j; i < min(j+5, uint64(len(free))); i++ {
			free[i] = true
		}
	}
	for _, f := range functions {
		list := g.im.Named(f.name)
		if f.weak {
			continue
		}
		if len(list) == 0 {
			return g.mismatchf(f.name, 0, "the image has no such function")
		}
		want, _ := g.im.bytesFrom(list[0].Addr)
		for i := range min(f.size, uint64(len(want))) {
			at := f.value + i
			if len(list) == 1 && at < uint64(len(s.data)) && !free[at] && s.data[at] != want[i] {
				return g.mismatchf(f.name, i, "it has other bytes in the image")
			}
		}
	}
	return g.mismatchf(functions[0].name, 0, "the image has no place where all functions of %s lie as they do here", s.Name)
}

func (g *gate) placeSection(functions []symbol) (uint64, bool) {
	candidates := map[uint64]bool{}
	rarest := -1
	for n, f := range functions {
		if f.weak {
			continue // another file's may have won
		}
		if rarest < 0 || len(g.im.byName[f.name]) < len(g.im.byName[functions[rarest].name]) {
			rarest = n
		}
	}
	if rarest < 0 {
		rarest = 0
	}
	for _, s := range g.im.Named(functions[rarest].name) {
		candidates[s.Addr-functions[rarest].value] = true
	}
	var found []uint64
	for base := range candidates {
		if g.allAt(functions, base) {
			found = append(found, base)
		}
	}
	if len(found) > 1 {
		// Only copies of the same functions can be here: take the one whose
		// bytes agree, of which compare tells.
		found = g.sameText(functions, found)
	}
	if len(found) != 1 {
		return 0, false
	}
	return found[0], true
}

func (g *gate) allAt(functions []symbol, base uint64) bool {
	for _, f := range functions {
		if _, ok := g.im.Position(f.name, base+f.value); !ok && !f.weak {
			return false
		}
	}
	return true
}

func (g *gate) sameText(functions []symbol, bases []uint64) []uint64 {
	var same []uint64
	for _, base := range bases {
		trial := &gate{im: g.im, o: g.o, path: g.path, base: map[int]uint64{functions[0].section: base}, symbols: map[string]uint64{}}
		if trial.compare(functions[0].section) == nil {
			same = append(same, base)
		}
	}
	return same
}

// compare holds one section of the object against the image.
func (g *gate) compare(n int) error {
	s := g.o.sections[n]
	base := g.base[n]
	want, ok := g.im.Bytes(base, len(s.data))
	if !ok {
		return g.mismatchf(g.o.nameAt(n, 0), 0, "%s goes beyond the image", s.Name)
	}
	free := make([]bool, len(s.data)) // bytes that need not be the same
	if s.isCode() {
		g.freeGaps(n, free)
	}
	for _, r := range s.relocs {
		if err := g.checkReloc(n, r, base, want, free); err != nil {
			return err
		}
	}
	for _, j := range g.o.jumps[n] {
		freeJump(s.data, want, free, j)
	}
	for i := range s.data {
		if s.data[i] != want[i] && !free[i] {
			name, at := g.o.symbolAt(n, uint64(i))
			return g.mismatchf(name, at, "it has other bytes in the image")
		}
	}
	return nil
}

// freeGaps frees what is no part of a function: padding, which the linker
// fills in its own way.
func (g *gate) freeGaps(n int, free []bool) {
	for i := range free {
		free[i] = true
	}
	for _, f := range g.o.functionsIn(n) {
		for i := f.value; i < f.value+f.size && i < uint64(len(free)); i++ {
			free[i] = false
		}
	}
}

// freeJump: a branch on a static key is a jump in the assembly; objtool makes
// a no-op of it for a key that starts as false.
func freeJump(data, want []byte, free []bool, at uint64) {
	for _, form := range []struct {
		op   byte
		noop string
	}{{0xeb, "\x66\x90"}, {0xe9, "\x0f\x1f\x44\x00\x00"}} {
		end := at + uint64(len(form.noop))
		if end > uint64(len(data)) || data[at] != form.op || string(want[at:end]) != form.noop {
			continue
		}
		for i := at; i < end; i++ {
			free[i] = true
		}
	}
}

// checkReloc reads out of the image what the linker wrote for a relocation, and
// learns or checks with it where the symbol is.
func (g *gate) checkReloc(n int, r reloc, base uint64, want []byte, free []bool) error {
	name, at := g.o.symbolAt(n, r.offset)
	size := r.size()
	if size == 0 || r.offset+uint64(size) > uint64(len(want)) {
		return g.mismatchf(name, at, "its relocation of type %d is of no use in a kernel", r.kind)
	}
	for i := range size {
		free[r.offset+uint64(i)] = true
	}
	to := g.o.symbols[r.symbol]
	if to.name == "__fentry__" {
		// The call is written when the kernel starts; before, it is a no-op.
		if r.offset == 0 || string(want[r.offset-1:r.offset+4]) != "\x0f\x1f\x44\x00\x00" && want[r.offset-1] != 0xe8 {
			return g.mismatchf(name, at, "the image has no call of ftrace here")
		}
		free[r.offset-1] = true
		return nil
	}
	if g.isReplacedJump(n, r, want) {
		return nil
	}
	addr := r.target(want[r.offset:], base+r.offset)
	if to.name == "" && to.isDefined() && g.o.sections[to.section].isMergeable() {
		// The assembler names a string by its section only where it stands
		// in data; in code, where the addend counts from the next instruction,
		// it keeps the label.
		to.value, addr = to.value+uint64(r.addend), addr+uint64(r.addend)
	}
	return g.learnSymbol(to, addr, name, at)
}

// isReplacedJump reports whether a relocation belongs to a jump that objtool replaced. That it
// is a jump is seen when the bytes are compared.
func (g *gate) isReplacedJump(n int, r reloc, want []byte) bool {
	for _, j := range g.o.jumps[n] {
		if r.offset == j+1 && want[j] == 0x0f {
			return true
		}
	}
	return false
}

// learnSymbol notes that the image has a symbol at an address.
func (g *gate) learnSymbol(s symbol, addr uint64, in string, at uint64) error {
	if !s.isDefined() || s.weak { // of a weak one, another file may have the real one
		if old, ok := g.symbols[s.name]; ok && old != addr {
			return g.mismatchf(in, at, "the image refers to two places where this refers to %s", s.name)
		}
		g.symbols[s.name] = addr
		if _, ok := g.im.Position(s.name, addr); !ok && len(g.im.byName[s.name]) > 0 {
			return g.mismatchf(in, at, "the image refers to %s, this to %s", g.im.describeAddr(addr), s.name)
		}
		return nil
	}
	section := g.o.sections[s.section]
	if section.isMergeable() {
		return g.checkLiteral(s, addr, in, at)
	}
	base := addr - s.value
	old, ok := g.base[s.section]
	if ok && old != base {
		return g.mismatchf(in, at, "the image refers to %s, this to %s", g.im.describeAddr(addr), g.o.nameOf(s))
	}
	if !ok {
		g.base[s.section] = base
		if !section.isCode() {
			g.queue = append(g.queue, s.section)
		}
	}
	return nil
}

// checkLiteral compares strings and constants, which the linker merges: each has a
// place of its own.
func (g *gate) checkLiteral(s symbol, addr uint64, in string, at uint64) error {
	section := g.o.sections[s.section]
	if s.value > uint64(len(section.data)) {
		return g.mismatchf(in, at, "it refers beyond %s", section.Name)
	}
	want := section.data[s.value:]
	if section.Flags&elf.SHF_STRINGS != 0 {
		end := bytes.IndexByte(want, 0)
		want = want[:end+1]
	} else if section.Entsize > 0 && section.Entsize <= uint64(len(want)) {
		want = want[:section.Entsize]
	}
	if got, ok := g.im.Bytes(addr, len(want)); !ok || !bytes.Equal(got, want) {
		return g.mismatchf(in, at, "the image has another text or constant than %.40q", want)
	}
	return nil
}

// compareData holds the variables against the image that code refers to, and
// those that these refer to.
func (g *gate) compareData() error {
	for len(g.queue) > 0 {
		n := g.queue[0]
		g.queue = g.queue[1:]
		if err := g.checkNamed(n); err != nil {
			return err
		}
		s := g.o.sections[n]
		// What tools write into the finished kernel is zero in objects.
		if len(s.data) == 0 || strings.HasPrefix(s.Name, ".BTF_ids") {
			continue
		}
		if err := g.compare(n); err != nil {
			return err
		}
	}
	return nil
}

// placeData finds the variables that nothing of the file refers to, as tables
// that others use: by a name that the image has once.
func (g *gate) placeData() {
	for n, s := range g.o.sections {
		if _, placed := g.base[n]; placed || s.isCode() || s.isMergeable() || len(s.data) == 0 ||
			!strings.HasPrefix(s.Name, ".data") && !strings.HasPrefix(s.Name, ".rodata") || strings.HasPrefix(s.Name, ".data..percpu") {
			continue
		}
		for _, v := range g.o.symbols {
			if v.section == n && v.object && !v.weak && !v.isLocal() && len(g.im.byName[v.name]) == 1 {
				g.base[n] = g.im.Symbols[g.im.byName[v.name][0]].Addr - v.value
				g.queue = append(g.queue, n)
				break
			}
		}
	}
}

// checkNamed checks that the kernel's table has the variables of a section where
// the references lead to.
func (g *gate) checkNamed(n int) error {
	for _, s := range g.o.symbols {
		if s.section != n || !s.object || s.isLocal() {
			continue
		}
		addr := g.base[n] + s.value
		if _, ok := g.im.Position(s.name, addr); !ok && len(g.im.byName[s.name]) > 0 {
			return g.mismatchf(s.name, 0, "the image has %s in its place", g.im.describeAddr(addr))
		}
		g.symbols[s.name] = addr
	}
	return nil
}

// describeAddr names what is at an address.
func (im *Image) describeAddr(addr uint64) string {
	i := sort.Search(len(im.Symbols), func(i int) bool { return im.Symbols[i].Addr > addr })
	if i == 0 {
		return fmt.Sprintf("%#x", addr)
	}
	s := im.Symbols[i-1]
	if s.Addr == addr {
		return s.Name
	}
	return fmt.Sprintf("%s+%#x", s.Name, addr-s.Addr)
}

// result returns what was proved.
func (g *gate) result() (*File, error) {
	f := &File{Path: g.path, Functions: map[string]*Function{}, Symbols: g.symbols}
	for n := range g.o.sections {
		base, ok := g.base[n]
		if !ok || !g.o.sections[n].isCode() {
			continue
		}
		for _, s := range g.o.functionsIn(n) {
			addr := base + s.value
			if _, ok := g.im.Position(s.name, addr); !ok && s.weak {
				continue // another file's has won
			}
			g.symbols[s.name] = addr
			function, err := g.im.functionAt(s.name, addr)
			if err != nil {
				return nil, g.mismatchf(s.name, 0, "%v", err)
			}
			function.Returns = g.o.canReturn(n, s)
			f.Functions[s.name] = function
		}
	}
	return f, nil
}

// Function tells of one that nothing was proved of: Returns is not looked at.
func (im *Image) Function(s Symbol) (*Function, error) { return im.functionAt(s.Name, s.Addr) }

func (im *Image) functionAt(name string, addr uint64) (*Function, error) {
	size, ok := im.Size(addr)
	if !ok {
		return nil, fmt.Errorf("the kernel's table does not tell its length")
	}
	text, ok := im.Bytes(addr, size)
	if !ok {
		return nil, fmt.Errorf("it lies outside of the image")
	}
	f := &Function{Name: name, Addr: addr, Size: size, Init: im.Init(addr)}
	text = bytes.Clone(text)
	if at, ok := im.Traced(addr); ok && at+5-addr <= uint64(size) {
		f.Traced = true
		copy(text[at-addr:], make([]byte, 5))
	}
	sum := sha256.Sum256(text)
	f.Digest = hex.EncodeToString(sum[:])
	return f, nil
}
