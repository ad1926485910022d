// SPDX-License-Identifier: MIT

package main

import "skep/tests/tap"

// A tapParser reads a suite's report by package tap.
type tapParser struct {
	suite  string
	reader tap.Reader
}

func (p *tapParser) line(text string)  { p.reader.AddLine(text) }
func (p *tapParser) noise(text string) { p.reader.AddNoise(text) }

func (p *tapParser) finish(exit string) []result {
	var list []result
	for _, t := range p.reader.Finish(exit) {
		list = append(list, result{suite: p.suite, name: t.Name,
			status: status(t.Status), reason: t.Reason, detail: t.Detail})
	}
	return list
}

func countStatus(list []result, s status) int {
	n := 0
	for _, r := range list {
		if r.status == s {
			n++
		}
	}
	return n
}
