// SPDX-License-Identifier: MIT
/*
 * Others on the function that an update changes, before the update and after
 * it: each goes on working, or is refused with the other's name.
 *
 *   dynamos_coexist UPDATES RIVAL [HAND]    modules; without the third,
 *                                         class together is left out
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dynamos_rival.h"
#include "dynamos_use.h"
#include "tests/tap.h"

#define SYMBOL "__x64_sys_getpgid"

static struct canary canary;
static const char *rival, *hand, *updates;
static long users; /* of the engine, when nothing is applied */

static int apply_update(void)
{
	struct dynamos_apply apply;

	memset(&apply, 0, sizeof(apply));
	use_only(&apply.policy, canary.pid);
	return use_apply(&apply);
}

/* The update leaves, and its hook after it: then others may have the place. */
static void update_ends(const char *other)
{
	int i;

	tap_ok(!use_revert() && !use_until(DYNAMOS_LOADED),
	       "coexist: the update leaves %s", other);
	for (i = 0; i < 6000 && use_users() != users; i++)
		usleep(10000);
	tap_ok(i < 6000, "coexist: the update's hook is removed as well");
	TAP(use_call(&canary) == getpgid(canary.pid));
}

static long graph_hits(void)
{
	return rival_graph_hits(SYMBOL);
}

static int set_kprobe(void)
{
	return rival_kprobe(SYMBOL);
}

static int set_graph(void)
{
	return rival_graph(SYMBOL);
}

static int set_bpf(void)
{
	return rival_bpf(SYMBOL, 0);
}

/* Both see the call. */
static void expect_both(const char *name, long (*hits)(void), const char *order)
{
	long before = hits();

	tap_ok(use_call(&canary) == 4242, "coexist: the update works %s %s",
	       order, name);
	tap_ok(hits() > before, "coexist: %s works %s the update", name,
	       order[0] == 'a' ? "before" : "after");
}

static void test_shares(const char *name, int (*set)(void), void (*clear)(void),
			long (*hits)(void))
{
	tap_ok(!set(), "coexist: %s is set first", name);
	if (!tap_ok(!apply_update(), "coexist: the update is applied after %s",
		    name))
		printf("# %s\n", use_why);
	expect_both(name, hits, "after");
	update_ends(name);
	clear();

	TAP(!apply_update());
	tap_ok(!set(), "coexist: %s is set after the update", name);
	expect_both(name, hits, "before");
	clear();
	TAP(use_call(&canary) == 4242);
	update_ends(name);
}

/* The update has the function's direct call, and BPF wants it. */
static void bpf_is_refused(void)
{
	TAP(!set_bpf());
	if (!TAP(!apply_update()))
		printf("# %s\n", use_why);
	expect_both("BPF", rival_bpf_hits, "after");
	update_ends("BPF");
	rival_bpf_end();

	TAP(!apply_update());
	TAP(set_bpf() == -EBUSY);
	tap_ok(rival_is_named(SYMBOL, "[dynamos]"),
	       "coexist: the kernel's list of hooks names the update");
	TAP(use_call(&canary) == 4242);
	update_ends("BPF");
	TAP(!set_bpf());
	rival_bpf_end();
}

/* Lines of the kernel's log since it was opened. */
static int log_names(int fd, const char *a, const char *b)
{
	char line[2048];
	ssize_t n;
	int found = 0;

	while ((n = read(fd, line, sizeof(line) - 1)) > 0 || errno == EPIPE) {
		line[n > 0 ? n : 0] = 0;
		found |= strstr(line, a) && strstr(line, b);
		errno = 0;
	}
	return found;
}

static void test_livepatch(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	TAP(fd >= 0 && lseek(fd, 0, SEEK_END) >= 0);
	TAP(!rival_livepatch(rival, ""));
	TAP(use_call(&canary) == 777);
	TAP(apply_update() < 0);
	if (!TAP(strstr(use_why, "dynamos_rival") != NULL))
		printf("# %s\n", use_why);
	TAP(use_call(&canary) == 777);
	TAP(use_state() == DYNAMOS_LOADED);
	TAP(!rival_livepatch_end());

	TAP(!apply_update());
	TAP(rival_livepatch(rival, "") == -EBUSY);
	TAP(log_names(fd, TRY, SYMBOL));
	TAP(use_call(&canary) == 4242);
	update_ends("the livepatch");
	close(fd);
}

static void test_together(void)
{
	struct dynamos_apply apply = {.policy = {.otherwise = 1}};

	if (!TAP(!use_apply(&apply)))
		printf("# %s\n", use_why);
	TAP(!use_until(DYNAMOS_TRIAL));
	TAP(use_call(&canary) == 4242 && getsid(0) == 4242);
}

/* Class together is a livepatch: others come on top of it, or in its place. */
static void test_livepatches(void)
{
	struct dynamos_info info;

	use_turn("dynamos_hand", hand);
	TAP(!use_load("together"));
	users = use_users();
	test_together();
	tap_ok(!rival_livepatch(rival, ""),
	       "coexist: a livepatch is applied on top of class together");
	TAP(use_call(&canary) == 777 && getsid(0) == 4242);
	TAP(!use_revert() && !use_until(DYNAMOS_LOADED));
	TAP(use_call(&canary) == 777 && getsid(0) != 4242);
	TAP(!rival_livepatch_end());
	TAP(use_call(&canary) == getpgid(canary.pid));

	test_together();
	tap_ok(!rival_livepatch(rival, "replace=1"),
	       "coexist: a livepatch replaces class together");
	TAP(use_call(&canary) == 777 && getsid(0) != 4242);
	TAP(!use_until(DYNAMOS_LOADED));
	if (!tap_ok(!use_info(&info) && strstr(info.end, "livepatch"),
		    "coexist: the update has left, and names what superseded "
		    "it"))
		printf("# %s\n", info.end);
	TAP(!use_inside(1));
	TAP(!rival_livepatch_end());
	TAP(use_call(&canary) == getpgid(canary.pid));
	test_together();
	update_ends("is applied again");
	TAP(!use_unload());
	use_turn(TRY, updates);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	updates = argv[1];
	rival = argv[2];
	hand = argv[3];
	use_begin(argv[1]);
	rival_begin();
	TAP(!use_alone()); /* hooks of the part before have left */
	TAP(!use_load("fine"));
	users = use_users();
	use_canary(&canary);
	test_shares("a kprobe", set_kprobe, rival_probes_end, rival_probe_hits);
	test_shares("function graph", set_graph, rival_graph_end, graph_hits);
	if (access("/sys/kernel/btf/vmlinux", F_OK))
		tap_skip("coexist: BPF", "this kernel was built without BTF");
	else
		bpf_is_refused();
	test_livepatch();
	if (hand)
		test_livepatches();
	use_end(&canary);
	TAP(!use_unload());
	return tap_done();
}
