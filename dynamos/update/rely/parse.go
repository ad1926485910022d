// SPDX-License-Identifier: MIT

package rely

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"skep/internal/lazy"
)

// A place is memory that outlives a call: a member of a structure, or a variable of the
// kernel (owner "").
type place struct{ owner, path string }

func (p place) String() string {
	if p.owner == "" {
		return "the variable " + p.path
	}
	return p.owner + "." + p.path
}

// An argument is what a call passes on: where it points to, of what type that is, and
// where the pointer was read.
type argument struct {
	to, from []place
	kind     string // the structure that it points to, or ""
}

// A step is one statement, as the compiler split it.
type step struct {
	file       string
	line       int
	sets, uses []place
	clears     bool   // what it sets becomes 0
	call       string // the function that is called; "": none, or by a pointer
	args       []argument
	points     []string // functions whose address it takes
	makes      string   // the structure that the result points to
	block      int      // of its function
}

// A function is one of a file, or an inline one of a header.
type function struct {
	name  string
	file  string
	steps []step
	first int           // block of steps
	next  map[int][]int // which blocks of steps may follow one
}

var (
	location   = lazy.Regexp(`\[([^\[\]: ]+):(\d+):\d+(?: discrim \d+)?\] ?`)
	heading    = lazy.Regexp(`^([A-Za-z_][A-Za-z0-9_.]*) \((.*)\)$`)
	declared   = lazy.Regexp(`^  ([A-Za-z_].*?)([A-Za-z_][A-Za-z0-9_]*)(?: ?\[.*\])?;$`)
	numbered   = lazy.Regexp(`^(.*?)_\d+$`)
	memory     = lazy.Regexp(`__MEM <((?:[^<>]|<[^<>]*>)*)> \(`)
	nameless   = lazy.Regexp(`\.?\bD[._]\d+`)
	called     = lazy.Regexp(`^([A-Za-z_][A-Za-z0-9_.]*) \((.*)\)$`)
	structure  = lazy.Regexp(`^(?:const |volatile )*((?:struct |union )?[A-Za-z_][A-Za-z0-9_]*)`)
	isZero     = lazy.Regexp(`^(?:_Literal \(.*\) )?0[ul]*$`)
	words      = lazy.Regexp(`[A-Za-z_][A-Za-z0-9_]*`)
	blockStart = lazy.Regexp(`^__BB\((\d+)[^:]*:$`)
	asmMemory  = lazy.Regexp(`"([^"]*)" ((?:[^",:]|->)+)`)
)

// A reader reads what the compiler tells of one function after another.
type reader struct {
	out     map[string]*function
	members map[place]string // the structure that a member is

	now    *function
	block  int
	ended  bool                // the block goes on where it says, and not to the next
	labels map[string]int      // blocks by name
	jumps  map[int]string      // what a block says of where it goes on
	types  map[string]string   // of parameters and variables
	values map[string]argument // by the compiler's names
}

func newReader() *reader {
	return &reader{out: map[string]*function{}, members: map[place]string{}}
}

// readDump adds the functions of a file's dump.
func (r *reader) readDump(text string) {
	body, head, open := false, "", ""
	var list []*function
	for line := range strings.Lines(text) {
		line = open + strings.TrimRight(line, "\n")
		open = ""
		switch {
		case body && isOpen(line): // assembly of several lines
			open = line + " "
		case !body && line == "{":
			r.begin(head)
			body = true
		case body && line == "}":
			list = append(list, r.end())
			body = false
		case !body:
			head = line
		default:
			r.readLine(line)
		}
	}
	r.addFunctions(list)
}

// addFunctions adds those of one file. Static functions of two files may have one name; an
// inline function of a header is the same in both.
func (r *reader) addFunctions(list []*function) {
	other := map[string]string{}
	for _, f := range list {
		if had := r.out[f.name]; had != nil && had.file != f.file {
			other[f.name] = f.name + " of " + f.file
		}
	}
	for _, f := range list {
		name := f.name
		if other[name] != "" {
			f.name = other[name]
		}
		for i := range f.steps {
			if to := other[f.steps[i].call]; to != "" {
				f.steps[i].call = to
			}
		}
		if r.out[f.name] == nil {
			r.out[f.name] = f
		}
	}
}

// isOpen reports whether a text begins in a line and does not end there.
func isOpen(line string) bool {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && quoted:
			i++
		case line[i] == '"':
			quoted = !quoted
		}
	}
	return quoted
}

func (r *reader) begin(head string) {
	r.now, r.types, r.values = &function{next: map[int][]int{}}, map[string]string{}, map[string]argument{}
	r.block, r.ended, r.labels, r.jumps = 0, false, map[string]int{}, map[int]string{}
	m := heading().FindStringSubmatch(head)
	if m == nil {
		return
	}
	r.now.name = m[1]
	for _, p := range splitList(m[2]) {
		if d := declared().FindStringSubmatch("  " + p + ";"); d != nil {
			r.types[d[2]] = strings.TrimSpace(d[1])
		}
	}
}

