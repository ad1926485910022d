// SPDX-License-Identifier: MIT

package uapi

import "fmt"

// StateOf returns the class with state that has function i as a method, or nil.
func (m *Manifest) StateOf(i int) *Function {
	of := int64(m.Functions[i].Of) - 1
	if of < 0 || of >= int64(len(m.Functions)) || !m.Functions[of].State {
		return nil
	}
	return &m.Functions[of]
}

// checkClasses checks classes, their methods, and that names are found once. The C side checks
// the same, but for names (grid/core/module.c).
func (m *Manifest) checkClasses() error {
	type key struct {
		name  string
		class bool
		of    uint32
	}
	seen := map[key]bool{}
	for i := range m.Functions {
		f := &m.Functions[i]
		if !m.checkClass(i) {
			return fmt.Errorf("function %q is not what a class or a method can be", f.Name)
		}
		k := key{name: f.Name, class: f.Class}
		if m.StateOf(i) != nil {
			k.of = f.Of
		}
		if seen[k] && !f.Callback {
			return fmt.Errorf("function %q appears twice in the manifest", f.Name)
		}
		seen[k] = seen[k] || !f.Callback
	}
	return nil
}

func (m *Manifest) checkClass(i int) bool {
	f := &m.Functions[i]
	switch {
	case f.Class || f.State:
		return f.Class && !f.Init && !f.Ranks && !f.Callback && len(f.Params) == 0 && f.Of == 0
	case f.Of == 0:
		return true
	case int64(f.Of) > int64(len(m.Functions)) || !m.Functions[f.Of-1].Class:
		return false
	}
	return !f.Init && !f.Callback && !(f.Ranks && m.Functions[f.Of-1].State)
}
