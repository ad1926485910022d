// SPDX-License-Identifier: MIT

// Package move decides where a movable program of skep exec runs: a pure state machine with an
// injected clock. It has no goroutine and no lock, and does no I/O. A leg is one process that
// is, was or will be the program. Of one program at most one leg counts at any time: only its
// output is passed on, and only it may go on after it was frozen.
package move

import (
	"fmt"
	"time"
)

// A Leg numbers the processes of one program, from 1.
type Leg int

// A Serial numbers the times that a program was frozen; an answer to another one is late.
type Serial int

// A State says what is going on with a program.
type State int

// States.
const (
	Starting State = iota // a node prepares the leg that counts
	Running
	Asking   // a target is asked whether it can take the program, which runs
	Freezing // the source saves the program and holds it
	Saving   // the node saves the program, which goes on
	Waiting  // for a node that takes it, from its checkpoint
	Ended
)

// A Verb is what the caller has to do.
type Verb int

// Verbs of actions.
const (
	Open    Verb = iota // ask Node to prepare Leg; the answer is Ready or Refused
	Begin               // start Leg from the program's beginning
	Restore             // start Leg from Image
	Freeze              // save Leg under Serial, and hold it if Hold is set
	Resume              // let Leg go on, which is held under Serial
	Kill                // end Leg, whatever it does
	Pass                // the output that waits goes to the user, as far as the last Frozen; all of it if All is set
	Drop                // throw away the output that waits
	Forget              // Image is needed no more; another one may have the same bytes
	Find                // look for a node that is not in Not; the answer is Found
	Answer              // of the request that the user made: Text says why it failed, or is empty
	Tell                // the user Text
	End                 // the program is over: with Text, why it was lost, or with its exit if Text is empty
)

// An Action is what the caller has to do; it does actions in their order.
type Action struct {
	Do     Verb
	Leg    Leg
	Node   string
	Image  string
	Serial Serial
	Hold   bool
	All    bool
	Not    map[string]bool
	Text   string
}

// Rules are the times of a program.
type Rules struct {
	Every time.Duration // between checkpoints; 0: there are none, and output does not wait
	Ready time.Duration // a node has this long to be ready
	Save  time.Duration // a program must be saved and stored in this time
	Wait  time.Duration // a program without a node waits this long
	Tries int           // so often it may fail to start from a checkpoint
}

// DefaultRules has all but Every.
var DefaultRules = Rules{Ready: 30 * time.Second, Save: 10 * time.Minute, Wait: 10 * time.Minute, Tries: 5}

// A Job is one program. Its methods take events and return actions.
type Job struct {
	rules Rules
	state State

	leg    Leg    // that counts; 0: none, it waits
	node   string // of leg
	target Leg    // 0: none
	to     string
	last   Leg

	serial  Serial
	asked   bool   // by a user, who waits for Answer
	leaves  bool   // nobody asked: its node is drained
	must    string // nobody asked: why it cannot stay; or empty
	image   string // the last checkpoint
	begun   bool   // leg was told to start
	saved   time.Time
	due     time.Time
	failed  map[string]bool // nodes that said that they cannot restore it
	refused map[string]bool // targets of moves that were given up, since it started on its node
	tries   int
	told    string // the last reason why there was no checkpoint
}

// New returns a program that is to start on a node.
func New(now time.Time, r Rules, node string) (*Job, []Action) {
	j := &Job{rules: r, leg: 1, last: 1, node: node, saved: now, due: now.Add(r.Ready), failed: map[string]bool{}, refused: map[string]bool{}}
	return j, []Action{{Do: Open, Leg: 1, Node: node}}
}

// State returns what is going on, the leg that counts and its node.
func (j *Job) State() (State, Leg, string) { return j.state, j.leg, j.node }

// Target returns the leg that a program is moved to, 0 if there is none.
func (j *Job) Target() Leg { return j.target }

// Image returns the last checkpoint, empty if there is none.
func (j *Job) Image() string { return j.image }

// HasRefused reports whether a node did not take the program since it runs where it is.
func (j *Job) HasRefused(node string) bool { return j.refused[node] }

// Holds reports whether output waits for the next checkpoint.
func (j *Job) Holds() bool { return j.rules.Every > 0 }

// answer ends the user's request, if there is one.
func (j *Job) answer(text string) []Action {
	if !j.asked {
		return nil
	}
	j.asked = false
	return []Action{{Do: Answer, Text: text}}
}

// Move asks for a move to a node.
func (j *Job) Move(now time.Time, to string) []Action {
	switch {
	case j.state != Running:
		return []Action{{Do: Answer, Text: "it is " + j.state.String() + ": try again"}}
	case to == j.node:
		return []Action{{Do: Answer, Text: "it runs there"}}
	}
	j.last++
	j.leaves, j.must = false, ""
	j.state, j.asked, j.target, j.to, j.due = Asking, true, j.last, to, now.Add(j.rules.Ready)
	return []Action{{Do: Open, Leg: j.target, Node: to}}
}

