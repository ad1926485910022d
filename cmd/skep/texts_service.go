// SPDX-License-Identifier: MIT

package main

import "skep/internal/manual"

var serviceFiles = []manual.Entry{{Name: "/etc/systemd/system/skep-hub.service, skep-agent.service, skep-kernel.service", Text: "the units, if no package has installed them"},
	{Name: "/etc/systemd/system/skep-hub.service.d/skep.conf", Text: "what this machine adds to a unit"},
	{Name: "~/.config/systemd/user", Text: "the same, with --user"},
	{Name: "C:\\ProgramData\\skep", Text: "on Windows: the state of hub and agent, for their accounts only"},
	{Name: "/var/lib/skep", Text: "the state of hub and agent, of the account skep"},
	{Name: "/var/lib/skep-kernel", Text: "what is restored in the kernel at boot; owned by root"}}

const serviceVariables = stateNames + " HOME PATH"

func serviceTexts() map[string]text {
	return map[string]text{
		"service": {
			text: []string{"systemd runs hub and agent from boot on, under the account skep, and starts them again after a failure. The service kernel restores Skep's loaded modules, the allowance of cores and committed updates after a boot.",
				"On Windows the service control manager runs them, under virtual accounts; there is no service kernel. With --user they start when the user logs on.",
				"On a Linux with another init system, the commands print its name and do nothing."},
			examples:    []manual.Entry{{Name: "sudo skep service install hub", Text: "a hub from boot on"}, {Name: "skep service status", Text: "the state of the services"}},
			files:       serviceFiles,
			environment: serviceVariables,
			exit:        "0 1 2 3 4", see: "skep-up(1) skep-join(1) skep-part-allow(1) skep-update-commit(1)",
		},
		"service install": {
			text: []string{"It prints the name of each file that it writes. Repeating the command changes nothing. With other options it replaces the old ones and restarts the service. It does not change files that it did not write.",
				"An agent joins its hub immediately, with the token of --token-file. The token is not stored. An agent that has joined before needs no token.",
				"Options after -- are those of skep up (hub) or skep join (agent)."},
			examples: []manual.Entry{{Name: "sudo skep service install hub -- --listen :4870", Text: "with an option of skep up"},
				{Name: "sudo skep service install agent 192.0.2.7:4860 --token-file token", Text: "join this hub, and serve it from boot on"},
				{Name: "skep service install hub --user", Text: "without root"}},
			files:       serviceFiles,
			environment: serviceVariables,
			exit:        "0 1 2 3 4", see: "skep-service(1) skep-service-uninstall(1) skep-token(1)",
		},
		"service uninstall": {
			text:        []string{"It removes what skep service install wrote, and nothing else. The state stays unless --purge is given; then the command asks for the name of the service on standard input."},
			examples:    []manual.Entry{{Name: "sudo skep service uninstall agent", Text: "all but the state"}, {Name: "sudo skep service uninstall agent --purge", Text: "the state too"}},
			files:       serviceFiles,
			environment: serviceVariables,
			exit:        "0 1 2 4", see: "skep-service(1)",
		},
		"service status": {
			text:        []string{"One line per installed service, with the status that the service reports. The exit code is 3 if hub or agent does not run."},
			examples:    []manual.Entry{{Name: "skep service status --json", Text: "for programs"}},
			environment: serviceVariables,
			exit:        "0 1 2 3 4", see: "skep-service(1)",
		},
		"service start": {
			text:        []string{"It waits until the service is ready."},
			examples:    []manual.Entry{{Name: "sudo skep service start hub", Text: "start the hub"}},
			environment: serviceVariables,
			exit:        "0 1 2 4", see: "skep-service(1)",
		},
		"service stop": {
			text:        []string{"The programs that a node runs end. At the next boot the service starts again."},
			examples:    []manual.Entry{{Name: "sudo skep service stop agent", Text: "stop the agent"}},
			environment: serviceVariables,
			exit:        "0 1 2 4", see: "skep-service(1)",
		},
		"service restart": {
			text:        []string{"Agents reconnect to a hub that is restarted. Running programs end; 'systemctl reload' waits for them before it restarts the service."},
			examples:    []manual.Entry{{Name: "skep service restart --user hub", Text: "restart this user's hub"}},
			environment: serviceVariables,
			exit:        "0 1 2 4", see: "skep-service(1)",
		},
	}
}
