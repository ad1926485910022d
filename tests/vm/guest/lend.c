// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lend.h"

#define TIMEOUT_S 300 /* seconds; the machine ends sooner if it must */

char lend_why[SHIMOS_WHY];

int lend_device(void)
{
	int fd = open("/dev/" SHIMOS_DEVICE_NAME, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		printf("Bail out! no /dev/shimos: %s\n", strerror(errno));
		exit(2);
	}
	return fd;
}

/* On a file of its own where fd is negative. */
static int device_call(int fd, unsigned long number, void *arg, const char *why)
{
	int own = fd < 0 ? lend_device() : -1;
	int err = ioctl(fd < 0 ? own : fd, number, arg) < 0 ? -errno : 0;

	lend_why[0] = 0;
	if (why)
		memcpy(lend_why, why, SHIMOS_WHY);
	if (own >= 0)
		close(own);
	return err;
}

int lend_create_on(u64 cpus, const u64 *bytes, u32 nodes, const char *name)
{
	struct shimos_create c = {.revision = SHIMOS_REVISION};
	int err;

	c.cpus[0] = cpus;
	memcpy(c.bytes, bytes, nodes * sizeof(*bytes));
	snprintf(c.name, sizeof(c.name), "%s", name);
	err = device_call(-1, SHIMOS_IOC_CREATE, &c, c.why);
	return err ? err : (int)c.id;
}

int lend_create(u64 cpus, u64 bytes, const char *name)
{
	return lend_create_on(cpus, &bytes, 1, name);
}

int lend_release(u32 id)
{
	struct shimos_release r = {.id = id};

	return device_call(-1, SHIMOS_IOC_RELEASE, &r, r.why);
}

int lend_info(u32 id, struct shimos_info *info)
{
	int err;

	memset(info, 0, sizeof(*info));
	info->id = id;
	err = device_call(-1, SHIMOS_IOC_INFO, info, NULL);
	return err || info->id == id ? err : -ENOENT;
}

int lend_find(const char *name)
{
	struct shimos_info info;
	u32 id;

	for (id = 1; id < 100; id++)
		if (!lend_info(id, &info) && !strcmp(info.name, name))
			return (int)id;
	return 0;
}

int lend_allow(u32 gid, u64 cpus, u64 bytes)
{
	struct shimos_allow a = {.revision = SHIMOS_REVISION, .gid = gid};

	a.cpus[0] = cpus;
	a.bytes[0] = bytes;
	return device_call(-1, SHIMOS_IOC_ALLOW, &a, a.why);
}

static size_t copy_lines(const char *path, const char *word, char *out,
			 size_t size)
{
	char line[256], zone[64] = "";
	FILE *f = fopen(path, "r");
	size_t n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "Node", 4) && strstr(line, "zone"))
			snprintf(zone, sizeof(zone), "%.60s", line);
		if (strstr(line, word) && n < size)
			n += snprintf(out + n, size - n, "%s%s", zone, line);
	}
	if (f)
		fclose(f);
	return n < size ? n : size;
}

void lend_look(char *out, size_t size)
{
	static const char *const nodes = "/sys/devices/system/node/node%d/"
					 "meminfo";
	size_t n = copy_lines("/proc/zoneinfo", " managed ", out, size);
	char path[64];
	int node;

	n += copy_lines("/proc/meminfo", "MemTotal", out + n, size - n);
	n += copy_lines("/sys/devices/system/cpu/online", "", out + n,
			size - n);
	for (node = 0; node < 2; node++) {
		snprintf(path, sizeof(path), nodes, node);
		n += copy_lines(path, "MemTotal", out + n, size - n);
	}
}

int lend_write(const char *path, const char *text)
{
	int err, fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	err = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return err;
}

static void *map_memory(int fd, u64 length, u64 offset)
{
	void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			offset);

	return at == MAP_FAILED ? NULL : at;
}

int lend_open(struct lend *l, u32 id)
{
	int err;

	memset(l, 0, sizeof(*l));
	l->fd = lend_device();
	l->open.id = id;
	err = device_call(l->fd, SHIMOS_IOC_OPEN, &l->open, l->open.why);
	if (!err) {
		l->mail = map_memory(l->fd, l->open.mail, SHIMOS_MAP_MAIL);
		l->pool = map_memory(l->fd, l->open.pool, SHIMOS_MAP_POOL);
		if (!l->mail || !l->pool)
			err = -errno;
	}
	if (err)
		lend_close(l);
	return err;
}

int lend_load(struct lend *l, const char *path)
{
	struct shimos_load load = {0};
	int err, fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *data;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	data = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return -errno;
	load.address = (unsigned long)data;
	load.length = st.st_size;
	err = device_call(l->fd, SHIMOS_IOC_LOAD, &load, load.why);
	munmap(data, st.st_size);
	return err;
}

int lend_start(struct lend *l)
{
	struct shimos_start s = {0};

	return device_call(l->fd, SHIMOS_IOC_START, &s, s.why);
}

int lend_wait(struct lend *l, u32 *seen, u32 ms)
{
	struct shimos_wait w = {
		.seen = *seen, .ms = ms, .core = SHIMOS_WAIT_ANY};
	int err = device_call(l->fd, SHIMOS_IOC_WAIT, &w, NULL);

	*seen = w.seen;
	return err;
}

int lend_stop(struct lend *l)
{
	return device_call(l->fd, SHIMOS_IOC_STOP, NULL, NULL);
}

int lend_nmi(struct lend *l, u32 core, u32 reasons)
{
	struct shimos_nmi nmi = {.core = core, .reasons = reasons};

	return device_call(l->fd, SHIMOS_IOC_NMI, &nmi, NULL);
}

void lend_close(struct lend *l)
{
	if (l->mail)
		munmap(l->mail, l->open.mail);
	if (l->pool)
		munmap(l->pool, l->open.pool);
	close(l->fd);
	memset(l, 0, sizeof(*l));
}

struct slot *lend_slot(struct lend *l, u32 core)
{
	return (struct slot *)(l->mail + SLOT_AT(core));
}

int lend_until(int (*f)(void *arg), void *arg)
{
	struct timespec brief = {.tv_nsec = 1000000}, now;
	time_t end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (end = now.tv_sec + TIMEOUT_S; now.tv_sec < end;
	     clock_gettime(CLOCK_MONOTONIC, &now)) {
		if (f(arg))
			return 1;
		nanosleep(&brief, NULL);
	}
	return 0;
}

static int all_alive(void *arg)
{
	struct lend *l = arg;
	u32 i;

	for (i = 0; i < l->open.cores; i++)
		if (!lend_slot(l, i)->alive)
			return 0;
	return 1;
}

int lend_alive(struct lend *l)
{
	return lend_until(all_alive, l);
}

static int is_done(void *arg)
{
	return ((struct slot *)arg)->command == SLOT_WAIT;
}

int lend_done(struct slot *s)
{
	return lend_until(is_done, s);
}

static int is_inside(void *slot)
{
	return ((struct slot *)slot)->inside != 0;
}

int lend_inside(struct slot *s)
{
	return lend_until(is_inside, s);
}

int lend_command(struct lend *l, u32 core, enum slot_command command)
{
	struct slot *s = lend_slot(l, core);

	s->command = command;
	return lend_done(s);
}
