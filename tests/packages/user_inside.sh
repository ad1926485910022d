#!/bin/sh
# SPDX-License-Identifier: MIT
# Types what docs/services.md types without root. Each step prints one line.
set -eu
cd

# Polls; the caller of this script ends a wait that takes too long.
until_true() # command...
{
	until "$@" >/dev/null 2>&1; do
		sleep 0.2
	done
}

manager_runs()
{
	systemctl --user is-system-running | grep -qE 'running|degraded'
}

log_in()
{
	/lib/systemd/systemd --user --log-target=console </dev/null >&2 &
	manager=$!
	until_true manager_runs
}

log_out()
{
	kill "$manager"
	wait "$manager" || true
}

says() # text
{
	skep service status --user 2>&1 | grep -q -e "$1"
}

services_ready()
{
	says '^hub .*active (running) .*listens on' &&
		says '^agent .*active (running) .*connected to the hub at 127.0.0.1:4860'
}

ask_unit() # property unit
{
	systemctl --user show -P "$1" "$2"
}

restarted() # unit
{
	[ "$(ask_unit NRestarts "$1")" -ge 1 ] && [ "$(ask_unit MainPID "$1")" -gt 0 ]
}

run_program()
{
	[ "$(skep exec -- /bin/busybox echo ran)" = ran ]
}

none_runs()
{
	! pgrep -x skep >&2
}

log_in
skep service install hub --user >&2
until_true says '^hub .*listens on'
echo 'hub: ok'
skep token >join-token
skep service install agent 127.0.0.1:4860 --token-file join-token --user >&2
until_true services_ready
echo 'agent: ok'
run_program
echo 'program: ok'
for unit in skep-hub skep-agent; do
	kill -9 "$(ask_unit MainPID $unit)"
	until_true restarted $unit
done
until_true services_ready
run_program
echo 'killed: ok'
log_out
none_runs
log_in
until_true services_ready
run_program
echo 'login: ok'
skep service uninstall agent --user >&2
skep service uninstall hub --user >&2
none_runs
[ -z "$(find .config/systemd -name 'skep*')" ]
echo 'uninstall: ok'
log_out
