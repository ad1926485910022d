// SPDX-License-Identifier: MIT

package main

import "skep/internal/manual"

// standbyTexts returns the texts of the commands about a hub's standby.
func standbyTexts() map[string]text {
	return map[string]text{
		"standby": {
			text: []string{"A standby is a second machine that copies the hub's state as it is stored: its keys, nodes, users and tokens, runs and sessions, their programs, results that a message cannot hold, and the ledger. While it is connected, the hub answers only when the standby has what the answer depends on. If it does not move for five seconds, the hub goes on alone, and says so.",
				"When the hub dies, skep standby promote --force makes the standby the hub. Nodes and users connect to it by themselves, because the hub told them its address. Calls that ran go on, and each ends once. Masters look for a hub for 2 minutes (skep up --keep-runs). Programs on the machine that died are lost with it, as are detached runs there; users' programs on other machines go on.",
				"No standby takes over by itself: two machines cannot know which of them is cut off. Each takeover has a number, the epoch, in the new hub's certificate. Nodes and users refuse a hub with a smaller one, and prove to it that it is over; then it ends, and does not start again."},
			examples: []manual.Entry{{Name: "skep standby token", Text: "on the hub; prints the command for the second machine"},
				{Name: "skep standby promote --force", Text: "on the standby, when the hub is dead"}},
			exit: "0 1 2 3 4", see: "skep-up(1) skep-standby-token(1) skep-standby-show(1) skep-standby-promote(1) skep-standby-forget(1) skep-backup(1)",
		},
		"standby token": {
			text:     []string{"The printed command begins to stand by, once, within a day. The token is worth the hub's private keys. A hub has one standby: a new one takes the place of the one before."},
			examples: []manual.Entry{{Name: "skep standby token | ssh second skep up --standby hub.example.org:4860 --token-file -", Text: "begin on the machine second"}},
			files:    hubFiles, environment: stateNames,
			exit: "0 1 2 3 4", see: "skep-up(1) skep-standby(1)",
		},
		"standby show": {
			text:     []string{"What it says answers what would be lost if the hub died now. The state in JSON is none, away, copies or whole."},
			examples: []manual.Entry{{Name: "skep standby show --json", Text: "for programs"}},
			files:    hubFiles, environment: stateNames,
			exit: "0 1 2 3 4", see: "skep-standby(1)",
		},
		"standby promote": {
			text: []string{"If the hub answers, it gives way: it accepts nothing more, the standby gets what is left, and the hub ends. So a hub moves to another machine while its users work.",
				"If the hub does not answer, it may be dead, or this machine may be cut off. Only --force takes over then. If the old hub still works, it ends when the first node, user or the new hub reaches it. What it accepted while the standby did not hear it is not here."},
			examples: []manual.Entry{{Name: "skep standby promote", Text: "move the hub to this machine"}, {Name: "skep standby promote --force", Text: "the hub is dead"}},
			files:    hubFiles, environment: stateNames,
			exit: "0 1 2 3 4", see: "skep-standby(1) skep-standby-show(1)",
		},
		"standby forget": {
			text:     []string{"The standby is refused from then on, and the hub starts without asking it. Nodes keep its address, which does no harm."},
			examples: []manual.Entry{{Name: "skep standby forget", Text: "the second machine is gone for good"}},
			files:    hubFiles, environment: stateNames,
			exit: "0 1 2 3 4", see: "skep-standby(1)",
		},
	}
}
