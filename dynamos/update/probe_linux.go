// SPDX-License-Identifier: MIT

package update

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"skep/dynamos/update/image"
	"skep/dynamos/update/pack"
	"skep/internal/uapi"
)

// btfFile has the types of the running kernel.
const btfFile = "/sys/kernel/btf/vmlinux"

// A Probed is what was counted of a function since its probe was set.
type Probed struct {
	Symbol    string `json:"symbol"`
	Type      string `json:"type"`
	Installer string `json:"installer"`
	Version
	Latency [uapi.DynamosBuckets]uint64 `json:"latency"` // bucket i begins at 2^i ns
}

// A Prober sets probes, and reads what they counted: a Device, or a fake in tests.
type Prober interface {
	SetProbe(p *uapi.DynamosProbe) error
	CountProbe(n uint32) (uapi.DynamosCount, error)
}

// Probes count the calls of functions of the running kernel. They end with their Device.
type Probes struct {
	device Prober
	types  []string
}

// SetProbes sets a probe for each function, NAME or NAME,N. each: time every call, not one
// in 64. It refuses functions whose calls no wrapper can pass on. After an error, the device
// is to be closed.
func SetProbes(d Prober, names []string, each bool) (*Probes, error) {
	text, err := os.ReadFile(btfFile)
	if err != nil {
		return nil, refusef("the running kernel has no type information (BTF), so it is not known how its functions take arguments: %v", err)
	}
	types, err := image.ReadPrototypes(text)
	if err != nil {
		return nil, err
	}
	functions, err := countFunctions("/proc/kallsyms", names)
	if err != nil {
		return nil, err
	}
	return setProbes(d, typeOfOne(types, functions), names, each)
}

// A typed is the kernel's types: image.Prototypes, or a fake in tests.
type typed interface {
	Of(name string) (image.Prototype, error)
	Count(name string) int
}

// typeOfOne returns a function's type. The kernel's types are those of names, and often only of
// the first function of a name: with that of another, a probe would count wrong errors, or lose
// the arguments on the stack.
func typeOfOne(types typed, functions map[string]int) func(string) (image.Prototype, error) {
	return func(name string) (image.Prototype, error) {
		if n := functions[name]; n > 1 && types.Count(name) < n {
			return image.Prototype{}, refusef("the kernel has %d functions of that name, and does not say which of them its types (BTF) describe: probe their callers", n)
		}
		return types.Of(name)
	}
}

// countFunctions counts the kernel's functions with the names of probes.
func countFunctions(kallsyms string, probes []string) (map[string]int, error) {
	wanted := map[string]int{}
	for _, p := range probes {
		name, _, _ := strings.Cut(p, ",")
		wanted[name] = 0
	}
	f, err := os.Open(kallsyms)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// address, type, name, and of a module's symbol the module
		if word := strings.Fields(lines.Text()); len(word) == 3 && image.IsFunction(word[1][0]) {
			if n, ok := wanted[word[2]]; ok {
				wanted[word[2]] = n + 1
			}
		}
	}
	return wanted, lines.Err()
}

func setProbes(d Prober, prototype func(string) (image.Prototype, error), names []string, each bool) (*Probes, error) {
	if len(names) > uapi.DynamosProbes {
		return nil, refusef("%d functions are too many: one command probes %d at most", len(names), uapi.DynamosProbes)
	}
	p := &Probes{device: d}
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			return nil, refusef("%s is named twice", name)
		}
		seen[name] = true
		if err := p.set(prototype, name, each); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Probes) set(prototype func(string) (image.Prototype, error), name string, each bool) error {
	symbol, number, several := strings.Cut(name, ",")
	var a uapi.DynamosProbe
	if n, err := strconv.ParseUint(number, 10, 20); several {
		if a.Sympos = n; err != nil || n == 0 {
			return refusef("%.80q is not a function: write NAME, or NAME,N for the N-th of this name, from 1", name)
		}
	}
	if !pack.ValidSymbol(symbol) {
		return refusef("%.80q is not the name of a function", symbol)
	}
	copy(a.Symbol[:], symbol)
	t, err := prototype(symbol)
	switch {
	case err != nil:
		return refusef("%s cannot be probed: %v", symbol, err)
	case t.Uncounted != "":
		return refusef("%s cannot be probed: it %s: probe its callers", symbol, t.Uncounted)
	}
	a.Result = resultNumbers[t.Result]
	if each {
		a.Flags = uapi.DynamosProbeEach
	}
	p.types = append(p.types, t.Text)
	return p.device.SetProbe(&a)
}

// resultNumbers are enum dynamos_result.
var resultNumbers = map[string]uint32{pack.Void: 0, pack.Int: 1, pack.Long: 2, pack.Pointer: 3, pack.Value: 4}

// Types are the types by which the functions are probed.
func (p *Probes) Types() []string { return p.types }

// Read returns what was counted until now.
func (p *Probes) Read() (list []Probed, err error) {
	for n, text := range p.types {
		c, err := p.device.CountProbe(uint32(n))
		if err != nil {
			return nil, fmt.Errorf("probe %d: %w", n, err)
		}
		list = append(list, Probed{Symbol: uapi.Text(c.Symbol[:]), Type: text, Installer: c.Installer.String(), Version: versionOf(&c), Latency: c.Latency})
	}
	return list, nil
}

// SetProbe sets one probe, which ends when the device is closed.
func (d *Device) SetProbe(p *uapi.DynamosProbe) error {
	return d.call(uapi.DynamosIocProbe, unsafe.Pointer(p), p.Why[:])
}
