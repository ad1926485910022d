// SPDX-License-Identifier: MIT
/*
 * The update engine, with updates by hand: what it refuses, who gets which
 * version, what it counts, and how updates leave.
 *
 *   dynamos_engine HAND NEXT TRY PART...      the modules' files
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dynamos_engine.h"
#include "dynamos_supersede.h"
#include "dynamos_use.h"
#include "dynamos_want.h"
#include "tests/tap.h"

static const char *try_file;

static void select_try(void)
{
	use_turn(TRY, try_file);
}

/* What dynamos_update_add() refuses. */
static void test_refusals(void)
{
	static const struct {
		const char *kind;
		int err;
	} bad[] = {
		{"absent", -ENOENT},	  {"size", -ENOEXEC},
		{"notrace", -EOPNOTSUPP}, {"double", -EINVAL},
		{"outside", -EINVAL},	  {"none", -EINVAL},
		{"dead", -EINVAL},	  {"narrow", -EINVAL},
	};
	size_t i;

	select_hand();
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		want_is(use_load(bad[i].kind), bad[i].err, bad[i].kind);
		if (!use_state())
			continue;
		use_unload();
	}
}

/* Another kernel's build-id, and no right to the device. */
static void test_unauthorized(void)
{
	int fd = open(hand_file, O_RDONLY | O_CLOEXEC), status = -1, pid;
	int err =
		syscall(SYS_finit_module, fd,
			"build_id=00112233445566778899aabbccddeeff00112233", 0)
			? -errno
			: 0;

	want_is(err, -EINVAL, "an update for another kernel is refused");
	close(fd);
	pid = fork();
	if (!pid) {
		if (setuid(1000))
			_exit(2);
		_exit(open("/dev/dynamos", O_RDWR) >= 0 || errno != EACCES);
	}
	waitpid(pid, &status, 0);
	want_is(status, 0, "an ordinary user cannot open the device");
	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWCGROUP) ||
		    use_info(&(struct dynamos_info){}) != -EPERM)
			_exit(1);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	want_is(status, 0, "other namespaces are refused");
}

static u64 count_calls(u32 version)
{
	struct dynamos_count c;

	return use_count(0, version, &c) ? ~0ull : c.in;
}

/* The life of an update of one function. */
static void test_life(void)
{
	long mine = get_answer();
	struct dynamos_policy only;
	struct canary canary;

	select_hand();
	use_canary(&canary);
	want_ok(use_load("one"), "an update loads");
	want_is(use_state(), DYNAMOS_LOADED, "a loaded update's state");
	tap_ok(get_answer() == mine, "engine: loading changes nothing");
	want_is(use_revert(), -EALREADY, "a loaded update is not reverted");
	want_is(use_policy(&all), -EINVAL, "a loaded update takes no policy");
	want_ok(apply_to(&nobody, 0), "an update is applied to no process");
	tap_ok(get_answer() == mine,
	       "engine: no process takes the new version");
	tap_ok(count_calls(0) >= 1 && !count_calls(1),
	       "engine: old calls are counted");
	want_is(apply_to(&all, 0), -EALREADY, "no update is applied twice");
	want_is(use_unload(), -EAGAIN, "an update in force cannot be unloaded");
	use_only(&only, canary.pid);
	want_ok(use_policy(&only), "a policy selects one process");
	tap_ok(use_call(&canary) == 4242 && get_answer() == mine,
	       "engine: only the selected process takes the new version");
	want_ok(use_policy(&all), "a policy selects all");
	tap_ok(get_answer() == 4242, "engine: all take the new version");
	want_ok(use_commit(), "an update is committed");
	want_is(use_commit(), -EALREADY, "no update is committed twice");
	want_is(use_state(), DYNAMOS_COMMITTED, "a committed update's state");
	want_ok(use_revert(), "a committed update is reverted");
	tap_ok(get_answer() == mine, "engine: a revert takes effect at once");
	want_ok(use_until(DYNAMOS_LOADED), "a reverted update has left");
	tap_ok(use_inside(1) == 0 && count_calls(1) == 2,
	       "engine: counts of an update that has left can be read");
	want_ok(apply_to(&all, 0), "an update that has left is applied again");
	tap_ok(get_answer() == 4242 && count_calls(1) == 1,
	       "engine: an update that is applied again counts from 0");
	end_update("again");
	tap_ok(get_answer() == mine, "engine: unloading leaves no trace");
	use_end(&canary);
}

