// SPDX-License-Identifier: MIT
/* One thread; the canaries are its children. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dynamos_use.h"

char use_why[DYNAMOS_WHY];
const char *use_name = TRY;
static const char *path;
static int device, events;
static char build_id[64];

static void exit_failed(const char *what)
{
	perror(what);
	exit(1);
}

/* The note of type 3 and owner GNU, in hex. */
static void read_build_id(void)
{
	unsigned char note[4096];
	unsigned int head[3], i;
	int fd = open("/sys/kernel/notes", O_RDONLY);
	ssize_t n = read(fd, note, sizeof(note)), at = 0;

	close(fd);
	while (n - at > (ssize_t)sizeof(head)) {
		memcpy(head, note + at, sizeof(head));
		at += sizeof(head);
		if (head[2] == 3 && !memcmp(note + at, "GNU", 4))
			break;
		at += ((head[0] + 3) & ~3u) + ((head[1] + 3) & ~3u);
	}
	at += 4;
	for (i = 0; i < 20 && at + i < n; i++)
		sprintf(build_id + 2 * i, "%02x", note[at + i]);
}

void use_turn(const char *name, const char *module)
{
	use_name = name;
	path = module;
}

void use_begin(const char *module)
{
	path = module;
	device = open("/dev/" DYNAMOS_DEVICE_NAME, O_RDWR | O_CLOEXEC);
	events = open("/dev/" DYNAMOS_DEVICE_NAME,
		      O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (device < 0 || events < 0)
		exit_failed("/dev/" DYNAMOS_DEVICE_NAME);
	read_build_id();
}

int use_load(const char *kind)
{
	char text[128];
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		exit_failed(path);
	snprintf(text, sizeof(text), "kind=%s build_id=%s", kind, build_id);
	err = syscall(SYS_finit_module, fd, text, 0) ? -errno : 0;
	close(fd);
	return err;
}

int use_unload(void)
{
	return syscall(SYS_delete_module, use_name, O_NONBLOCK) ? -errno : 0;
}

long use_users(void)
{
	char text[16] = {0};
	int fd = open("/sys/module/dynamos/refcnt", O_RDONLY | O_CLOEXEC);

	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return atol(text);
}

#define ALONE 2 /* this program's descriptors */

int use_alone(void)
{
	int i;

	for (i = 0; i < 600 && use_users() != ALONE; i++)
		usleep(100000);
	return use_users() == ALONE ? 0 : -ETIMEDOUT;
}

int use_stop(void)
{
	int fd = open("/sys/module/" TRY "/parameters/stop",
		      O_WRONLY | O_CLOEXEC);
	int err = fd < 0 || write(fd, "1", 1) != 1 ? -errno : 0;

	close(fd);
	return err;
}

static int device_call(unsigned long what, void *data, char *why)
{
	int err = ioctl(device, what, data) ? -errno : 0;

	snprintf(use_why, sizeof(use_why), "%s", err && why ? why : "");
	return err;
}

int use_apply(struct dynamos_apply *apply)
{
	apply->revision = DYNAMOS_REVISION;
	strcpy(apply->name, use_name);
	return device_call(DYNAMOS_IOC_APPLY, apply, apply->why);
}

static int change_policy(const struct dynamos_policy *policy, u32 flags)
{
	struct dynamos_change change = {.revision = DYNAMOS_REVISION,
					.flags = flags,
					.policy = *policy};

	strcpy(change.name, use_name);
	return device_call(DYNAMOS_IOC_POLICY, &change, change.why);
}

int use_policy(const struct dynamos_policy *policy)
{
	return change_policy(policy, 0);
}

int use_commit_for(const struct dynamos_policy *policy)
{
	return change_policy(policy, DYNAMOS_COMMITS);
}

static int by_name(unsigned long what)
{
	struct dynamos_name name = {.revision = DYNAMOS_REVISION};

	strcpy(name.name, use_name);
	return device_call(what, &name, name.why);
}

int use_commit(void)
{
	return by_name(DYNAMOS_IOC_COMMIT);
}

int use_revert(void)
{
	return by_name(DYNAMOS_IOC_REVERT);
}

int use_info(struct dynamos_info *info)
{
	u32 i;
	int err;

	for (i = 0;; i++) {
		memset(info, 0, sizeof(*info));
		info->revision = DYNAMOS_REVISION;
		info->index = i;
		err = device_call(DYNAMOS_IOC_INFO, info, NULL);
		if (err || !strcmp(info->name, use_name))
			return err;
	}
}

int use_count(u32 function, u32 version, struct dynamos_count *count)
{
	memset(count, 0, sizeof(*count));
	count->revision = DYNAMOS_REVISION;
	strcpy(count->name, use_name);
	count->function = function;
	count->version = version;
	return device_call(DYNAMOS_IOC_COUNT, count, NULL);
}

u32 use_state(void)
{
	struct dynamos_info info;

	return use_info(&info) ? 0 : info.state;
}

u64 use_inside(u32 version)
{
	struct dynamos_count count;

	if (use_count(0, version, &count))
		return ~0ull;
	return count.in - count.out - count.lost;
}

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

int use_event(u32 cause, struct dynamos_event *event)
{
	struct pollfd p = {.fd = events, .events = POLLIN};
	long long end = now_ms() + 60000;

	while (now_ms() < end) {
		if (read(events, event, sizeof(*event)) == sizeof(*event)) {
			if (event->cause == cause)
				return 0;
			continue;
		}
		poll(&p, 1, 1000);
	}
	return -ETIMEDOUT;
}

/* Waits until the update is in this state, or is not. */
static int await_state(long long ms, u32 state, int is)
{
	struct timespec t = {.tv_nsec = 10 * 1000 * 1000};
	long long end = now_ms() + ms;

	while ((use_state() == state) != is) {
		if (now_ms() > end)
			return 0;
		nanosleep(&t, NULL);
	}
	return 1;
}

int use_until(u32 state)
{
	return await_state(60000, state, 1) ? 0 : -ETIMEDOUT;
}

int use_stays(u32 state)
{
	return !await_state(3000, state, 0);
}

int use_symbol(const char *name)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char symbol[512];
	int found = 0;

	while (f && !found && fscanf(f, "%*s %*s %511s%*[^\n]", symbol) == 1)
		found = !strcmp(symbol, name);
	if (f)
		fclose(f);
	return found;
}

