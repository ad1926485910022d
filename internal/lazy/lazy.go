// SPDX-License-Identifier: MIT

// Package lazy makes at its first use what most runs of a program never need.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles the regular expression when it is first called, and
// returns the same one each time. Like regexp.MustCompile, it panics if the text is not one. Half
// of the time in which skep started went to expressions that its command did not use.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
