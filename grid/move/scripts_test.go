// SPDX-License-Identifier: MIT

package move

import (
	"testing"
	"time"
)

// Each line is an event, what is to be done then, and what is going on afterwards.
var scripts = []struct {
	name  string
	every time.Duration
	lines string
}{
	{"Start", 0, `
		started 1 ->  (starting, 1 at home)
		ready 2 ->  (starting, 1 at home)
		ready 1 -> begin 1 (starting, 1 at home)
		ready 1 ->  (starting, 1 at home)
		started 2 ->  (starting, 1 at home)
		29s tick ->  (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		started 1 ->  (running, 1 at home)
		tick ->  (running, 1 at home)
		exited 2 ->  (running, 1 at home)
		exited 1 -> pass all; kill 1; end (ended, 1 at home)
		exited 1 ->  (ended, 1 at home)
		lost 1 x ->  (ended, 1 at home)
		stop ->  (ended, 1 at home)`},
	{"StartLate", 0, `
		29.999999999s tick ->  (starting, 1 at home)
		1ns tick -> kill 1; end "the node did not start it in time" (ended, 1 at home)`},
	{"StartRefused", 0, `
		refused 2 x ->  (starting, 1 at home)
		ready 1 -> begin 1 (starting, 1 at home)
		refused 1 no avx2 -> kill 1; end "no avx2" (ended, 1 at home)
		refused 1 x ->  (ended, 1 at home)`},
	{"BeginLate", 0, `
		29s ready 1 -> begin 1 (starting, 1 at home)
		9m59.999999999s tick ->  (starting, 1 at home)
		1ns tick -> kill 1; end "the node did not start it in time" (ended, 1 at home)`},
	{"StartStopped", 0, `
		stop -> kill 1; end "it was stopped" (ended, 1 at home)
		stop ->  (ended, 1 at home)
		ready 1 ->  (ended, 1 at home)
		found x ->  (ended, 1 at home)
		move x -> answer "it is ended: try again" (ended, 1 at home)
		checkpoint -> answer "it was started without --checkpoint, so its output did not wait for one" (ended, 1 at home)
		tick ->  (ended, 1 at home)
		full ->  (ended, 1 at home)`},
	{"Moved", 0, `
		move other -> answer "it is starting: try again" (starting, 1 at home)
		leave other owner ->  (starting, 1 at home)
		checkpoint -> answer "it was started without --checkpoint, so its output did not wait for one" (starting, 1 at home)
		full ->  (starting, 1 at home)
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		full ->  (running, 1 at home)
		checkpoint -> answer "it was started without --checkpoint, so its output did not wait for one" (running, 1 at home)
		move home -> answer "it runs there" (running, 1 at home)
		leave home owner ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		move third -> answer "it is about to be moved: try again" (about to be moved, 1 at home)
		ready 3 ->  (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		started 2 ->  (being moved, 1 at home)
		late 1 old -> forget old (being moved, 1 at home)
		saved 2 bad -> forget bad (being moved, 1 at home)
		saved 1 image -> pass; kill 1; restore 2 image (starting, 2 at other)
		ready 2 ->  (starting, 2 at other)
		started 1 ->  (starting, 2 at other)
		exited 1 ->  (starting, 2 at other)
		lost 1 x ->  (starting, 2 at other)
		started 2 -> answer; forget image (running, 2 at other)
		saved 2 bad -> forget bad (running, 2 at other)
		exited 2 -> pass all; kill 2; end (ended, 2 at other)`},
	{"MoveTargetLate", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		29.999999999s tick ->  (about to be moved, 1 at home)
		1ns tick -> kill 2; answer "the target did not answer in time" (running, 1 at home)
		move other -> open 3 other (about to be moved, 1 at home)
		tick ->  (about to be moved, 1 at home)`},
	{"MoveTargetRefuses", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		refused 3 x ->  (about to be moved, 1 at home)
		refused 2 no room -> kill 2; answer "no room" (running, 1 at home)
		refused 2 x ->  (running, 1 at home)
		move other -> open 3 other (about to be moved, 1 at home)
		ready 3 -> freeze 1 #1 hold (being moved, 1 at home)
		refused 3 it died -> kill 3; resume 1 #1; answer "it died" (running, 1 at home)
		lost 1 gone -> pass all; kill 1; end "gone" (ended, 1 at home)`},
	{"MoveSaveLate", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		9m59.999999999s tick ->  (being moved, 1 at home)
		1ns tick -> kill 2; resume 1 #1; answer "it was not saved in time" (running, 1 at home)
		late 1 image -> forget image (running, 1 at home)
		saved 1 image -> forget image (running, 1 at home)`},
	{"MoveNotSaved", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		unsaved 1 x ->  (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		unsaved 2 x ->  (being moved, 1 at home)
		late 1 x -> forget x (being moved, 1 at home)
		unsaved 1 it has a socket -> kill 2; answer "it cannot be saved now: it has a socket" (running, 1 at home)
		unsaved 1 x ->  (running, 1 at home)
		lost 1 gone -> pass all; kill 1; end "gone" (ended, 1 at home)`},
	{"MoveSourceLost", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		lost 1 the node was lost -> pass all; kill 1; kill 2; answer "the node was lost"; end "the node was lost" (ended, 1 at home)`},
	{"MoveSourceExits", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		exited 1 -> pass all; kill 1; kill 2; answer "it has ended"; end (ended, 1 at home)`},
	{"MoveFrozenExits", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		exited 1 -> pass all; kill 1; kill 2; answer "it has ended"; end (ended, 1 at home)`},
	{"MoveFrozenLost", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		lost 1 gone -> pass all; kill 1; kill 2; answer "gone"; end "gone" (ended, 1 at home)`},
	{"MoveTargetLost", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		lost 2 gone -> kill 2; answer "gone" (running, 1 at home)
		move other -> open 3 other (about to be moved, 1 at home)
		ready 3 -> freeze 1 #1 hold (being moved, 1 at home)
		lost 3 gone -> kill 3; resume 1 #1; answer "gone" (running, 1 at home)
		lost 3 x ->  (running, 1 at home)`},
	{"MoveStopped", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		stop -> kill 1; kill 2; answer "it was stopped"; end "it was stopped" (ended, 1 at home)`},
	{"RestoreRefused", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		saved 1 image -> pass; kill 1; restore 2 image (starting, 2 at other)
		refused 2 a file has changed -> kill 2; answer "a file has changed; it goes on from its last checkpoint"; tell "a file has changed; it goes on from its last checkpoint"; find not other (waiting for a node, 0 at other)
		tick -> find not other (waiting for a node, 0 at other)
		found third -> open 3 third (starting, 3 at third)
		ready 3 -> restore 3 image (starting, 3 at third)
		started 3 -> forget image (running, 3 at third)
		exited 3 -> pass all; kill 3; end (ended, 3 at third)`},
	{"RestoreLate", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		saved 1 image -> pass; kill 1; restore 2 image (starting, 2 at other)
		10m tick -> kill 2; answer "the node did not start it in time; it goes on from its last checkpoint"; tell "the node did not start it in time; it goes on from its last checkpoint"; find not other (waiting for a node, 0 at other)
		found third -> open 3 third (starting, 3 at third)
		29.999999999s tick ->  (starting, 3 at third)
		1ns tick -> kill 3; tell "the node did not start it in time; it goes on from its last checkpoint"; find not other,third (waiting for a node, 0 at third)`},
	{"RestoreTries", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		saved 1 image -> pass; kill 1; restore 2 image (starting, 2 at other)
		refused 2 no -> kill 2; answer "no; it goes on from its last checkpoint"; tell "no; it goes on from its last checkpoint"; find not other (waiting for a node, 0 at other)
		found n2 -> open 3 n2 (starting, 3 at n2)
		refused 3 no -> kill 3; tell "no; it goes on from its last checkpoint"; find not n2,other (waiting for a node, 0 at n2)
		found n3 -> open 4 n3 (starting, 4 at n3)
		refused 4 no -> kill 4; tell "no; it goes on from its last checkpoint"; find not n2,n3,other (waiting for a node, 0 at n3)
		found n4 -> open 5 n4 (starting, 5 at n4)
		refused 5 no -> kill 5; tell "no; it goes on from its last checkpoint"; find not n2,n3,n4,other (waiting for a node, 0 at n4)
		found n5 -> open 6 n5 (starting, 6 at n5)
		refused 6 no -> kill 6; tell "no; it goes on from its last checkpoint"; find not n2,n3,n4,n5,other (waiting for a node, 0 at n5)
		found n6 -> open 7 n6 (starting, 7 at n6)
		refused 7 no -> kill 7; kill 7; forget image; end "no; it did not start from its checkpoint, 6 times" (ended, 7 at n6)`},
	{"RestoreTriesAnew", time.Hour, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		checkpoint -> freeze 1 #1 (being saved, 1 at home)
		saved 1 image -> pass; answer (running, 1 at home)
		lost 1 gone -> drop; kill 1; tell "gone; it goes on from its last checkpoint"; find (waiting for a node, 0 at home)
		found a -> open 2 a (starting, 2 at a)
		refused 2 no -> kill 2; tell "no; it goes on from its last checkpoint"; find not a (waiting for a node, 0 at a)
		found b -> open 3 b (starting, 3 at b)
		ready 3 -> restore 3 image (starting, 3 at b)
		started 3 ->  (running, 3 at b)
		lost 3 gone -> drop; kill 3; tell "gone; it goes on from its last checkpoint"; find (waiting for a node, 0 at b)
		found n4 -> open 4 n4 (starting, 4 at n4)
		refused 4 no -> kill 4; tell "no; it goes on from its last checkpoint"; find not n4 (waiting for a node, 0 at n4)
		found n5 -> open 5 n5 (starting, 5 at n5)
		refused 5 no -> kill 5; tell "no; it goes on from its last checkpoint"; find not n4,n5 (waiting for a node, 0 at n5)
		found n6 -> open 6 n6 (starting, 6 at n6)
		refused 6 no -> kill 6; tell "no; it goes on from its last checkpoint"; find not n4,n5,n6 (waiting for a node, 0 at n6)
		found n7 -> open 7 n7 (starting, 7 at n7)
		refused 7 no -> kill 7; tell "no; it goes on from its last checkpoint"; find not n4,n5,n6,n7 (waiting for a node, 0 at n7)
		found n8 -> open 8 n8 (starting, 8 at n8)
		refused 8 no -> kill 8; tell "no; it goes on from its last checkpoint"; find not n4,n5,n6,n7,n8 (waiting for a node, 0 at n8)
		found n9 -> open 9 n9 (starting, 9 at n9)
		refused 9 no -> kill 9; kill 9; forget image; end "no; it did not start from its checkpoint, 6 times" (ended, 9 at n9)`},
	{"RestoreWait", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		saved 1 image -> pass; kill 1; restore 2 image (starting, 2 at other)
		refused 2 no -> kill 2; answer "no; it goes on from its last checkpoint"; tell "no; it goes on from its last checkpoint"; find not other (waiting for a node, 0 at other)
		9m59.999999999s tick -> find not other (waiting for a node, 0 at other)
		1ns tick -> forget image; end "no; no other node could go on with it" (ended, 0 at other)`},
	{"Checkpoints", time.Minute, `
		ready 1 -> begin 1 (starting, 1 at home)
		10s started 1 ->  (running, 1 at home)
		59.999999999s tick ->  (running, 1 at home)
		1ns tick -> freeze 1 #1 (being saved, 1 at home)
		tick ->  (being saved, 1 at home)
		full ->  (being saved, 1 at home)
		checkpoint -> answer "it is being saved: try again" (being saved, 1 at home)
		move other -> answer "it is being saved: try again" (being saved, 1 at home)
		saved 1 one -> pass (running, 1 at home)
		59s tick ->  (running, 1 at home)
		1s tick -> freeze 1 #2 (being saved, 1 at home)
		saved 1 two -> pass; forget one (running, 1 at home)
		exited 1 -> pass all; kill 1; forget two; end (ended, 1 at home)`},
	{"CheckpointAsked", time.Minute, `
		checkpoint -> answer "it is starting: try again" (starting, 1 at home)
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		checkpoint -> freeze 1 #1 (being saved, 1 at home)
		checkpoint -> answer "it is being saved: try again" (being saved, 1 at home)
		unsaved 1 it has a socket -> answer "it cannot be saved now: it has a socket" (running, 1 at home)
		checkpoint -> freeze 1 #2 (being saved, 1 at home)
		saved 1 one -> pass; answer (running, 1 at home)
		full -> freeze 1 #3 (being saved, 1 at home)
		saved 1 two -> pass; forget one (running, 1 at home)
		stop -> kill 1; forget two; end "it was stopped" (ended, 1 at home)`},
	{"CheckpointLate", time.Hour, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		full -> freeze 1 #1 (being saved, 1 at home)
		9m59.999999999s tick ->  (being saved, 1 at home)
		1ns tick -> tell "no checkpoint: it cannot be saved now: that took too long" (running, 1 at home)
		59m59.999999999s tick ->  (running, 1 at home)
		1ns tick -> freeze 1 #2 (being saved, 1 at home)
		10m tick ->  (running, 1 at home)
		full -> freeze 1 #3 (being saved, 1 at home)
		saved 1 one -> pass (running, 1 at home)
		full -> freeze 1 #4 (being saved, 1 at home)
		10m tick -> tell "no checkpoint: it cannot be saved now: that took too long" (running, 1 at home)`},
	{"CheckpointsAlways", time.Nanosecond, `
		checkpoint -> answer "it is starting: try again" (starting, 1 at home)
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		tick ->  (running, 1 at home)
		1ns tick -> freeze 1 #1 (being saved, 1 at home)`},
	{"CheckpointLost", time.Minute, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		lost 1 gone -> pass all; kill 1; end "gone" (ended, 1 at home)`},
	{"CheckpointBack", time.Minute, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		full -> freeze 1 #1 (being saved, 1 at home)
		saved 1 one -> pass (running, 1 at home)
		lost 2 x ->  (running, 1 at home)
		lost 1 gone -> drop; kill 1; tell "gone; it goes on from its last checkpoint"; find (waiting for a node, 0 at home)
		lost 1 x ->  (waiting for a node, 0 at home)
		exited 1 ->  (waiting for a node, 0 at home)
		refused 1 x ->  (waiting for a node, 0 at home)
		found other -> open 2 other (starting, 2 at other)
		found x ->  (starting, 2 at other)
		lost 2 gone too -> drop; kill 2; tell "gone too; it goes on from its last checkpoint"; find (waiting for a node, 0 at other)
		found third -> open 3 third (starting, 3 at third)
		ready 4 ->  (starting, 3 at third)
		started 4 ->  (starting, 3 at third)
		full ->  (starting, 3 at third)
		lost 4 gone ->  (starting, 3 at third)
		stop -> kill 3; forget one; end "it was stopped" (ended, 3 at third)`},
	{"CheckpointAskingLost", time.Minute, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		full -> freeze 1 #1 (being saved, 1 at home)
		saved 1 one -> pass (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		lost 1 gone -> drop; kill 1; kill 2; answer "gone; it goes on from its last checkpoint"; tell "gone; it goes on from its last checkpoint"; find (waiting for a node, 0 at home)
		refused 1 x ->  (waiting for a node, 0 at home)
		refused 2 x ->  (waiting for a node, 0 at home)
		lost 2 x ->  (waiting for a node, 0 at home)
		stop -> forget one; end "it was stopped" (ended, 0 at home)`},
	{"CheckpointFreezingLost", time.Minute, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		full -> freeze 1 #1 (being saved, 1 at home)
		saved 1 one -> pass (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #2 hold (being moved, 1 at home)
		lost 1 gone -> drop; kill 1; tell "gone; it goes on from its last checkpoint"; restore 2 one (starting, 2 at other)
		refused 1 x ->  (starting, 2 at other)
		lost 1 x ->  (starting, 2 at other)
		started 2 -> answer (running, 2 at other)`},
	{"CheckpointMoved", time.Minute, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		full -> freeze 1 #1 (being saved, 1 at home)
		saved 1 one -> pass (running, 1 at home)
		move other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #2 hold (being moved, 1 at home)
		saved 1 two -> pass; forget one; kill 1; restore 2 two (starting, 2 at other)
		started 2 -> answer (running, 2 at other)
		exited 2 -> pass all; kill 2; forget two; end (ended, 2 at other)`},
	{"CheckpointOfStarting", time.Minute, `
		ready 1 -> begin 1 (starting, 1 at home)
		lost 1 gone -> pass all; kill 1; end "gone" (ended, 1 at home)`},
	{"Owner", time.Minute, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		full -> freeze 1 #1 (being saved, 1 at home)
		saved 1 one -> pass (running, 1 at home)
		leave other owner -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #2 hold (being moved, 1 at home)
		saved 1 two -> pass; forget one; kill 1; restore 2 two (starting, 2 at other)
		refused 2 no -> kill 2; tell "no; it goes on from its last checkpoint"; find not home,other (waiting for a node, 0 at other)
		found third -> open 3 third (starting, 3 at third)
		ready 3 -> restore 3 two (starting, 3 at third)
		started 3 ->  (running, 3 at third)
		lost 3 gone -> drop; kill 3; tell "gone; it goes on from its last checkpoint"; find (waiting for a node, 0 at third)`},
	{"OwnerLost", time.Minute, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		full -> freeze 1 #1 (being saved, 1 at home)
		saved 1 one -> pass (running, 1 at home)
		leave other owner -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #2 hold (being moved, 1 at home)
		lost 1 gone -> drop; kill 1; tell "gone; it goes on from its last checkpoint"; restore 2 one (starting, 2 at other)
		refused 2 no -> kill 2; tell "no; it goes on from its last checkpoint"; find not home,other (waiting for a node, 0 at other)`},
	{"OwnerLate", time.Minute, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		full -> freeze 1 #1 (being saved, 1 at home)
		saved 1 one -> pass (running, 1 at home)
		leave other owner -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #2 hold (being moved, 1 at home)
		9m59.999999999s tick ->  (being moved, 1 at home)
		1ns tick -> drop; kill 1; tell "the owner of its node needs the computer, and it was not saved in time; it goes on from its last checkpoint"; restore 2 one (starting, 2 at other)`},
	{"OwnerWithoutCheckpoint", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		leave other owner -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		unsaved 1 it has a socket -> pass all; kill 1; kill 2; end "the owner of its node needs the computer, and it cannot be saved now: it has a socket" (ended, 1 at home)`},
	{"OwnerTargetRefuses", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		leave other owner -> open 2 other (about to be moved, 1 at home)
		refused 2 no room -> kill 2 (running, 1 at home)
		leave other owner -> open 3 other (about to be moved, 1 at home)
		30s tick -> kill 3 (running, 1 at home)`},
	{"ShutDown", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		leave other off -> open 2 other (about to be moved, 1 at home)
		refused 2 no room -> kill 2; tell "its node is shut down, but another one does not take it: no room" (running, 1 at home)
		leave other off -> open 3 other (about to be moved, 1 at home)
		refused 3 no room -> kill 3 (running, 1 at home)
		leave other off -> open 4 other (about to be moved, 1 at home)
		refused 4 no disk -> kill 4; tell "its node is shut down, but another one does not take it: no disk" (running, 1 at home)`},
	{"Drained", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		leave other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		unsaved 1 it has a socket -> kill 2; tell "its node is drained, but it stays: it cannot be saved now: it has a socket" (running, 1 at home)
		leave other -> open 3 other (about to be moved, 1 at home)
		ready 3 -> freeze 1 #2 hold (being moved, 1 at home)
		unsaved 1 it has a socket -> kill 3 (running, 1 at home)
		leave other -> open 4 other (about to be moved, 1 at home)
		ready 4 -> freeze 1 #3 hold (being moved, 1 at home)
		unsaved 1 it maps a device -> kill 4; tell "its node is drained, but it stays: it cannot be saved now: it maps a device" (running, 1 at home)
		move other -> open 5 other (about to be moved, 1 at home)
		refused 5 no -> kill 5; answer "no" (running, 1 at home)`},
	{"DrainedLate", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		leave other -> open 2 other (about to be moved, 1 at home)
		ready 2 -> freeze 1 #1 hold (being moved, 1 at home)
		10m tick -> kill 2; resume 1 #1 (running, 1 at home)`},
	{"AskedAfterOwner", 0, `
		ready 1 -> begin 1 (starting, 1 at home)
		started 1 ->  (running, 1 at home)
		leave other off -> open 2 other (about to be moved, 1 at home)
		refused 2 no -> kill 2; tell "its node is shut down, but another one does not take it: no" (running, 1 at home)
		move other -> open 3 other (about to be moved, 1 at home)
		ready 3 -> freeze 1 #1 hold (being moved, 1 at home)
		unsaved 1 x -> kill 3; answer "it cannot be saved now: x" (running, 1 at home)`},
}

func TestScripts(t *testing.T) {
	for _, c := range scripts {
		t.Run(c.name, func(t *testing.T) { run(t, c.every, c.lines) })
	}
}