static void __attribute__((noreturn)) answer_loop(int ask, int answer)
{
	unsigned char times;
	long got;
	int fd;

	/* Another canary's end, which this process would keep open. */
	for (fd = 3; fd < 256; fd++)
		if (fd != ask && fd != answer)
			close(fd);
	while (read(ask, &times, 1) == 1) {
		do
			got = syscall(SYS_getpgid, 0);
		while (--times);
		if (got < 0)
			got = -errno;
		if (write(answer, &got, sizeof(got)) != sizeof(got))
			break;
	}
	_exit(0);
}

void use_canary(struct canary *c)
{
	int ask[2], answer[2];

	if (pipe2(ask, O_CLOEXEC) || pipe2(answer, O_CLOEXEC))
		exit_failed("pipe");
	c->pid = fork();
	if (c->pid < 0)
		exit_failed("fork");
	if (!c->pid) {
		close(ask[1]);
		close(answer[0]);
		answer_loop(ask[0], answer[1]);
	}
	close(ask[0]);
	close(answer[1]);
	c->ask = ask[1];
	c->answer = answer[0];
}

static void ask_for(struct canary *c, unsigned char times)
{
	if (write(c->ask, &times, 1) != 1)
		exit_failed("canary");
}

void use_ask(struct canary *c)
{
	ask_for(c, 1);
}

int use_answered(struct canary *c, int ms)
{
	struct pollfd p = {.fd = c->answer, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

long use_answer(struct canary *c)
{
	long got;

	if (!use_answered(c, 60000))
		return -1001;
	return read(c->answer, &got, sizeof(got)) == sizeof(got) ? got : -1000;
}

long use_call(struct canary *c)
{
	use_ask(c);
	return use_answer(c);
}

void use_calls(struct canary *c, unsigned char times)
{
	ask_for(c, times);
	use_answer(c);
}

int use_end(struct canary *c)
{
	int status = -1;

	close(c->ask);
	close(c->answer);
	waitpid(c->pid, &status, 0);
	return status;
}

void use_only(struct dynamos_policy *policy, int tgid)
{
	memset(policy, 0, sizeof(*policy));
	policy->rules = 1;
	policy->rule[0].terms = DYNAMOS_TGID;
	policy->rule[0].choice = 1;
	policy->rule[0].tgid = tgid;
}
