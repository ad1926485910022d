// SPDX-License-Identifier: MIT

package uapi

import "fmt"

// checkCallbacks checks the functions of masters, and the parameters that name them. The C
// side checks the same (grid/core/module.c).
func (m *Manifest) checkCallbacks() error {
	for i := range m.Functions {
		f := &m.Functions[i]
		if f.Callback && (f.Init || f.Ranks) {
			return fmt.Errorf("function %q of the master has other flags too", f.Name)
		}
		for j := range f.Params {
			p := &f.Params[j]
			err := f.checkRefers(p)
			if err == nil && p.Type == MasterFunction {
				err = m.checkMasterFunction(f, p)
			}
			if err == nil && f.Callback {
				err = p.checkOfCallback()
			}
			if err != nil {
				return fmt.Errorf("function %q: %w", f.Name, err)
			}
		}
	}
	return nil
}

// checkRefers refuses a reference where there can be none.
func (f *Function) checkRefers(p *Param) error {
	if p.Refers != 0 && p.Type != MasterFunction && !(f.Callback && p.isSize()) {
		return fmt.Errorf("parameter %q refers to something", p.Name)
	}
	return nil
}

// isSize reports whether sizes may use the parameter's value.
func (p *Param) isSize() bool { return p.Type.Integer() && p.Mode&ModeIn != 0 && len(p.Dims) == 0 }

func (m *Manifest) checkMasterFunction(f *Function, p *Param) error {
	switch {
	case f.Callback || f.Init || p.Mode != ModeIn || len(p.Dims) > 0:
		return fmt.Errorf("parameter %q can't be a function of the master", p.Name)
	case int64(p.Refers) >= int64(len(m.Functions)) || !m.Functions[p.Refers].Callback:
		return fmt.Errorf("nothing describes the function %q of the master", p.Name)
	}
	for _, q := range m.Functions[p.Refers].Params {
		if q.Refers == 0 || q.Type == MasterFunction {
			continue
		}
		if int64(q.Refers) > int64(len(f.Params)) {
			return fmt.Errorf("parameter %q of %q refers to none of its function", q.Name, p.Name)
		}
		if o := &f.Params[q.Refers-1]; !o.isSize() || o.Type != q.Type || o.Unsigned != q.Unsigned {
			return fmt.Errorf("parameter %q of %q has another type than what it refers to", q.Name, p.Name)
		}
	}
	return nil
}

// checkOfCallback refuses what a function of the master cannot be given: files, and complex
// numbers by value.
func (p *Param) checkOfCallback() error {
	file := p.Type == Filename || p.Type == Filepointer
	byValue := (p.Type == SComplex || p.Type == DComplex) && p.Mode == ModeIn && len(p.Dims) == 0
	if file || byValue || p.Refers != 0 && p.Mode != ModeIn {
		return fmt.Errorf("a function of the master can't have the parameter %q", p.Name)
	}
	return nil
}
