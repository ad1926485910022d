// SPDX-License-Identifier: MIT

package main

import "skep/internal/manual"

var accountFiles = []manual.Entry{stateFile, {Name: "account/", Text: "in it: the key, the certificate and the hub's address of the user of this machine; mode 0600"}}

// userTexts returns the texts of the commands about the users of a hub.
func userTexts() map[string]text {
	return map[string]text{
		"user": {
			text: []string{"The user who runs skep up is the operator of the hub: all commands on that machine are the operator's. Other users get accounts, with which they submit from other machines, over TLS: skep run, calls, cancel, ledger, logs, top, page and nodes in a state directory with an account go to its hub. Each sees and ends only its own runs; the operator sees all.",
				"Users whose calls wait share the slots of the nodes by --share. --slots limits how many of a user's calls run at a time, and --quota how many bytes the hub stores for it. On a node, the workers, caches and folders of users are apart; agents that are too old for that get no calls of accounts."},
			examples: []manual.Entry{{Name: "skep user add ada --share 2 --slots 16", Text: "on the hub; prints a command for the user's machine"},
				{Name: "skep user set operator --share 4", Text: "give the operator's own runs a greater part"}},
			exit: "0 1 2 3 4", see: "skep-user-add(1) skep-user-join(1) skep-user-list(1) skep-user-set(1) skep-user-token(1) skep-user-remove(1) skep-run(1)",
		},
		"user add": {
			text: []string{"The printed command opens the account on one machine, once, within --expires. The user's private key is made there and never leaves it. NAME has small letters, digits, '_', '.' and '-'. An account that is removed and added again under its name is another account."},
			examples: []manual.Entry{{Name: "skep user add ada", Text: "no limits, a share of 1"},
				{Name: "skep user add --share 2 --slots 16 --quota 50G ada", Text: "twice the part of others, at most 16 calls at a time"},
				{Name: "skep user add ada | ssh ada@desk skep user join HOST:4860 --token-file -", Text: "open it on the user's machine"}},
			files: hubFiles, environment: stateNames,
			exit: "0 1 2 3 4", see: "skep-user-join(1) skep-user-set(1) skep-user-token(1)",
		},
		"user join": {
			text:     []string{"The machine needs no agent and opens no port. The token is a secret, and a command line is visible to every user of the machine. So the command that a hub prints passes it in SKEP_TOKEN. From then on all commands with this state directory go to that hub. The certificate is valid for a year, and is renewed when it is used in the last 60 days of that."},
			examples: []manual.Entry{{Name: "skep user join 192.0.2.7:4860 --token-file token", Text: "open the account whose command is in a file"}, {Name: "skep user list", Text: "what this account may have and uses"}},
			files:    accountFiles, environment: "SKEP_TOKEN " + stateNames,
			exit: "0 1 2 3 4", see: "skep-user-add(1) skep-run(1)",
		},
		"user list": {
			text:     []string{"The operator sees all users, an account only itself. STORED has the bytes that count towards the quota; MACHINES says on how many machines the account was opened."},
			examples: []manual.Entry{{Name: "skep user list --json", Text: "for programs"}},
			files:    hubFiles, environment: stateNames,
			exit: "0 1 2 3 4", see: "skep-user-set(1) skep-calls(1)",
		},
		"user set": {
			text:     []string{"What is not given stays. It holds from then on; calls that run go on. The user operator is the hub's own."},
			examples: []manual.Entry{{Name: "skep user set --slots 4 ada", Text: "at most 4 calls at a time"}, {Name: "skep user set --slots 0 ada", Text: "no limit"}},
			files:    hubFiles, environment: stateNames,
			exit: "0 1 2 3 4", see: "skep-user-list(1) skep-user-add(1)",
		},
		"user token": {
			text:     []string{"For a user with several machines, or one whose certificate expired."},
			examples: []manual.Entry{{Name: "skep user token ada", Text: "one more machine"}},
			files:    hubFiles, environment: stateNames,
			exit: "0 1 2 3 4", see: "skep-user-add(1) skep-user-join(1)",
		},
		"user remove": {
			text:     []string{"The account's certificates and tokens are refused from then on, on all its machines, and its runs end. Its entries in the ledger stay, for the operator."},
			examples: []manual.Entry{{Name: "skep user remove ada", Text: "with all its runs"}},
			files:    hubFiles, environment: stateNames,
			exit: "0 1 2 3 4", see: "skep-user-list(1)",
		},
	}
}