// Reasons for which a program cannot stay on its node.
const (
	OwnerNeeds = "the owner of its node needs the computer"
	ShutDown   = "its node is shut down"
)

// Leave moves a program without a user's request, if it runs. If it must leave, for one of the
// reasons above, and cannot be saved, it goes on from its last checkpoint at the target, or ends.
// Without a reason its node is drained, and such a program stays.
func (j *Job) Leave(now time.Time, to, must string) []Action {
	if j.state != Running || to == j.node {
		return nil
	}
	list := j.Move(now, to)
	j.asked, j.leaves, j.must = false, must == "", must
	return list
}

// Checkpoint asks for a checkpoint.
func (j *Job) Checkpoint(now time.Time) []Action {
	switch {
	case !j.Holds():
		return []Action{{Do: Answer, Text: "it was started without --checkpoint, so its output did not wait for one"}}
	case j.state != Running:
		return []Action{{Do: Answer, Text: "it is " + j.state.String() + ": try again"}}
	}
	j.asked = true
	return j.freeze(now, Saving)
}

func (j *Job) freeze(now time.Time, s State) []Action {
	j.serial++
	j.state, j.due = s, now.Add(j.rules.Save)
	return []Action{{Do: Freeze, Leg: j.leg, Serial: j.serial, Hold: s == Freezing}}
}

// Ready is the answer of a node that can take a leg.
func (j *Job) Ready(now time.Time, leg Leg) []Action {
	switch {
	case j.state == Starting && leg == j.leg && !j.begun:
		return j.start(now)
	case j.state == Asking && leg == j.target:
		return j.freeze(now, Freezing)
	}
	return nil
}

// start starts the leg that counts, on a node that is ready.
func (j *Job) start(now time.Time) []Action {
	j.begun, j.due = true, now.Add(j.rules.Save)
	if j.image == "" {
		return []Action{{Do: Begin, Leg: j.leg}}
	}
	return []Action{{Do: Restore, Leg: j.leg, Image: j.image}}
}

// Started says that the leg runs.
func (j *Job) Started(now time.Time, leg Leg) []Action {
	if j.state != Starting || leg != j.leg || !j.begun {
		return nil
	}
	j.state, j.saved, j.tries = Running, now, 0
	clear(j.failed)
	clear(j.refused)
	list := j.answer("")
	if !j.Holds() && j.image != "" { // its output goes on: it is no checkpoint any more
		list = append(list, Action{Do: Forget, Image: j.image})
		j.image = ""
	}
	return list
}

// Refused says that a node cannot take a leg, or could not start it.
func (j *Job) Refused(now time.Time, leg Leg, why string) []Action {
	switch {
	case j.target != 0 && leg == j.target:
		return j.abandon(now, why)
	case j.state != Starting || leg != j.leg:
		return nil
	case j.image == "":
		return j.end(why)
	}
	j.failed[j.node] = true
	return append([]Action{{Do: Kill, Leg: leg}}, j.restart(now, why)...)
}

// abandon gives a move up; the program goes on where it is.
func (j *Job) abandon(now time.Time, why string) []Action {
	list := []Action{{Do: Kill, Leg: j.target}}
	if j.state == Freezing {
		list = append(list, Action{Do: Resume, Leg: j.leg, Serial: j.serial})
	}
	j.refused[j.to] = true
	j.state, j.target = Running, 0
	if text := j.must + ", but another one does not take it: " + why; j.must == ShutDown && j.told != text {
		j.told = text
		list = append(list, Action{Do: Tell, Text: text})
	}
	return append(list, j.answer(why)...)
}

// restart looks for another node for the last checkpoint.
func (j *Job) restart(now time.Time, why string) []Action {
	if j.tries++; j.tries > j.rules.Tries {
		return j.end(fmt.Sprintf("%s; it did not start from its checkpoint, %d times", why, j.tries))
	}
	return j.wait(now, why)
}

func (j *Job) wait(now time.Time, why string) []Action {
	j.state, j.leg, j.due = Waiting, 0, now.Add(j.rules.Wait)
	j.told = why
	why += "; it goes on from its last checkpoint"
	return append(j.answer(why), Action{Do: Tell, Text: why}, Action{Do: Find, Not: j.failed})
}

// Found names a node for a program that waits.
func (j *Job) Found(now time.Time, node string) []Action {
	if j.state != Waiting {
		return nil
	}
	j.last++
	j.state, j.leg, j.node, j.begun, j.due = Starting, j.last, node, false, now.Add(j.rules.Ready)
	return []Action{{Do: Open, Leg: j.leg, Node: node}}
}

// Saved says that an image of a leg is whole and stored, under a name that no other image has,
// not even one with the same bytes. This is the commit of a move.
func (j *Job) Saved(now time.Time, leg Leg, serial Serial, image string) []Action {
	if leg != j.leg || serial != j.serial || j.state != Freezing && j.state != Saving {
		return []Action{{Do: Forget, Image: image}}
	}
	list := []Action{{Do: Pass}}
	if j.image != "" {
		list = append(list, Action{Do: Forget, Image: j.image})
	}
	j.image, j.saved, j.told = image, now, ""
	if j.state == Saving {
		j.state = Running
		return append(list, j.answer("")...)
	}
	list = append(list, Action{Do: Kill, Leg: j.leg})
	j.avoidSource()
	j.leg, j.node, j.target, j.state = j.target, j.to, 0, Starting
	return append(list, j.start(now)...)
}

