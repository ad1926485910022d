// SPDX-License-Identifier: MIT

package policy

import "slices"

// Builtins are the policies that have a name instead of a file.
var builtins = map[string]string{
	"always": `# Work at any time, at the lowest priority. For nodes of a cluster.
use all
`,
	"desk": `# For a PC at which somebody works: remote programs run only while nobody does.
use none when full-screen
use none when battery
use none when memory-pressure above 20%
use all when idle 15m and others below 50%
pause 10m
settle 10s
`,
	"share": `# For a PC whose owner gives a part of it while working, and all of it at other times.
use none when full-screen
use none when battery
use none when memory-pressure above 20%
use all when idle 15m and others below 50%
use 25% when others below 40%
pause 10m
settle 10s
`,
}

// BuiltinText gives the text of a policy that has a name.
func BuiltinText(name string) (string, bool) {
	text, ok := builtins[name]
	return text, ok
}

// BuiltinNames lists the names.
func BuiltinNames() []string {
	var names []string
	for name := range builtins {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
