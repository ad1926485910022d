// SPDX-License-Identifier: MIT

package sources

import "testing"

// Of several users who are logged in, those who were switched away from do not count.
func TestOtherSession(t *testing.T) {
	for _, c := range []struct {
		name string
		list []userSession
		want uint32 // 0: none
	}{
		{"nobody", nil, 0},
		{"the agent's user", []userSession{{0, false}, {2, true}}, 0},
		{"another user, after a switch", []userSession{{0, false}, {2, false}, {3, true}}, 3},
		{"another user beside it", []userSession{{2, true}, {5, true}}, 5},
		{"another user who left", []userSession{{2, true}, {5, false}}, 0},
	} {
		if id, is := otherSession(c.list, 2); id != c.want || is != (c.want != 0) {
			t.Errorf("%s: session %d, %v; want %d", c.name, id, is, c.want)
		}
	}
}
