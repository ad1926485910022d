// SPDX-License-Identifier: MIT

package agent

import "errors"

// chooseConfinement chooses bee, which shows a program one folder. bee emulates Linux and does
// not protect against a hostile program.
func (a *Agent) chooseConfinement() error {
	if len(a.config.Read)+len(a.config.Write) > 0 || a.config.Network {
		return errors.New("on Windows --allow has no effect: bee shows them the agent's own folder")
	}
	a.confined.Kind = ConfinedBee
	a.confined.open = openUnderBee
	return nil
}