// avoidSource keeps a program from going back to the node on which it cannot stay.
func (j *Job) avoidSource() {
	if j.must != "" {
		j.failed[j.node] = true
	}
}

// NotSaved says why a leg was not saved. It goes on.
func (j *Job) NotSaved(now time.Time, leg Leg, serial Serial, why string) []Action {
	if leg != j.leg || serial != j.serial {
		return nil
	}
	why = "it cannot be saved now: " + why
	switch j.state {
	case Freezing:
		if j.must != "" {
			return j.yield(now, why)
		}
		list := []Action{{Do: Kill, Leg: j.target}}
		j.state, j.target = Running, 0
		if j.leaves && j.told != why {
			j.told = why
			list = append(list, Action{Do: Tell, Text: "its node is drained, but it stays: " + why})
		}
		return append(list, j.answer(why)...)
	case Saving:
		j.state, j.saved = Running, now // try again after a while
		if j.asked {
			return j.answer(why)
		}
		if j.told != why {
			j.told = why
			return []Action{{Do: Tell, Text: "no checkpoint: " + why}}
		}
	}
	return nil
}

// yield ends the leg that cannot stay on its node, and which gives no image.
func (j *Job) yield(now time.Time, why string) []Action {
	return j.Lost(now, j.leg, j.must+", and "+why)
}

// Exited says that a leg ended by itself.
func (j *Job) Exited(leg Leg) []Action {
	if leg != j.leg || j.state == Ended || j.state == Waiting {
		return nil
	}
	list := []Action{{Do: Pass, All: true}}
	return append(list, j.end("")...)
}

// Lost says that nobody will hear of a leg again.
func (j *Job) Lost(now time.Time, leg Leg, why string) []Action {
	switch {
	case j.state == Ended:
		return nil
	case j.target != 0 && leg == j.target:
		return j.abandon(now, why)
	case leg != j.leg || j.state == Waiting:
		return nil
	case j.state == Starting && j.image != "":
		return append([]Action{{Do: Drop}, {Do: Kill, Leg: leg}}, j.restart(now, why)...)
	case j.image == "":
		return append([]Action{{Do: Pass, All: true}}, j.end(why)...)
	}
	list := []Action{{Do: Drop}, {Do: Kill, Leg: leg}}
	if j.state == Freezing { // the target is ready
		j.avoidSource()
		j.leg, j.node, j.target, j.state = j.target, j.to, 0, Starting
		list = append(list, Action{Do: Tell, Text: why + "; it goes on from its last checkpoint"})
		return append(list, j.start(now)...)
	}
	if j.state == Asking {
		list = append(list, Action{Do: Kill, Leg: j.target})
		j.target = 0
	}
	return append(list, j.wait(now, why)...)
}

// Stop ends the program for its user, who is gone.
func (j *Job) Stop() []Action { return j.end("it was stopped") }

// end ends all legs.
func (j *Job) end(why string) []Action {
	if j.state == Ended {
		return nil
	}
	j.state = Ended
	var list []Action
	for _, leg := range []Leg{j.leg, j.target} {
		if leg != 0 {
			list = append(list, Action{Do: Kill, Leg: leg})
		}
	}
	text := why
	if text == "" {
		text = "it has ended"
	}
	list = append(list, j.answer(text)...)
	if j.image != "" {
		list = append(list, Action{Do: Forget, Image: j.image})
	}
	return append(list, Action{Do: End, Text: why})
}

// Tick is called several times a second.
func (j *Job) Tick(now time.Time) []Action {
	switch late := !now.Before(j.due); {
	case j.state == Running && j.Holds() && now.Sub(j.saved) >= j.rules.Every:
		return j.freeze(now, Saving)
	case j.state == Asking && late:
		return j.abandon(now, "the target did not answer in time")
	case j.state == Freezing && late && j.must != "":
		return j.yield(now, "it was not saved in time")
	case j.state == Freezing && late:
		return j.abandon(now, "it was not saved in time")
	case j.state == Saving && late:
		return j.NotSaved(now, j.leg, j.serial, "that took too long")
	case j.state == Starting && late:
		return j.Refused(now, j.leg, "the node did not start it in time")
	case j.state == Waiting && late:
		return j.end(j.told + "; no other node could go on with it")
	case j.state == Waiting:
		return []Action{{Do: Find, Not: j.failed}}
	}
	return nil
}

// Full says that more output waits than there is room for: it needs a checkpoint now.
func (j *Job) Full(now time.Time) []Action {
	if j.state != Running || !j.Holds() {
		return nil
	}
	return j.freeze(now, Saving)
}

func (s State) String() string {
	return [...]string{"starting", "running", "about to be moved", "being moved", "being saved", "waiting for a node", "ended"}[s]
}
