// SPDX-License-Identifier: MIT
/*
 * Classes task and object: who has begun with a version goes on with it,
 * whatever the policy says by then, and leaving waits for them.
 *
 *   dynamos_class MODULE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dynamos_use.h"
#include "tests/tap.h"

static struct dynamos_apply apply;
static struct dynamos_policy everybody, nobody;

static void begin_update(const char *kind, const struct dynamos_policy *policy)
{
	int err = use_load(kind);

	if (!tap_ok(!err, "class: %s loads", kind))
		printf("# %s\n", strerror(-err));
	memset(&apply, 0, sizeof(apply));
	apply.policy = *policy;
	err = use_apply(&apply);
	if (!tap_ok(!err, "class: %s is applied", kind))
		printf("# %s: %s\n", strerror(-err), use_why);
}

static void expect_gone(const char *kind)
{
	tap_ok(!use_until(DYNAMOS_LOADED), "class: %s has left", kind);
	tap_ok(!use_unload(), "class: %s unloads", kind);
}

/* A process that waits for its child; the child ends when told to. */
struct waiter {
	int pid, end, result;
};

static void wait_for_child(int end, int result)
{
	struct rusage usage;
	int status, pid = fork();
	long maxrss;
	char byte;

	if (!pid)
		_exit(read(end, &byte, 1) == 1);
	while (wait4(pid, &status, 0, &usage) < 0)
		;
	maxrss = usage.ru_maxrss;
	_exit(write(result, &maxrss, sizeof(maxrss)) != sizeof(maxrss));
}

static int asleep_in_wait(int pid)
{
	char path[64], text[4096];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = 0;
	return strstr(text, "do_wait") != NULL;
}

static void start_waiter(struct waiter *w)
{
	struct timespec t = {.tv_nsec = 10 * 1000 * 1000};
	int end[2], result[2], i;

	if (pipe(end) || pipe(result))
		exit(1);
	w->pid = fork();
	if (!w->pid) {
		close(end[1]);
		wait_for_child(end[0], result[1]);
	}
	close(end[0]);
	close(result[1]);
	w->end = end[1];
	w->result = result[0];
	for (i = 0; i < 6000 && !asleep_in_wait(w->pid); i++)
		nanosleep(&t, NULL);
	TAP(asleep_in_wait(w->pid));
}

/* What the waiter's wait4 told of its child. */
static long finish_waiter(struct waiter *w)
{
	long maxrss = -1;

	if (write(w->end, "!", 1) != 1 ||
	    read(w->result, &maxrss, sizeof(maxrss)) != sizeof(maxrss))
		maxrss = -1;
	close(w->end);
	close(w->result);
	waitpid(w->pid, NULL, 0);
	return maxrss;
}

static long own_maxrss(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static void test_tasks(void)
{
	struct dynamos_count count;
	struct waiter old, new;

	begin_update("task", &nobody);
	TAP(own_maxrss() != 4242);
	start_waiter(&old);
	TAP(!use_policy(&everybody));
	TAP(own_maxrss() == 4242);
	start_waiter(&new);
	TAP(finish_waiter(&old) != 4242);
	TAP(!use_policy(&nobody));
	TAP(own_maxrss() != 4242);
	TAP(!use_revert());
	/* Nobody is inside a new version, but one will call it yet. */
	TAP(use_stays(DYNAMOS_LEAVING));
	TAP(use_unload() == -EWOULDBLOCK);
	TAP(finish_waiter(&new) == 4242);
	TAP(own_maxrss() != 4242);
	TAP(!use_until(DYNAMOS_LOADED));
	TAP(!use_count(1, 1, &count) && count.in == count.out && count.in > 1);
	expect_gone("task");
}

static int open_file(void)
{
	return memfd_create("class", MFD_CLOEXEC);
}

/* EXDEV is the new version's answer. */
static int is_new(int fd)
{
	return posix_fallocate(fd, 0, 4096) == EXDEV;
}

static void test_objects(void)
{
	int a = open_file(), b, c;

	begin_update("object", &everybody);
	TAP(is_new(a));
	TAP(!use_policy(&nobody));
	b = open_file();
	TAP(is_new(a) && !is_new(b));
	TAP(!use_policy(&everybody));
	TAP(is_new(a) && !is_new(b));
	c = open_file();
	TAP(is_new(c));
	TAP(!use_revert());
	TAP(use_state() == DYNAMOS_LEAVING);
	TAP(is_new(a) && !is_new(b) && is_new(c));
	close(c);
	c = open_file();
	TAP(!is_new(c));
	TAP(use_state() == DYNAMOS_LEAVING);
	TAP(use_unload() == -EWOULDBLOCK);
	close(a);
	expect_gone("object");
	close(b);
	close(c);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	use_begin(argv[1]);
	everybody.otherwise = 1;
	test_tasks();
	if (use_symbol("security_file_free"))
		test_objects();
	else
		tap_skip("class: object", "this kernel has no LSM");
	return tap_done();
}
