// SPDX-License-Identifier: MIT

package hub

// A viewer is who asks. The operator sees the runs of all, a user only its own.
type viewer struct {
	all  bool
	user string // id
}

var operator = viewer{all: true}

func (v viewer) sees(user string) bool { return v.all || v.user == user }
