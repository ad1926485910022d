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
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dynamos_use.h"
#include "tests/tap.h"

#define HAND "dynamos_hand"
#define NEXT "dynamos_next"
#define CPUS 4

static const char *hand_file, *next_file, *try_file;
static const struct dynamos_policy nobody, all = {.otherwise = 1};

static void hand(void)
{
	use_turn(HAND, hand_file);
}

static void next(void)
{
	use_turn(NEXT, next_file);
}

static void try(void)
{
	use_turn(TRY, try_file);
}

static long answer(void)
{
	return syscall(SYS_getpgid, 0);
}

static int apply(const struct dynamos_policy *policy, u32 flags)
{
	struct dynamos_apply a = {.policy = *policy, .flags = flags};

	return use_apply(&a);
}

static int ok(int err, const char *name)
{
	if (tap_ok(!err, "engine: %s", name))
		return 1;
	printf("# %d (%s) %s\n", err, strerror(-err), use_why);
	return 0;
}

static void is(int got, int want, const char *name)
{
	if (!tap_ok(got == want, "engine: %s", name))
		printf("# %d instead of %d: %s\n", got, want, use_why);
}

static void gone(const char *name)
{
	char text[128];

	snprintf(text, sizeof(text), "%s: revert", name);
	ok(use_revert(), text);
	snprintf(text, sizeof(text), "%s: no call is left", name);
	ok(use_until(DYNAMOS_LOADED), text);
	snprintf(text, sizeof(text), "%s: unloads", name);
	ok(use_unload(), text);
}

/* What dynamos_update_add() refuses. */
static void refusals(void)
{
	static const struct {
		const char *kind;
		int err;
	} bad[] = {
		{"absent", -ENOENT},	  {"size", -ENOEXEC},
		{"notrace", -EOPNOTSUPP}, {"double", -EINVAL},
		{"outside", -EINVAL},	  {"none", -EINVAL},
		{"dead", -EINVAL},
	};
	size_t i;

	hand();
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		is(use_load(bad[i].kind), bad[i].err, bad[i].kind);
		if (!use_state())
			continue;
		use_unload();
	}
}

/* Another kernel's build-id, and no right to the device. */
static void strangers(void)
{
	int fd = open(hand_file, O_RDONLY | O_CLOEXEC), status = -1, pid;
	int err =
		syscall(SYS_finit_module, fd,
			"build_id=00112233445566778899aabbccddeeff00112233", 0)
			? -errno
			: 0;

	is(err, -EINVAL, "an update for another kernel is refused");
	close(fd);
	pid = fork();
	if (!pid) {
		if (setuid(1000))
			_exit(2);
		_exit(open("/dev/dynamos", O_RDWR) >= 0 || errno != EACCES);
	}
	waitpid(pid, &status, 0);
	is(status, 0, "an ordinary user cannot open the device");
	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWCGROUP) ||
		    use_info(&(struct dynamos_info){}) != -EPERM)
			_exit(1);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	is(status, 0, "other namespaces are refused");
}

static u64 calls(u32 version)
{
	struct dynamos_count c;

	return use_count(0, version, &c) ? ~0ull : c.in;
}

