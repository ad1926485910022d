// SPDX-License-Identifier: MIT
/*
 * Updates that are bad, each in its own way, and what becomes of them: the
 * node goes on, says who it was, and can be rid of the module.
 *
 *   dynamos_bad MODULE
 *
 * The kernel reports a WARN in try_warn and try_helper, that try_atomic slept
 * while it must not, that try_leak left preemption off, and an oops in try_null
 * and in try_mutex; after the last one nothing more is applied until a reboot.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dynamos_use.h"
#include "tests/tap.h"

static struct dynamos_apply apply;
static struct dynamos_info info;
static struct dynamos_count count;
static struct dynamos_event event;
static struct canary canary;

static long call_getpgid(const struct canary *c)
{
	return getpgid(c->pid);
}

/* A kind that is in force for one canary. */
static void begin_update(const char *kind, u32 confirm_ms)
{
	struct dynamos_health health = apply.health;
	int err = use_load(kind);

	if (!tap_ok(!err, "bad: %s loads", kind))
		printf("# %s\n", strerror(-err));
	use_canary(&canary);
	memset(&apply, 0, sizeof(apply));
	apply.health = health;
	apply.confirm_ms = confirm_ms;
	use_only(&apply.policy, canary.pid);
	err = use_apply(&apply);
	if (!tap_ok(!err, "bad: %s is applied to one process", kind))
		printf("# %s: %s\n", strerror(-err), use_why);
}

/* It has left for this reason, nobody is inside, and the module goes. */
static void expect_gone(const char *kind, const char *end)
{
	tap_ok(!use_until(DYNAMOS_LOADED), "bad: %s has left", kind);
	use_info(&info);
	if (!tap_ok(strstr(info.end, end) != NULL,
		    "bad: %s: the end's reason names the cause", kind))
		printf("# %s\n", info.end);
	tap_ok(use_inside(1) == 0 && use_inside(0) == 0,
	       "bad: %s: counts balance", kind);
	tap_ok(!use_unload(), "bad: %s unloads", kind);
	memset(&apply, 0, sizeof(apply));
}

static void expect_event(const char *kind, u32 cause, s32 pid, const char *text)
{
	int err = use_event(cause, &event);

	if (!tap_ok(!err && event.pid == pid && strstr(event.text, text),
		    "bad: %s: an event names the cause", kind))
		printf("# %d: pid %d of %d: %s\n", err, event.pid, pid,
		       event.text);
}

static void test_unconfirmed(void)
{
	begin_update("fine", 60000);
	TAP(use_call(&canary) == 4242);
	TAP(getpgid(0) != 4242);
	TAP(!use_info(&info) && info.confirm_ms > 0 &&
	    info.confirm_ms <= 60000);
	TAP(!use_commit());
	TAP(!use_info(&info) && info.confirm_ms == -1 &&
	    info.state == DYNAMOS_COMMITTED);
	TAP(!use_revert());
	TAP(use_call(&canary) == call_getpgid(&canary));
	use_end(&canary);
	expect_gone("fine", "");

	begin_update("fine", 200);
	expect_event("unconfirmed", DYNAMOS_UNCONFIRMED, 0, "200 ms");
	TAP(use_call(&canary) == call_getpgid(&canary));
	use_end(&canary);
	expect_gone("unconfirmed", "not committed");
}

static void test_warn(void)
{
	begin_update("warn", 0);
	TAP(use_call(&canary) == 4242);
	TAP(use_call(&canary) == call_getpgid(&canary));
	expect_event("warn", DYNAMOS_WARNED, canary.pid, "try_warn");
	use_end(&canary);
	expect_gone("warn", "WARN at try_warn");
}

/* What the kernel reports of text that no call is inside of, or only says in
 * words: the update is taken back, and it is told why. */
static void test_report(const char *kind, const char *text)
{
	int err;

	begin_update(kind, 0);
	TAP(use_call(&canary) == 4242);
	do
		err = use_event(DYNAMOS_WARNED, &event);
	while (!err && !strstr(event.text, text));
	tap_ok(!err, "bad: %s: an event names the cause", kind);
	TAP(use_call(&canary) == call_getpgid(&canary));
	use_end(&canary);
	expect_gone(kind, text);
}

