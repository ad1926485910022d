// SPDX-License-Identifier: MIT

package agent

import "strings"

// A Confinement is the mechanism that isolates programs from the rest of a machine.
type Confinement string

// Kinds of confinement, the strongest first.
const (
	// ConfinedSpaces: namespaces of their own, in which nothing else exists.
	ConfinedSpaces Confinement = "namespaces"
	// ConfinedLandlock: Landlock and seccomp refuse access to everything else.
	ConfinedLandlock Confinement = "landlock"
	// ConfinedNot: programs have the rights of the agent's user.
	ConfinedNot Confinement = "none"
	// ConfinedBee: bee shows its own folder, but it is not a sandbox.
	ConfinedBee Confinement = "bee"
)

// bounds describes what one program may access, for its guard.
type bounds struct {
	Kind    Confinement `json:"kind"`
	User    bool        `json:"user"`    // namespaces: with one of users
	Network bool        `json:"network"` // the machine's
	Read    []string    `json:"read"`    // beside the system's directories
	Write   []string    `json:"write"`
	Hide    []string    `json:"hide"`              // wherever else they may be seen
	Job     string      `json:"job,omitempty"`     // its folders are at the places of jobDirs
	Program string      `json:"program,omitempty"` // of a job: its file, at programPlace
	RunAs   int         `json:"run_as"`
	Probe   bool        `json:"probe"` // start no program, only check the bounds
}

// nobody is the user of programs if the agent runs as root. It owns no file.
const nobody = 65534

// isWithin reports whether path is dir or below it.
func isWithin(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