/* The life of an update of one function. */
static void life(void)
{
	long mine = answer();
	struct dynamos_policy only;
	struct canary canary;

	hand();
	use_canary(&canary);
	ok(use_load("one"), "an update loads");
	is(use_state(), DYNAMOS_LOADED, "a loaded update's state");
	tap_ok(answer() == mine, "engine: loading changes nothing");
	is(use_revert(), -EALREADY, "a loaded update is not reverted");
	is(use_policy(&all), -EINVAL, "a loaded update takes no policy");
	ok(apply(&nobody, 0), "an update is applied to no process");
	tap_ok(answer() == mine, "engine: no process takes the new version");
	tap_ok(calls(0) >= 1 && !calls(1), "engine: old calls are counted");
	is(apply(&all, 0), -EALREADY, "no update is applied twice");
	is(use_unload(), -EAGAIN, "an update in force cannot be unloaded");
	use_only(&only, canary.pid);
	ok(use_policy(&only), "a policy selects one process");
	tap_ok(use_call(&canary) == 4242 && answer() == mine,
	       "engine: only the selected process takes the new version");
	ok(use_policy(&all), "a policy selects all");
	tap_ok(answer() == 4242, "engine: all take the new version");
	ok(use_commit(), "an update is committed");
	is(use_commit(), -EALREADY, "no update is committed twice");
	is(use_state(), DYNAMOS_COMMITTED, "a committed update's state");
	ok(use_revert(), "a committed update is reverted");
	tap_ok(answer() == mine, "engine: a revert takes effect at once");
	ok(use_until(DYNAMOS_LOADED), "a reverted update has left");
	tap_ok(use_inside(1) == 0 && calls(1) == 2,
	       "engine: counts of an update that has left can be read");
	ok(apply(&all, 0), "an update that has left is applied again");
	tap_ok(answer() == 4242 && calls(1) == 1,
	       "engine: an update that is applied again counts from 0");
	gone("again");
	tap_ok(answer() == mine, "engine: unloading leaves no trace");
	use_end(&canary);
}

/* Four threads that call and look at each answer. Taking text out of use waits
 * until each task was seen in user mode, or gave its processor away: now and
 * then they do, because an emulator's clock may never tick in user mode. */
static struct {
	pthread_t thread;
	u64 calls, newer, wrong;
} hammers[CPUS];
static int striking;
static u64 strikes; /* of each; 0: until told to stop */
static long expected;

