// SPDX-License-Identifier: MIT

package image

import "fmt"

// Prototypes are those of a kernel's functions.
type Prototypes struct{ types *types }

// ReadPrototypes reads a kernel's type information (BTF), as in /sys/kernel/btf/vmlinux.
func ReadPrototypes(btf []byte) (*Prototypes, error) {
	t, err := readTypes(btf)
	if err != nil {
		return nil, fmt.Errorf("the kernel's types (BTF) cannot be read: %w", err)
	}
	return &Prototypes{t}, nil
}

// Of returns a function's type, as Image.Prototype does.
func (p *Prototypes) Of(name string) (Prototype, error) { return p.types.prototype(name) }

// Count returns how many functions of a name the types describe.
func (p *Prototypes) Count(name string) int { return len(p.types.functions[name]) }