static void sleep_ms(long ms)
{
	struct timespec t = {.tv_nsec = ms * 1000 * 1000};

	nanosleep(&t, NULL);
}

static const struct dynamos_policy *make_policy(u32 n)
{
	static struct dynamos_policy p;

	memset(&p, 0, sizeof(p));
	p.rules = 1;
	p.rule[0].choice = 1;
	switch (n % 4) {
	case 0:
		p.rule[0].terms = DYNAMOS_CPUS;
		p.rule[0].cpus[0] = 5;
		return &p;
	case 1:
		p.rule[0].terms = DYNAMOS_UID | DYNAMOS_CPUS | DYNAMOS_COMM;
		p.rule[0].cpus[0] = 2;
		strcpy(p.rule[0].comm, "dynamos_engine");
		return &p;
	case 2:
		return &all;
	default:
		return &nobody;
	}
}

static void set_online(int cpu, int on)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online",
		 cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (write(fd, on ? "1" : "0", 1) != 1)
		printf("# CPU %d: %s\n", cpu, strerror(errno));
	close(fd);
}

/* Each call is counted once, at the version whose answer it got. */
static void test_balance(void)
{
	u64 made, newer, wrong;
	u32 i;

	select_hand();
	want_ok(use_load("one"), "balance: loads");
	want_ok(apply_to(&nobody, 0), "balance: is applied");
	start_hammers(20000);
	for (i = 0; i < 25; i++) {
		if (use_policy(make_policy(i)))
			break;
		if (i == 5 || i == 15)
			set_online(3, i == 15);
		sleep_ms(10);
	}
	tap_ok(i == 25, "engine: balance: 25 policies while called");
	join_hammers(&made, &newer, &wrong);
	tap_ok(!wrong, "engine: balance: every answer is that of a version");
	tap_ok(newer && newer < made, "engine: balance: both are called");
	if (!tap_ok(made == CPUS * 20000 &&
			    count_calls(0) + count_calls(1) >= made &&
			    count_calls(1) == newer,
		    "engine: balance: every call is counted"))
		printf("# %llu made, %llu newer; %llu and %llu counted\n", made,
		       newer, count_calls(0), count_calls(1));
	/* main's own calls: the answers that start_hammers() and test_life()
	 * compare to */
	tap_ok(count_calls(0) + count_calls(1) == made + 1,
	       "engine: balance: no call is counted twice");
	tap_ok(!use_inside(0) && !use_inside(1),
	       "engine: balance: every call has returned");
	end_update("balance");
}

static int start_sleeper(void)
{
	int pid = fork();

	if (!pid) {
		signal(SIGUSR1, SIG_DFL);
		pause();
		_exit(1);
	}
	return pid;
}