static void *strike(void *arg)
{
	u32 i = (u64)arg;
	cpu_set_t set;
	long got;

	CPU_ZERO(&set);
	CPU_SET(i, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (__atomic_load_n(&striking, __ATOMIC_RELAXED)) {
		got = answer();
		hammers[i].newer += got == 4242;
		hammers[i].wrong += got != 4242 && got != expected;
		if (++hammers[i].calls == strikes)
			break;
		if (hammers[i].calls % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static void hammer(u64 each)
{
	u64 i;

	expected = answer();
	memset(hammers, 0, sizeof(hammers));
	strikes = each;
	striking = 1;
	for (i = 0; i < CPUS; i++)
		pthread_create(&hammers[i].thread, NULL, strike, (void *)i);
}

static void join(u64 *all_calls, u64 *newer, u64 *wrong)
{
	u32 i;

	*all_calls = *newer = *wrong = 0;
	for (i = 0; i < CPUS; i++) {
		pthread_join(hammers[i].thread, NULL);
		*all_calls += hammers[i].calls;
		*newer += hammers[i].newer;
		*wrong += hammers[i].wrong;
	}
}

static void stop(u64 *all_calls, u64 *newer, u64 *wrong)
{
	__atomic_store_n(&striking, 0, __ATOMIC_RELAXED);
	join(all_calls, newer, wrong);
}

static void nap(long ms)
{
	struct timespec t = {.tv_nsec = ms * 1000 * 1000};

	nanosleep(&t, NULL);
}

static const struct dynamos_policy *policy(u32 n)
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

static void online(int cpu, int on)
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
static void balance(void)
{
	u64 made, newer, wrong;
	u32 i;

	hand();
	ok(use_load("one"), "balance: loads");
	ok(apply(&nobody, 0), "balance: is applied");
	hammer(20000);
	for (i = 0; i < 25; i++) {
		if (use_policy(policy(i)))
			break;
		if (i == 5 || i == 15)
			online(3, i == 15);
		nap(10);
	}
	tap_ok(i == 25, "engine: balance: 25 policies while called");
	join(&made, &newer, &wrong);
	tap_ok(!wrong, "engine: balance: every answer is that of a version");
	tap_ok(newer && newer < made, "engine: balance: both are called");
	if (!tap_ok(made == CPUS * 20000 && calls(0) + calls(1) >= made &&
			    calls(1) == newer,
		    "engine: balance: every call is counted"))
		printf("# %llu made, %llu newer; %llu and %llu counted\n", made,
		       newer, calls(0), calls(1));
	/* main's own calls: the answers that hammer() and life() compare to */
	tap_ok(calls(0) + calls(1) == made + 1,
	       "engine: balance: no call is counted twice");
	tap_ok(!use_inside(0) && !use_inside(1),
	       "engine: balance: every call has returned");
	gone("balance");
}

static int sleeper(void)
{
	int pid = fork();

	if (!pid) {
		signal(SIGUSR1, SIG_DFL);
		pause();
		_exit(1);
	}
	return pid;
}

static void wake(int pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Until so many are inside a version. */
static int inside(u32 version, u64 want)
{
	int i;

	for (i = 0; i < 600 && use_inside(version) != want; i++)
		nap(100);
	return i < 600 ? 0 : -ETIMEDOUT;
}

/* Until somebody is inside the new version of the second function. */
static int asleep(void)
{
	struct dynamos_count c = {0};
	int i;

	for (i = 0; i < 6000 && !use_count(1, 1, &c) && c.in == c.out; i++)
		nap(10);
	return c.in > c.out ? 0 : -ETIMEDOUT;
}

/* Loads, changes its mind a hundred times a second, and leaves; in each fifth
 * cycle not before a sleeper inside was woken. 0: all as it shall be. */
static int cycle(u32 i, u64 *counted)
{
	struct dynamos_count c = {0};
	int err, sleeps = 0;
	u32 j;

	if (i % 12 == 3 || i % 12 == 9)
		online(3, i % 12 == 9);
	err = use_load("both") ?: apply(policy(i), 0);
	for (j = 0; !err && j < 5; j++) {
		err = use_policy(policy(i + j));
		nap(10);
	}
	if (!err && i % 2)
		err = use_commit();
	if (!err && i % 5 == 0) {
		err = use_policy(&all);
		sleeps = sleeper();
		err = err ?: asleep();
	}
	if (!err && use_unload() != -EAGAIN)
		err = -ESTALE;
	err = err ?: use_revert();
	if (!err && sleeps && (nap(20), use_unload() != -EAGAIN))
		err = -ESTALE;
	if (sleeps)
		wake(sleeps);
	err = err ?: use_until(DYNAMOS_LOADED);
	err = err ?: use_count(0, 1, &c);
	*counted += c.in;
	if (!err && c.in != c.out)
		err = -ERANGE;
	return err ?: use_unload();
}

/* Comes and goes under load, while a processor goes and comes. Another update
 * keeps the functions hooked: QEMU 7.2 may go on with a stale translation of
 * text that one processor changes while the others run it, and then they stay
 * at a breakpoint that is gone. */
static void cycles(u32 n)
{
	u64 made, newer, wrong, counted = 0;
	int err = 0;
	u32 i;

	next();
	ok(use_load("both"), "cycles: the one below loads");
	ok(apply(&nobody, 0), "cycles: the one below is applied to no process");
	hand();
	hammer(0);
	for (i = 0; i < n && !err; i++)
		err = cycle(i, &counted);
	if (!tap_ok(!err, "engine: cycles under load"))
		printf("# %d (%s) in cycle %u: %s\n", err, strerror(-err),
		       i - 1, use_why);
	stop(&made, &newer, &wrong);
	online(3, 1);
	tap_ok(made && !wrong, "engine: cycles: each answer is a version's");
	if (!tap_ok(newer && newer == counted,
		    "engine: cycles: no call of the new version is lost"))
		printf("# %llu answers, %llu counted\n", newer, counted);
	printf("# %llu calls, %llu of them new\n", made, newer);
	next();
	gone("cycles");
}

/* Somebody sleeps in the new version, then in the old one. */
static void sleepers(void)
{
	long before;
	int pid, second, i;

	ok(use_alone(), "sleeper: only this program has the engine");
	before = use_users();
	hand();
	ok(use_load("pause"), "sleeper: loads");
	ok(apply(&all, 0), "sleeper: is applied");
	pid = sleeper();
	ok(inside(1, 1), "sleeper: the sleeping call is counted as inside");
	ok(use_revert(), "sleeper: revert");
	second = sleeper();
	ok(inside(0, 1), "sleeper: the next one takes the old version");
	nap(300);
	is(use_state(), DYNAMOS_LEAVING, "sleeper: holds the update");
	is(use_unload(), -EAGAIN, "sleeper: holds the update's module");
	is(apply(&all, 0), -EBUSY, "sleeper: no update is applied meanwhile");
	wake(pid);
	ok(use_until(DYNAMOS_LOADED), "sleeper: woken, the update has left");
	ok(use_unload(), "sleeper: the module unloads");
	nap(300);
	tap_ok(use_users() == before + 1,
	       "engine: sleeper: one in the old version holds the engine");
	ok(use_load("pause"), "sleeper: loads beside it");
	ok(apply(&all, 0), "sleeper: is applied beside it");
	pid = sleeper();
	ok(inside(1, 1), "sleeper: a third one is inside");
	wake(second);
	wake(pid);
	gone("sleeper");
	for (i = 0; i < 600 && use_users() != before; i++)
		nap(100);
	tap_ok(use_users() == before,
	       "engine: sleeper: the last call releases the engine");
}

/* Who came has left, or ended inside. */
static void ended(u32 version, u64 least, const char *name)
{
	struct dynamos_count c;

	if (!tap_ok(!inside(version, 0) && !use_count(0, version, &c) &&
			    c.lost >= least,
		    "engine: %s: calls that do not return are lost", name))
		printf("# %llu in, %llu out, %llu lost\n", c.in, c.out, c.lost);
	gone(name);
}

/* Tasks that end in the middle of a call. */
static void ends(void)
{
	struct dynamos_policy only;
	struct canary canary;
	int i, pid;

	hand();
	ok(use_alone(), "end: only this program has the engine");
	ok(use_load("exit") ?: apply(&nobody, 0), "end: exit_group is changed");
	for (i = 0; i < 10; i++) {
		pid = fork();
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	ended(0, 10, "exit");
	ok(use_load("signal") ?: apply(&nobody, 0),
	   "end: get_signal is changed");
	for (i = 0; i < 10; i++)
		wake(sleeper());
	ended(0, 10, "signal");
	use_canary(&canary);
	use_only(&only, canary.pid);
	ok(use_load("die") ?: apply(&only, 0),
	   "end: an update that ends tasks");
	is(use_call(&canary), -1000, "end: the task that called has ended");
	is(use_end(&canary), 7 << 8, "end: the task's exit status");
	ended(1, 1, "die");
	ok(use_alone(), "end: no other program has the engine");
}

/* A newer update of the same functions. */
static void supersede(void)
{
	struct dynamos_info info;
	struct canary canary;
	struct dynamos_policy only;
	long mine = answer();

	use_canary(&canary);
	hand();
	ok(use_load("one"), "supersede: the older one loads");
	ok(apply(&all, 0), "supersede: the older one is applied");
	next();
	ok(use_load("two"), "supersede: the newer one loads");
	use_only(&only, canary.pid);
	ok(apply(&only, 0), "supersede: the newer one is on top, for one");
	tap_ok(use_call(&canary) == 4343 && answer() == 4242,
	       "engine: supersede: other processes take the older one");
	ok(use_revert(), "supersede: the newer one is reverted");
	ok(use_until(DYNAMOS_LOADED), "supersede: the newer one has left");
	tap_ok(use_call(&canary) == 4242,
	       "engine: supersede: the older one is in force again");
	ok(apply(&all, DYNAMOS_SUPERSEDE), "supersede: replaces the older one");
	tap_ok(answer() == 4343, "engine: supersede: all take the newer one");
	hand();
	ok(use_until(DYNAMOS_LOADED), "supersede: the older one has left");
	tap_ok(!use_info(&info) && strstr(info.end, NEXT),
	       "engine: supersede: the older one names what superseded it");
	is(apply(&all, DYNAMOS_SUPERSEDE), -EINVAL,
	   "supersede: an update that changes more functions is not replaced");
	tap_ok(!!strstr(use_why, NEXT), "engine: supersede: function is named");
	ok(use_unload(), "supersede: the older one unloads");
	next();
	gone("supersede");
	tap_ok(answer() == mine, "engine: supersede: no trace is left");
	use_end(&canary);
}

/* By livepatch: all tasks, and one that does not come along. */
static void together(void)
{
	struct dynamos_apply a = {.policy = all, .enter_ms = 1500};
	struct dynamos_event event;
	long mine = answer();
	int pid, i;

	hand();
	ok(use_load("together"), "together: loads");
	is(apply(&nobody, 0), -EINVAL, "together: refuses any policy but all");
	for (i = 0; i < 2; i++) {
		ok(apply(&all, 0), "together: is applied");
		ok(use_until(DYNAMOS_TRIAL), "together: all tasks switched");
		tap_ok(answer() == 4242 && getsid(0) == 4242,
		       "engine: together: all take it");
		tap_ok(calls(1) >= 1, "engine: together: calls are counted");
		ok(use_revert(), "together: revert");
		ok(use_until(DYNAMOS_LOADED), "together: all switched back");
		tap_ok(answer() == mine, "engine: together: all take the old");
	}
	ok(use_unload(), "together: unloads");

	ok(use_load("blocked"), "blocked: loads");
	pid = sleeper();
	nap(300);
	ok(use_apply(&a), "blocked: is applied");
	ok(use_event(DYNAMOS_UNDONE, &event), "blocked: reverted in time");
	printf("# %s\n", event.text);
	tap_ok(!!strstr(event.text, "pause"),
	       "engine: blocked: the sleeping task and its function are named");
	ok(use_until(DYNAMOS_LOADED), "blocked: has left");
	wake(pid);
	ok(use_unload(), "blocked: unloads");
}

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = write(fd, text, strlen(text)) < 0 ? -errno : 0;

	close(fd);
	return err;
}

/* A loop that nobody ends is ended after all, or the machine hangs where a
 * command waits for it. */
static int rescue(void)
{
	int pid = fork();

	if (!pid) {
		sleep(120);
		use_stop();
		_exit(0);
	}
	return pid;
}

/* A call that does not come back. All commands work meanwhile. In `round`,
 * which gives its processor away, updates leave as well; their hooks do not,
 * for ftrace waits for every task. */
static void loop_of(const char *kind)
{
	struct dynamos_policy only;
	struct canary canary;
	long mine = answer();
	int rescuer;

	/* Ftrace would wait for the loop with its own locks held. */
	ok(use_alone(), "loop: no older hook is being removed");
	try();
	use_canary(&canary);
	use_only(&only, canary.pid);
	ok(use_load(kind), "loop: loads");
	ok(apply(&only, 0), "loop: is applied to one process");
	hand();
	ok(use_load("pause"), "loop: another one loads");
	ok(apply(&nobody, 0), "loop: the other one is applied");
	rescuer = rescue();
	use_ask(&canary);
	try();
	ok(inside(1, 1), "loop: the process is in the new version");
	hand();
	ok(use_revert(), "loop: the other one is reverted");
	if (!strcmp(kind, "round")) {
		ok(use_until(DYNAMOS_LOADED), "loop: the other one has left");
		nap(500);
		ok(apply(&nobody, 0), "loop: applied before its hook left");
		ok(use_revert(), "loop: the other one is reverted again");
	} else {
		nap(500);
		is(use_state(), DYNAMOS_LEAVING, "loop: the other is leaving");
	}
	next();
	ok(use_load("two"), "loop: a third one loads");
	ok(apply(&nobody, 0), "loop: the third one gets a new hook");
	ok(use_policy(&all), "loop: the third one gets another policy");
	tap_ok(answer() == 4343 && getsid(0) == 4343,
	       "engine: loop: all take the third one");
	ok(use_commit(), "loop: the third one is committed");
	ok(use_revert(), "loop: the third one is reverted");
	tap_ok(answer() == mine, "engine: loop: all take the old version");
	try();
	ok(use_revert(), "loop: the looping one is reverted");
	is(use_state(), DYNAMOS_LEAVING, "loop: the looping one is leaving");
	is(use_unload(), -EAGAIN, "loop: the looping one cannot be unloaded");
	tap_ok(!use_answered(&canary, 0),
	       "engine: loop: the call looped all the time");
	kill(rescuer, SIGKILL);
	waitpid(rescuer, NULL, 0);
	use_stop();
	is(use_answer(&canary), 4242, "loop: the looping call ends");
	use_end(&canary);
	ok(use_until(DYNAMOS_LOADED) ?: use_unload(), "loop: it unloads");
	hand();
	ok(use_until(DYNAMOS_LOADED) ?: use_unload(),
	   "loop: the other one unloads");
	next();
	ok(use_until(DYNAMOS_LOADED) ?: use_unload(),
	   "loop: the third one unloads");
}

static void loop(void)
{
	loop_of("loop");
	loop_of("round");
}

/* The other installer, and the switch of all tracing. */
static void hooks(void)
{
	static const char sysctl[] = "/proc/sys/kernel/ftrace_enabled";
	struct dynamos_count c;
	int i;

	hand();
	ok(use_load("one"), "hook: loads");
	for (i = 0; i < 2; i++) {
		put("/sys/module/dynamos/parameters/share", i ? "1" : "0");
		ok(apply(&all, 0), "hook: is applied");
		tap_ok(answer() == 4242, "engine: hook: it is taken");
		tap_ok(!use_count(0, 1, &c) &&
			       c.installer ==
				       (i ? DYNAMOS_IPMODIFY : DYNAMOS_DIRECT),
		       "engine: hook: by %s", i ? "address" : "direct call");
		is(put(sysctl, "0"), -EBUSY, "hook: tracing stays on");
		tap_ok(answer() == 4242, "engine: hook: the update stays");
		ok(use_revert(), "hook: revert");
		ok(use_until(DYNAMOS_LOADED), "hook: has left");
		nap(500);
	}
	put("/sys/module/dynamos/parameters/share", "0");
	for (i = 0; i < 600 && put(sysctl, "0"); i++)
		nap(100);
	is(apply(&all, 0), -EOPNOTSUPP, "hook: refused without ftrace");
	tap_ok(!!strstr(use_why, "ftrace_enabled"),
	       "engine: hook: the refusal names the sysctl");
	put(sysctl, "1");
	ok(apply(&all, 0), "hook: an update is applied when ftrace is on");
	gone("hook");
}

/* Calls that nobody would make. */
static void hostile(void)
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
	hand();
	ok(use_load("one"), "hostile: loads");
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
	is(accepted, 0, "hostile: no invalid request is accepted");
	is(ioctl(fd, DYNAMOS_IOC_APPLY, 1) ? -errno : 0, -EFAULT,
	   "hostile: an unmapped address is refused");
	is(ioctl(fd, _IO('D', 0x70), 0) ? -errno : 0, -ENOTTY,
	   "hostile: an unknown ioctl is refused");
	is(use_state(), DYNAMOS_LOADED, "hostile: the update is untouched");
	ok(use_unload(), "hostile: unloads");
	close(fd);
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{"refusals", refusals}, {"strangers", strangers},
	{"life", life},		{"balance", balance},
	{"sleepers", sleepers}, {"supersede", supersede},
	{"together", together}, {"ends", ends},
	{"loop", loop},		{"hooks", hooks},
	{"hostile", hostile},
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
			cycles(atoi(argv[i]));
		for (p = 0; p < sizeof(parts) / sizeof(*parts); p++)
			if (!strcmp(argv[i], parts[p].name))
				parts[p].run();
	}
	return tap_done();
}
