// SPDX-License-Identifier: MIT

package main

import (
	"strings"
	"testing"

	"skep/internal/hub"
)

// sound is a run as it should be, from events as the hub sends them.
func sound(edit func(*hub.Event)) *result {
	r := newResult()
	for i := range callsInAll {
		e := hub.Event{Type: "call", Session: "s", Call: uint64(i), Node: "L", Name: "linux", Substrate: "linux", Program: "d"}
		if i%4 == 0 {
			e.Node, e.Name, e.Substrate, e.Nonce, e.Calls = "W", "windows", "bee-windows", 7, 9
		}
		e.State = hub.CallLeased
		r.take(e)
		e.State = hub.CallDone
		edit(&e)
		r.take(e)
	}
	return r
}

func TestJudge(t *testing.T) {
	windows := func(f func(*hub.Event)) func(*hub.Event) {
		return func(e *hub.Event) {
			if e.Name == "windows" {
				f(e)
			}
		}
	}
	few := 0
	for _, c := range []struct {
		name, want string
		edit       func(*hub.Event)
		code       int
	}{
		{"all is well", "", func(*hub.Event) {}, 0},
		{"the master fails", "exit code 1", func(*hub.Event) {}, 1},
		{"another program was mapped", "mapped x", windows(func(e *hub.Event) { e.Program = "x" }), 0},
		{"no program is named", "mapped ,", windows(func(e *hub.Event) { e.Program = "" }), 0},
		{"no nonce", "without bee's proof", windows(func(e *hub.Event) { e.Nonce = 0 }), 0},
		{"no call was emulated", "without bee's proof", windows(func(e *hub.Event) { e.Calls = 0 }), 0},
		{"Windows does too little", "3 calls ran on substrate bee-windows", windows(func(e *hub.Event) {
			if few++; few > 3 {
				e.State = hub.CallRequeued
			}
		}), 0},
		{"Windows does nothing", "0 calls ran on substrate bee-windows", windows(func(e *hub.Event) { e.State = hub.CallRequeued }), 0},
		{"Linux does nothing", "0 calls ran on substrate linux", func(e *hub.Event) {
			if e.Name == "linux" {
				e.State = hub.CallFailed
			}
		}, 0},
	} {
		r := sound(c.edit)
		r.code = c.code
		var said []string
		for _, err := range judge("d", r, nil) {
			said = append(said, err.Error())
		}
		text := strings.Join(said, "\n")
		if (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: said %q, wanted %q", c.name, text, c.want)
		}
	}
}