static void test_null(void)
{
	begin_update("null", 0);
	TAP(use_call(&canary) == -1000);
	TAP(WIFSIGNALED(use_end(&canary)));
	expect_event("null", DYNAMOS_DIED, canary.pid, "try_null");
	TAP(!use_until(DYNAMOS_LOADED));
	TAP(!use_count(0, 1, &count) && count.lost == 1 && count.in == 1 &&
	    count.out == 0);
	TAP(!use_info(&info) && !info.advised);
	use_canary(&canary);
	TAP(use_call(&canary) == call_getpgid(&canary));
	use_end(&canary);
	expect_gone("null", "try_null");
}

static void test_mutex(void)
{
	begin_update("mutex", 0);
	TAP(use_call(&canary) == -1000);
	TAP(WIFSIGNALED(use_end(&canary)));
	expect_event("mutex", DYNAMOS_DIED, canary.pid, "try_mutex");
	TAP(!use_until(DYNAMOS_LOADED));
	TAP(!use_info(&info) && info.advised);
	TAP(use_apply(&apply) < 0 && strstr(use_why, "reboot"));
	expect_gone("mutex", "try_mutex");
	TAP(!use_load("fine"));
	TAP(use_apply(&apply) < 0 && strstr(use_why, "reboot"));
	TAP(!use_unload());
}

/* One call never comes back: it is named, all else goes on. */
static void test_forever(const char *kind, u32 finds)
{
	struct canary other;
	int i;

	/* Taking a hook out waits for all tasks, this one would never pass. */
	TAP(!use_alone());
	apply.health.stuck = 300ull * 1000 * 1000;
	begin_update(kind, 0);
	use_ask(&canary);
	for (i = 0; i < (int)finds; i++)
		expect_event(kind, DYNAMOS_STUCK, i ? canary.pid : 0,
			     i ? "__x64_sys_getpgid" : "1 stuck for");
	TAP(!use_answered(&canary, 0));
	TAP(!use_revert());
	use_canary(&other);
	TAP(use_call(&other) == call_getpgid(&other));
	use_end(&other);
	TAP(use_state() == DYNAMOS_LEAVING);
	TAP(use_inside(1) == 1);
	TAP(use_unload() == -EWOULDBLOCK);
	TAP(!use_stop());
	TAP(use_answer(&canary) == 4242);
	TAP(use_call(&canary) == call_getpgid(&canary));
	use_end(&canary);
	expect_gone(kind, "");
}

/* Both versions are called until the engine has seen enough. */
static void test_worse(const char *kind, u32 cause, const char *end)
{
	struct canary older;
	long calls = 0;

	begin_update(kind, 0);
	use_canary(&older);
	while (use_state() == DYNAMOS_TRIAL && calls < 100000) {
		use_calls(&canary, 100);
		use_calls(&older, 100);
		calls += 100;
	}
	printf("# %s: %ld calls\n", kind, calls);
	expect_event(kind, cause, 0, end);
	TAP(use_call(&canary) == call_getpgid(&canary));
	use_end(&older);
	use_end(&canary);
	expect_gone(kind, end);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	use_begin(argv[1]);
	test_unconfirmed();
	test_warn();
	test_report("atomic", "BUG: scheduling while atomic at try_atomic");
	test_report("helper", "WARN at try_helper");
	test_report("leak", "BUG: workqueue leaked at try_leak");
	test_null();
	test_forever("loop", 2);
	test_forever("sleep", 1);
	apply.health.least = 200;
	apply.health.errors = 50;
	test_worse("errors", DYNAMOS_ERRORS, "calls fail");
	apply.health.least = 200;
	apply.health.latency = 200;
	test_worse("slow", DYNAMOS_SLOW, "half of the calls");
	test_mutex();
	return tap_done();
}
