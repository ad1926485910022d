// SPDX-License-Identifier: MIT

package lab

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Symbols maps the addresses of a guest's kernel to names. Guests boot with nokaslr, so a
// kernel's addresses are the same at every boot; those of modules are not.
type Symbols struct {
	list  []symbol // sorted by address, at equal addresses text before data
	names map[string][]uint64
}

type symbol struct {
	address uint64
	name    string
	text    bool
}

// symbolsMax limits the number of symbols accepted from a guest.
const symbolsMax = 4 << 20

// ReadSymbols reads the text of /proc/kallsyms as root sees it.
func ReadSymbols(r io.Reader) (Symbols, error) {
	s := Symbols{names: map[string][]uint64{}}
	lines := bufio.NewScanner(r)
	known := false
	for lines.Scan() {
		// Fields: address, type, name and, for a module's symbol, [module].
		f := strings.Fields(lines.Text())
		if len(f) < 3 || len(f) > 4 || len(f[0]) != 16 || len(f[1]) != 1 {
			return Symbols{}, fmt.Errorf("%.80q is not a line of kallsyms", lines.Text())
		}
		address, err := parseNumber(strings.TrimLeft(f[0][:15], "0")+f[0][15:], 16, 64)
		if err != nil {
			return Symbols{}, fmt.Errorf("%.80q is not a line of kallsyms", lines.Text())
		}
		if len(s.list) == symbolsMax {
			return Symbols{}, fmt.Errorf("kallsyms has more than %d lines", symbolsMax)
		}
		known = known || address != 0
		s.list = append(s.list, symbol{address, f[2], strings.Contains("tTwW", f[1])})
		s.names[f[2]] = append(s.names[f[2]], address)
	}
	if err := lines.Err(); err != nil {
		return Symbols{}, fmt.Errorf("reading kallsyms: %w", err)
	}
	if !known {
		return Symbols{}, errors.New("kallsyms holds no address: read it as the guest's root")
	}
	slices.SortStableFunc(s.list, func(a, b symbol) int {
		if c := cmp.Compare(a.address, b.address); c != 0 || a.text == b.text {
			return c
		} else if a.text {
			return -1
		}
		return 1
	})
	return s, nil
}

// Address returns a symbol's address. It returns an error for a name that several
// functions share.
func (s Symbols) Address(name string) (uint64, error) {
	found := slices.Compact(slices.Clone(s.names[name]))
	switch len(found) {
	case 0:
		return 0, fmt.Errorf("this kernel has no symbol %q", name)
	case 1:
		return found[0], nil
	}
	return 0, fmt.Errorf("this kernel has %d symbols %q", len(found), name)
}

// Name returns the symbol at an address, or the preceding one and the distance from it.
func (s Symbols) Name(address uint64) string {
	i, exact := slices.BinarySearchFunc(s.list, address, func(e symbol, a uint64) int { return cmp.Compare(e.address, a) })
	if exact {
		return s.list[i].name
	}
	if i == 0 {
		return fmt.Sprintf("%#x", address)
	}
	before := s.list[i-1]
	for i > 1 && s.list[i-2].address == before.address {
		i--
		before = s.list[i-1]
	}
	return fmt.Sprintf("%s+%#x", before.name, address-before.address)
}