// readFlow reads where blocks begin and go on.
func (r *reader) readFlow(line string) {
	text := strings.TrimSpace(location().ReplaceAllString(line, ""))
	if m := blockStart().FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		if !r.ended {
			r.now.next[r.block] = append(r.now.next[r.block], n)
		}
		if len(r.labels) == 0 {
			r.now.first = n
		}
		r.block, r.ended = n, false
		r.labels["__BB"+m[1]] = n
	} else if name, ok := strings.CutSuffix(text, ":"); ok && !strings.Contains(name, " ") {
		r.labels[name] = r.block
	}
	if hasOne(text, "goto ", "switch ") {
		r.jumps[r.block] += " " + text
	}
	r.ended = r.ended || hasOne(text, "goto __BB", "switch ", "return")
}

func hasOne(text string, begins ...string) bool {
	return slices.ContainsFunc(begins, func(b string) bool { return strings.HasPrefix(text, b) || b == "goto " && strings.Contains(text, b) })
}

// end connects the blocks of a function.
func (r *reader) end() *function {
	for block, text := range r.jumps {
		for _, w := range words().FindAllString(text, -1) {
			if to, ok := r.labels[w]; ok {
				r.now.next[block] = append(r.now.next[block], to)
			}
		}
	}
	return r.now
}

func (r *reader) readLine(line string) {
	r.readFlow(line)
	at := location().FindStringSubmatch(line)
	if at == nil {
		if m := declared().FindStringSubmatch(line); m != nil {
			r.types[m[2]] = strings.TrimSpace(m[1])
		}
		return
	}
	s := step{block: r.block, file: path.Clean(at[1])}
	if r.now.file == "" {
		r.now.file = s.file
	}
	s.line, _ = strconv.Atoi(at[2])
	text := strings.TrimSuffix(strings.TrimSpace(location().ReplaceAllString(line, "")), ";")
	text = memory().ReplaceAllStringFunc(text, func(m string) string { return strings.ReplaceAll(m, " ", "~") })
	switch {
	case strings.HasPrefix(text, "__asm__"):
		r.readAssembly(&s, text)
	case strings.HasPrefix(text, "if ") || strings.HasPrefix(text, "goto ") || strings.HasPrefix(text, "//"):
	default:
		to, from, assigns := strings.Cut(text, " = ")
		if !assigns || strings.Contains(to, "\"") {
			to, from = "", text
		}
		if strings.Contains(from, ".DEFERRED_INIT") || strings.HasPrefix(from, "{CLOBBER") {
			return
		}
		r.readAssignment(&s, to, strings.TrimPrefix(from, "return "))
	}
	if len(s.sets)+len(s.uses)+len(s.points)+len(s.args) > 0 || s.call != "" {
		r.now.steps = append(r.now.steps, s)
	}
}

// readAssembly takes what assembly in the source writes as both written and read.
func (r *reader) readAssembly(s *step, text string) {
	for _, m := range asmMemory().FindAllStringSubmatch(text, -1) {
		places, _ := r.readPlace(strings.TrimSpace(m[2]))
		s.uses = append(s.uses, places...)
		if strings.Contains(m[1], "=") || strings.Contains(m[1], "+") {
			s.sets = append(s.sets, places...)
		}
	}
}

func (r *reader) readAssignment(s *step, to, from string) {
	var v argument
	if m := called().FindStringSubmatch(from); m != nil && !isPhi(m[1]) {
		if _, local := r.typeOf(m[1]); !local {
			s.call = m[1]
		}
		for _, a := range splitList(m[2]) {
			s.args = append(s.args, r.readValue(s, a))
		}
		if typ, ok := r.typeOf(to); ok {
			s.makes = pointee(typ)
		}
	} else if !isPhi(from) {
		for _, word := range splitWords(from) {
			v = r.readValue(s, word)
		}
	}
	if to == "" {
		return
	}
	if typ, local := r.typeOf(to); local {
		r.values[to] = v
		for _, p := range v.to {
			if k := pointee(typ); k != "" {
				r.members[p] = k
			}
		}
		return
	}
	places, _ := r.readPlace(to)
	s.sets = append(s.sets, places...)
	s.clears = isZero().MatchString(from)
}

func isPhi(text string) bool { return strings.HasPrefix(text, "__PHI") }

// readValue reads an operand, and notes what it reads of memory.
func (r *reader) readValue(s *step, word string) argument {
	if strings.HasPrefix(word, "_Literal") || strings.HasPrefix(word, "\"") {
		return argument{}
	}
	if typ, local := r.typeOf(word); local {
		v := r.values[word]
		if k := pointee(typ); k != "" {
			v.kind = k
		}
		return v
	}
	places, address := r.readPlace(word)
	if address {
		if r.isGlobal(word[1:]) { // a function, or a variable, which none is called by
			s.points = append(s.points, word[1:])
		}
		return argument{to: places}
	}
	s.uses = append(s.uses, places...)
	return argument{from: places}
}