static void kill_sleeper(int pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Until so many are inside a version. */
static int await_inside(u32 version, u64 want)
{
	int i;

	for (i = 0; i < 600 && use_inside(version) != want; i++)
		sleep_ms(100);
	return i < 600 ? 0 : -ETIMEDOUT;
}

/* Until somebody is inside the new version of the second function. */
static int await_asleep(void)
{
	struct dynamos_count c = {0};
	int i;

	for (i = 0; i < 6000 && !use_count(1, 1, &c) && c.in == c.out; i++)
		sleep_ms(10);
	return c.in > c.out ? 0 : -ETIMEDOUT;
}

/* Loads, changes its mind a hundred times a second, and leaves; in each fifth
 * cycle not before a sleeper inside was woken. 0: all as it shall be. */
static int run_cycle(u32 i, u64 *counted)
{
	struct dynamos_count c = {0};
	int err, sleeps = 0;
	u32 j;

	if (i % 12 == 3 || i % 12 == 9)
		set_online(3, i % 12 == 9);
	err = use_load("both") ?: apply_to(make_policy(i), 0);
	for (j = 0; !err && j < 5; j++) {
		err = use_policy(make_policy(i + j));
		sleep_ms(10);
	}
	if (!err && i % 2)
		err = use_commit();
	if (!err && i % 5 == 0) {
		err = use_policy(&all);
		sleeps = start_sleeper();
		err = err ?: await_asleep();
	}
	if (!err && use_unload() != -EAGAIN)
		err = -ESTALE;
	err = err ?: use_revert();
	if (!err && sleeps && (sleep_ms(20), use_unload() != -EAGAIN))
		err = -ESTALE;
	if (sleeps)
		kill_sleeper(sleeps);
	err = err ?: use_until(DYNAMOS_LOADED);
	err = err ?: use_count(0, 1, &c);
	*counted += c.in;
	if (!err && c.in != c.out)
		err = -ERANGE;
	return err ?: use_unload();
}

/* After each third cycle, until no function is hooked and all were called
 * since. */
static int await_unhooked(u32 cycle)
{
	u64 calls[CPUS];
	int err, i, tries;

	if (cycle % 3)
		return 0;
	err = use_alone();
	for (i = 0; i < CPUS; i++)
		calls[i] = __atomic_load_n(&hammers[i].calls, __ATOMIC_RELAXED);
	for (i = 0; i < CPUS && !err; i++) {
		for (tries = 0; tries < 600 &&
				calls[i] == __atomic_load_n(&hammers[i].calls,
							    __ATOMIC_RELAXED);
		     tries++)
			sleep_ms(10);
		if (tries == 600)
			err = -ETIMEDOUT;
	}
	return err;
}

/* Comes and goes under load, while a processor goes and comes. The next cycle
 * may take the hooks again before they are removed, so each third waits until
 * the last one is, while all call the functions. */
static void run_cycles(u32 n)
{
	u64 made, newer, wrong, counted = 0;
	int err = 0;
	u32 i;

	select_hand();
	start_hammers(0);
	for (i = 0; i < n && !err; i++)
		err = run_cycle(i, &counted) ?: await_unhooked(i);
	if (!tap_ok(!err, "engine: cycles under load"))
		printf("# %d (%s) in cycle %u: %s\n", err, strerror(-err),
		       i - 1, use_why);
	stop_hammers(&made, &newer, &wrong);
	set_online(3, 1);
	tap_ok(made && !wrong, "engine: cycles: each answer is a version's");
	if (!tap_ok(newer && newer == counted,
		    "engine: cycles: no call of the new version is lost"))
		printf("# %llu answers, %llu counted\n", newer, counted);
	printf("# %llu calls, %llu of them new\n", made, newer);
}

/* Somebody sleeps in the new version, then in the old one. */
static void test_sleepers(void)
{
	long before;
	int pid, second, i;

	want_ok(use_alone(), "sleeper: only this program has the engine");
	before = use_users();
	select_hand();
	want_ok(use_load("pause"), "sleeper: loads");
	want_ok(apply_to(&all, 0), "sleeper: is applied");
	pid = start_sleeper();
	want_ok(await_inside(1, 1),
		"sleeper: the sleeping call is counted as inside");
	want_ok(use_revert(), "sleeper: revert");
	second = start_sleeper();
	want_ok(await_inside(0, 1),
		"sleeper: the next one takes the old version");
	sleep_ms(300);
	want_is(use_state(), DYNAMOS_LEAVING, "sleeper: holds the update");
	want_is(use_unload(), -EAGAIN, "sleeper: holds the update's module");
	want_is(apply_to(&all, 0), -EBUSY,
		"sleeper: no update is applied meanwhile");
	kill_sleeper(pid);
	want_ok(use_until(DYNAMOS_LOADED),
		"sleeper: woken, the update has left");
	want_ok(use_unload(), "sleeper: the module unloads");
	sleep_ms(300);
	tap_ok(use_users() == before + 1,
	       "engine: sleeper: one in the old version holds the engine");
	want_ok(use_load("pause"), "sleeper: loads beside it");
	want_ok(apply_to(&all, 0), "sleeper: is applied beside it");
	pid = start_sleeper();
	want_ok(await_inside(1, 1), "sleeper: a third one is inside");
	kill_sleeper(second);
	kill_sleeper(pid);
	end_update("sleeper");
	for (i = 0; i < 600 && use_users() != before; i++)
		sleep_ms(100);
	tap_ok(use_users() == before,
	       "engine: sleeper: the last call releases the engine");
}

/* Who came has left, or ended inside. */
static void expect_lost(u32 version, u64 least, const char *name)
{
	struct dynamos_count c;

	if (!tap_ok(!await_inside(version, 0) && !use_count(0, version, &c) &&
			    c.lost >= least,
		    "engine: %s: calls that do not return are lost", name))
		printf("# %llu in, %llu out, %llu lost\n", c.in, c.out, c.lost);
	end_update(name);
}

/* Tasks that end in the middle of a call. */
static void test_ends(void)
{
	struct dynamos_policy only;
	struct canary canary;
	int i, pid;

	select_hand();
	want_ok(use_alone(), "end: only this program has the engine");
	want_ok(use_load("exit") ?: apply_to(&nobody, 0),
		"end: exit_group is changed");
	for (i = 0; i < 10; i++) {
		pid = fork();
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	expect_lost(0, 10, "exit");
	want_ok(use_load("signal") ?: apply_to(&nobody, 0),
		"end: get_signal is changed");
	for (i = 0; i < 10; i++)
		kill_sleeper(start_sleeper());
	expect_lost(0, 10, "signal");
	use_canary(&canary);
	use_only(&only, canary.pid);
	want_ok(use_load("die") ?: apply_to(&only, 0),
		"end: an update that ends tasks");
	want_is(use_call(&canary), -1000,
		"end: the task that called has ended");
	want_is(use_end(&canary), 7 << 8, "end: the task's exit status");
	expect_lost(1, 1, "die");
	want_ok(use_alone(), "end: no other program has the engine");
}

/* By livepatch: all tasks, and one that does not come along. */
static void test_together(void)
{
	struct dynamos_apply a = {.policy = all, .enter_ms = 1500};
	struct dynamos_event event;
	long mine = get_answer();
	int pid, i;

	select_hand();
	want_ok(use_load("together"), "together: loads");
	want_is(apply_to(&nobody, 0), -EINVAL,
		"together: refuses any policy but all");
	for (i = 0; i < 2; i++) {
		want_ok(apply_to(&all, 0), "together: is applied");
		want_ok(use_until(DYNAMOS_TRIAL),
			"together: all tasks switched");
		tap_ok(get_answer() == 4242 && getsid(0) == 4242,
		       "engine: together: all take it");
		tap_ok(count_calls(1) >= 1,
		       "engine: together: calls are counted");
		want_ok(use_revert(), "together: revert");
		want_ok(use_until(DYNAMOS_LOADED),
			"together: all switched back");
		tap_ok(get_answer() == mine,
		       "engine: together: all take the old");
	}
	want_ok(use_unload(), "together: unloads");

	want_ok(use_load("blocked"), "blocked: loads");
	pid = start_sleeper();
	sleep_ms(300);
	want_ok(use_apply(&a), "blocked: is applied");
	want_ok(use_event(DYNAMOS_UNDONE, &event), "blocked: reverted in time");
	printf("# %s\n", event.text);
	tap_ok(!!strstr(event.text, "pause"),
	       "engine: blocked: the sleeping task and its function are named");
	want_ok(use_until(DYNAMOS_LOADED), "blocked: has left");
	kill_sleeper(pid);
	want_ok(use_unload(), "blocked: unloads");
}

/* Functions whose calls livepatch leads straight to the version. */
static void test_straight(void)
{
	struct dynamos_apply limits = {.policy = all, .health.stuck = 1};
	struct dynamos_count c[2];
	long mine = get_answer();
	int pid;

	select_hand();
	want_ok(use_load("straight"), "straight: loads");
	want_ok(apply_to(&all, 0) ?: use_until(DYNAMOS_TRIAL),
		"straight: all tasks switched");
	tap_ok(get_answer() == 4242 && getsid(0) == 4242,
	       "engine: straight: all take it");
	tap_ok(!use_count(0, 1, &c[0]) && !use_count(1, 1, &c[1]) &&
		       c[0].installer == DYNAMOS_LIVEPATCH_ONLY && !c[0].in &&
		       c[1].installer == DYNAMOS_LIVEPATCH && c[1].in,
	       "engine: straight: only calls that pass a wrapper are counted");
	want_ok(use_revert() ?: use_until(DYNAMOS_LOADED),
		"straight: all switched back");
	tap_ok(get_answer() == mine, "engine: straight: all take the old");
	want_ok(use_unload(), "straight: unloads");

	want_ok(use_load("tail"), "tail: loads");
	want_is(use_apply(&limits), -EINVAL,
		"tail: a limit that nothing can reach is refused");
	want_ok(apply_to(&all, 0) ?: use_until(DYNAMOS_TRIAL),
		"tail: all tasks switched");
	pid = start_sleeper();
	tap_ok(use_stays(DYNAMOS_TRIAL), "engine: tail: a task sleeps inside");
	want_ok(use_revert(), "tail: revert");
	tap_ok(use_stays(DYNAMOS_LEAVING),
	       "engine: tail: a task that stands behind a jump is waited for");
	kill_sleeper(pid);
	want_ok(use_until(DYNAMOS_LOADED), "tail: woken, the update has left");
	want_ok(use_unload(), "tail: unloads");
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = write(fd, text, strlen(text)) < 0 ? -errno : 0;

	close(fd);
	return err;
}

/* A loop that nobody ends is ended after all, or the machine hangs where a
 * command waits for it. */
static int start_rescuer(void)
{
	int pid = fork();

	if (!pid) {
		sleep(120);
		use_stop();
		_exit(0);
	}
	return pid;
}

/* While a call of the looping update does not come back, another update leaves,
 * and a third one comes and goes. */
static void update_during_loop(const char *kind, long mine)
{
	select_hand();
	want_ok(use_revert(), "loop: the other one is reverted");
	if (!strcmp(kind, "round")) {
		want_ok(use_until(DYNAMOS_LOADED),
			"loop: the other one has left");
		sleep_ms(500);
		want_ok(apply_to(&nobody, 0),
			"loop: applied before its hook left");
		want_ok(use_revert(), "loop: the other one is reverted again");
	} else {
		sleep_ms(500);
		want_is(use_state(), DYNAMOS_LEAVING,
			"loop: the other is leaving");
	}
	select_next();
	want_ok(use_load("two"), "loop: a third one loads");
	want_ok(apply_to(&nobody, 0), "loop: the third one gets a new hook");
	want_ok(use_policy(&all), "loop: the third one gets another policy");
	tap_ok(get_answer() == 4343 && getsid(0) == 4343,
	       "engine: loop: all take the third one");
	want_ok(use_commit(), "loop: the third one is committed");
	want_ok(use_revert(), "loop: the third one is reverted");
	tap_ok(get_answer() == mine, "engine: loop: all take the old version");
}

/* A call that does not come back. All commands work meanwhile. In `round`,
 * which gives its processor away, updates leave as well; their hooks do not,
 * for ftrace waits for every task. */
static void loop_of(const char *kind)
{
	struct dynamos_policy only;
	struct canary canary;
	long mine = get_answer();
	int rescuer;

	/* Ftrace would wait for the loop with its own locks held. */
	want_ok(use_alone(), "loop: no older hook is being removed");
	select_try();
	use_canary(&canary);
	use_only(&only, canary.pid);
	want_ok(use_load(kind), "loop: loads");
	want_ok(apply_to(&only, 0), "loop: is applied to one process");
	select_hand();
	want_ok(use_load("pause"), "loop: another one loads");
	want_ok(apply_to(&nobody, 0), "loop: the other one is applied");
	rescuer = start_rescuer();
	use_ask(&canary);
	select_try();
	want_ok(await_inside(1, 1), "loop: the process is in the new version");
	update_during_loop(kind, mine);
	select_try();
	want_ok(use_revert(), "loop: the looping one is reverted");
	want_is(use_state(), DYNAMOS_LEAVING,
		"loop: the looping one is leaving");
	want_is(use_unload(), -EAGAIN,
		"loop: the looping one cannot be unloaded");
	tap_ok(!use_answered(&canary, 0),
	       "engine: loop: the call looped all the time");
	kill(rescuer, SIGKILL);
	waitpid(rescuer, NULL, 0);
	use_stop();
	want_is(use_answer(&canary), 4242, "loop: the looping call ends");
	use_end(&canary);
	want_ok(use_until(DYNAMOS_LOADED) ?: use_unload(), "loop: it unloads");
	select_hand();
	want_ok(use_until(DYNAMOS_LOADED) ?: use_unload(),
		"loop: the other one unloads");
	select_next();
	want_ok(use_until(DYNAMOS_LOADED) ?: use_unload(),
		"loop: the third one unloads");
}

static void test_loop(void)
{
	loop_of("loop");
	loop_of("round");
}

/* The other installer, and the switch of all tracing. */
static void test_hooks(void)
{
	static const char sysctl[] = "/proc/sys/kernel/ftrace_enabled";
	struct dynamos_count c;
	int i;

	select_hand();
	want_ok(use_load("one"), "hook: loads");
	for (i = 0; i < 2; i++) {
		write_file("/sys/module/dynamos/parameters/share",
			   i ? "1" : "0");
		want_ok(apply_to(&all, 0), "hook: is applied");
		tap_ok(get_answer() == 4242, "engine: hook: it is taken");
		tap_ok(!use_count(0, 1, &c) &&
			       c.installer ==
				       (i ? DYNAMOS_IPMODIFY : DYNAMOS_DIRECT),
		       "engine: hook: by %s", i ? "address" : "direct call");
		want_is(write_file(sysctl, "0"), -EBUSY,
			"hook: tracing stays on");
		tap_ok(get_answer() == 4242, "engine: hook: the update stays");
		want_ok(use_revert(), "hook: revert");
		want_ok(use_until(DYNAMOS_LOADED), "hook: has left");
		sleep_ms(500);
	}
	write_file("/sys/module/dynamos/parameters/share", "0");
	for (i = 0; i < 600 && write_file(sysctl, "0"); i++)
		sleep_ms(100);
	want_is(apply_to(&all, 0), -EOPNOTSUPP, "hook: refused without ftrace");
	tap_ok(!!strstr(use_why, "ftrace_enabled"),
	       "engine: hook: the refusal names the sysctl");
	write_file(sysctl, "1");
	want_ok(apply_to(&all, 0),
		"hook: an update is applied when ftrace is on");
	end_update("hook");
}

/* Calls that nobody would make. */
static void test_hostile(void)
{
	static const unsigned long numbers[] = {
		DYNAMOS_IOC_APPLY,  DYNAMOS_IOC_POLICY, DYNAMOS_IOC_COMMIT,
		DYNAMOS_IOC_REVERT, DYNAMOS_IOC_INFO,	DYNAMOS_IOC_COUNT};
	/* What the calls write back may be larger than what APPLY reads. */
	static union {
		struct dynamos_apply apply;
		struct dynamos_change change;
		struct dynamos_name name;
		struct dynamos_info info;
		struct dynamos_count count;
		unsigned char byte[1];
	} room;
	unsigned char *data = room.byte;
	int fd = open("/dev/dynamos", O_RDWR | O_CLOEXEC);
	u32 revision = DYNAMOS_REVISION, i, j, accepted = 0;

	srandom(20261122);
	select_hand();
	want_ok(use_load("one"), "hostile: loads");
	for (i = 0; i < 2000; i++) {
		for (j = 0; j < sizeof(room); j++)
			data[j] = random();
		memcpy(data, &revision, i % 8 ? sizeof(revision) : 0);
		if (i % 3)
			strcpy((char *)data + 16, HAND);
		if (i % 3 == 2)
			strcpy((char *)data + 8, HAND);
		accepted += !ioctl(fd, numbers[i % 6], data) &&
			    numbers[i % 6] != DYNAMOS_IOC_INFO &&
			    numbers[i % 6] != DYNAMOS_IOC_COUNT;
	}
	want_is(accepted, 0, "hostile: no invalid request is accepted");
	want_is(ioctl(fd, DYNAMOS_IOC_APPLY, 1) ? -errno : 0, -EFAULT,
		"hostile: an unmapped address is refused");
	want_is(ioctl(fd, _IO('D', 0x70), 0) ? -errno : 0, -ENOTTY,
		"hostile: an unknown ioctl is refused");
	want_is(use_state(), DYNAMOS_LOADED,
		"hostile: the update is untouched");
	want_ok(use_unload(), "hostile: unloads");
	close(fd);
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{"refusals", test_refusals}, {"unauthorized", test_unauthorized},
	{"life", test_life},	     {"balance", test_balance},
	{"sleepers", test_sleepers}, {"supersede", test_supersede},
	{"together", test_together}, {"straight", test_straight},
	{"ends", test_ends},	     {"loop", test_loop},
	{"hooks", test_hooks},	     {"hostile", test_hostile},
};

int main(int argc, char **argv)
{
	size_t p;
	int i;

	if (argc < 5)
		return 2;
	hand_file = argv[1];
	next_file = argv[2];
	try_file = argv[3];
	use_begin(hand_file);
	for (i = 4; i < argc; i++) {
		if (atoi(argv[i]) > 0)
			run_cycles(atoi(argv[i]));
		for (p = 0; p < sizeof(parts) / sizeof(*parts); p++)
			if (!strcmp(argv[i], parts[p].name))
				parts[p].run();
	}
	return tap_done();
}
