// SPDX-License-Identifier: MIT

package lazy

import "testing"

func TestRegexp(t *testing.T) {
	hex := Regexp(`^[0-9a-f]+$`)
	if !hex().MatchString("0af") || hex().MatchString("0ag") {
		t.Error("it matches something else")
	}
	if hex() != hex() {
		t.Error("it is compiled again")
	}
	bad := Regexp(`(`) // nothing happens before it is used
	defer func() {
		if recover() == nil {
			t.Error("what is no expression is not reported")
		}
	}()
	bad()
}
