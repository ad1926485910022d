// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"skep/internal/load"
)

// Each case is judged once, and reported in its place, whichever ends first.
func TestParallel_eachCaseOnceAndInOrder(t *testing.T) {
	var names, judged, reported []string
	var cases []testCase
	var lock sync.Mutex
	for i := range 40 {
		names = append(names, fmt.Sprint("case ", i))
		cases = append(cases, testCase{name: names[i]})
	}
	second := make(chan struct{})
	judgeCases(cases, 3, func(c testCase) result {
		lock.Lock()
		judged = append(judged, c.name)
		lock.Unlock()
		if c.name == "case 1" {
			close(second)
		}
		if c.name == "case 0" {
			<-second
		}
		return result{skip: c.name}
	}, func(c testCase, r result) {
		if r.skip != c.name {
			t.Errorf("%s has the result of %s", c.name, r.skip)
		}
		reported = append(reported, c.name)
	})
	if !slices.Equal(reported, names) {
		t.Errorf("reported %q", reported)
	}
	slices.Sort(judged)
	slices.Sort(names)
	if !slices.Equal(judged, names) {
		t.Errorf("judged %q", judged)
	}
}

// As many cases run at once as asked for, and no more.
func TestParallel_asManyAsAskedFor(t *testing.T) {
	for _, count := range []int{1, 2, 3} {
		var lock sync.Mutex
		running, most := 0, 0
		full := make(chan struct{})
		timer := load.NewTimer(10e9, load.Scale)
		judgeCases(make([]testCase, 9), count, func(testCase) result {
			lock.Lock()
			running++
			most = max(most, running)
			if running == count && most == count {
				select {
				case <-full:
				default:
					close(full)
				}
			}
			lock.Unlock()
			select {
			case <-full:
			case <-timer.C:
			}
			lock.Lock()
			running--
			lock.Unlock()
			return result{}
		}, func(testCase, result) {})
		timer.Stop()
		if most != count {
			t.Errorf("%d cases at once, not %d", most, count)
		}
	}
}