func (r *reader) isGlobal(name string) bool {
	_, local := r.typeOf(name)
	return !local && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// typeOf returns the type of a parameter, variable or value of the function.
func (r *reader) typeOf(word string) (string, bool) {
	word = strings.TrimSuffix(word, "(D)")
	if t, ok := r.types[word]; ok {
		return t, true
	}
	if m := numbered().FindStringSubmatch(word); m != nil {
		t, ok := r.types[m[1]]
		return t, ok
	}
	return "", false
}

// pointee is the structure that a type points to, or "".
func pointee(typ string) string {
	typ = strings.TrimSpace(typ)
	inner, ok := strings.CutSuffix(typ, "*")
	if !ok || strings.HasSuffix(strings.TrimSpace(inner), "*") || strings.Contains(inner, "(") {
		return ""
	}
	return structureOf(inner)
}

// plainTypes are types that tell nothing of what a pointer to them leads to.
var plainTypes = map[string]bool{"void": true, "char": true, "signed": true, "unsigned": true, "short": true, "int": true, "long": true,
	"u8": true, "u16": true, "u32": true, "u64": true, "_Bool": true, "bool": true, "__u8": true, "__u16": true, "__u32": true, "__u64": true}

func structureOf(typ string) string {
	m := structure().FindStringSubmatch(strings.TrimSpace(typ))
	if m == nil || plainTypes[m[1]] {
		return ""
	}
	return m[1]
}

// readPlace reads an operand in memory. Memory of the function's own has no place.
func (r *reader) readPlace(word string) (places []place, address bool) {
	word, address = strings.CutPrefix(word, "&")
	word = nameless().ReplaceAllString(word, "")
	if rest, ok := strings.CutPrefix(word, "__MEM~<"); ok {
		return r.readMemory(rest), address
	}
	if base, ok := strings.CutPrefix(word, "*"); ok {
		return r.deref(base, structureOf(strings.TrimSuffix(r.typeText(base), "*")), ""), address
	}
	end := strings.IndexAny(word, ".-[")
	if end < 0 {
		end = len(word)
	}
	base, path := strings.TrimSuffix(word[:end], "(D)"), pathOf(word[end:])
	typ, local := r.typeOf(base)
	switch {
	case base == "" || base[0] >= '0' && base[0] <= '9' || strings.ContainsAny(base, "()\"{}<>+*/'"):
		return nil, address
	case !local:
		return []place{{"", strings.Trim(base+"."+path, ".")}}, address
	case !strings.HasPrefix(word[end:], "->"):
		return nil, address
	}
	places = r.deref(base, structureOf(strings.TrimSuffix(typ, "*")), path)
	return places, address
}

func (r *reader) typeText(base string) string {
	t, _ := r.typeOf(base)
	return t
}

// deref are the places behind a pointer: as a member of what it points to, and of what
// that is a part of.
func (r *reader) deref(base, owner, path string) []place {
	var out []place
	if owner != "" && path != "" {
		out = append(out, place{owner, path})
	}
	for _, p := range r.values[base].to {
		out = append(out, place{p.owner, strings.Trim(p.path+"."+path, ".")})
	}
	return out
}

// readMemory reads `TYPE>~((TYPE *)BASE + 8B)PATH`.
func (r *reader) readMemory(text string) []place {
	typ, rest, _ := strings.Cut(text, ">~(")
	end := strings.LastIndex(rest, ")")
	if end < 0 {
		return nil
	}
	inner, path := rest[:end], pathOf(rest[end+1:])
	if i := strings.LastIndex(inner, ")"); i >= 0 && !strings.HasSuffix(inner, "(D)") {
		inner = inner[i+1:]
	}
	base, _, _ := strings.Cut(strings.TrimSpace(inner), " ")
	return r.deref(base, structureOf(strings.ReplaceAll(typ, "~", " ")), path)
}

// pathOf is `p.q` of `->p[3].q`.
func pathOf(text string) string {
	var out strings.Builder
	depth := 0
	for _, c := range strings.ReplaceAll(text, "->", ".") {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case depth == 0:
			out.WriteRune(c)
		}
	}
	return strings.Trim(out.String(), ".")
}

// splitList parts arguments at the commas outside of brackets and texts.
func splitList(text string) []string { return splitAt(text, ',') }

func splitWords(text string) []string { return splitAt(text, ' ') }

func splitAt(text string, by byte) []string {
	var out []string
	depth, begin, quoted := 0, 0, false
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case c == by && depth == 0:
			add(text[begin:i])
			begin = i + 1
		}
	}
	add(text[min(begin, len(text)):])
	return out
}

// addMembers adds what a place is as a member of the structure that lies there.
func (r *reader) addMembers(list []place) []place {
	out := list
	for _, p := range list {
		for i := len(p.path) - 1; i > 0; i-- {
			if k := r.members[place{p.owner, p.path[:i]}]; p.path[i] == '.' && k != "" {
				out = append(out, place{k, p.path[i+1:]})
			}
		}
	}
	return out
}

// finish completes the places of all functions.
func (r *reader) finish() {
	for _, f := range r.out {
		for i := range f.steps {
			s := &f.steps[i]
			s.sets, s.uses = r.addMembers(s.sets), r.addMembers(s.uses)
			for j := range s.args {
				s.args[j].to, s.args[j].from = r.addMembers(s.args[j].to), r.addMembers(s.args[j].from)
			}
		}
	}
}
