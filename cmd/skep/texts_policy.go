// SPDX-License-Identifier: MIT

package main

import "skep/internal/manual"

// policyTexts returns the texts of the commands for the owner's policy.
func policyTexts() map[string]text {
	return map[string]text{
		"policy": {
			text:     []string{"With a policy, the owner of a node says when and how many remote programs may run there. Pass it to skep join or skep up with --policy; the hub cannot change it. The policies always, desk and share are built in."},
			examples: []manual.Entry{{Name: "skep join --policy desk", Text: "work only while nobody uses this PC"}, {Name: "skep policy check my.policy", Text: "find mistakes"}, {Name: "skep policy why", Text: "show the machine's state now"}},
			exit:     "0 1 2", see: "skep-policy-check(1) skep-policy-why(1) skep-join(1) skep-owner-policy(5)",
		},
		"policy check": {
			text:     []string{"It prints each rule with the slots that it permits, or each mistake with its line."},
			examples: []manual.Entry{{Name: "skep policy check desk", Text: "a built-in policy"}, {Name: "skep policy check my.policy", Text: "a file"}},
			files:    []manual.Entry{{Name: "FILE", Text: "a policy; skep-owner-policy(5) describes the language"}},
			exit:     "0 1 2", see: "skep-policy-why(1) skep-owner-policy(5)",
		},
		"policy why": {
			text:        []string{"It reads this machine's sources, which takes two seconds, and prints their values, which rules hold, and what an agent with this policy would permit. Without FILE or NAME it uses the agent's policy. A rule with a condition that no source knows does not hold."},
			examples:    []manual.Entry{{Name: "skep policy why", Text: "the agent's policy"}, {Name: "skep policy why share", Text: "another one"}},
			files:       agentFiles,
			environment: stateNames,
			exit:        "0 1 2", see: "skep-policy-check(1) skep-owner-policy(5)",
		},
	}
}
