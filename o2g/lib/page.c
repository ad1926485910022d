// SPDX-License-Identifier: MIT
/*
 * The page that `skep o2g status` reads; see <skep/o2g_status.h>. An endpoint
 * works as well without one, so that what goes wrong here goes unsaid, but for
 * SKEP_O2G_LOG=2. Written by the engine's thread, opened and closed by the
 * program's; `page` itself is atomic.
 */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "endpoint.h"
#include "error.h"

#include <skep/o2g_status.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct o2g_page {
	struct o2g_status *status;
	int folder;
	char name[32];
};

/* The folder, if it is ours alone: /dev/shm is everybody's. */
static int open_folder(void)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char path[256];
	struct stat st;
	int fd;

	if (runtime && runtime[0] == '/')
		snprintf(path, sizeof(path), "%s/skep-o2g", runtime);
	else
		snprintf(path, sizeof(path), "/dev/shm/skep-o2g-%u",
			 (unsigned)getuid());
	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_uid != getuid() || st.st_mode & 077) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

/* What killed processes left behind. */
static void sweep(int folder)
{
	int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? 0 : fdopendir(copy);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		int pid = atoi(entry->d_name);

		if (pid > 0 && kill(pid, 0) && errno == ESRCH)
			unlinkat(folder, entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

/* Field 22 of /proc/self/stat; the second may hold spaces. */
static u64 start_time(void)
{
	char text[1024], *at;
	FILE *file = fopen("/proc/self/stat", "re");
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	text[n] = 0;
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, 0, 10) : 0;
}

static struct o2g_status *map(struct o2g_page *page)
{
	static u32 number; /* atomic */
	void *memory = MAP_FAILED;
	int fd;

	snprintf(page->name, sizeof(page->name), "%d-%u", (int)getpid(),
		 __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED));
	unlinkat(page->folder, page->name, 0); /* of an earlier process */
	fd = openat(page->folder, page->name,
		    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return 0;
	/* Allocated, so that a full file system can't kill us later. */
	if (posix_fallocate(fd, 0, sizeof(struct o2g_status)) == 0)
		memory = mmap(0, sizeof(struct o2g_status),
			      PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED) {
		unlinkat(page->folder, page->name, 0);
		return 0;
	}
	madvise(memory, sizeof(struct o2g_status), MADV_DONTFORK);
	return memory;
}

static void fill(struct o2g *o2g, struct o2g_status *s)
{
	s->revision = O2G_STATUS_REVISION;
	s->pid = (u32)getpid();
	s->start = start_time();
	s->opened = (u64)time(0);
	memcpy(s->name, &o2g->name, sizeof(s->name));
	strncpy((char *)s->engine, o2g->ops->name, sizeof(s->engine) - 1);
	strncpy((char *)s->program, program_invocation_short_name,
		sizeof(s->program) - 1);
	__atomic_store_n(&s->magic, O2G_STATUS_MAGIC, __ATOMIC_RELEASE);
}

void o2g_page_open(struct o2g *o2g)
{
	struct o2g_page *page = calloc(1, sizeof(*page));

	if (!page)
		return;
	page->folder = open_folder();
	if (page->folder >= 0) {
		sweep(page->folder);
		page->status = map(page);
	}
	if (!page->status) {
		o2g_error_log_more(
			"no page for skep o2g status: %s",
			strerror(page->folder < 0 ? -page->folder : errno));
		if (page->folder >= 0)
			close(page->folder);
		free(page);
		return;
	}
	fill(o2g, page->status);
	__atomic_store_n(&o2g->page, page, __ATOMIC_RELEASE);
	o2g_page_show(o2g);
}

static void put(u64 *to, u64 value)
{
	__atomic_store_n(to, value, __ATOMIC_RELAXED);
}

void o2g_page_show(void *ctx)
{
	struct o2g *o2g = ctx;
	struct o2g_page *page = __atomic_load_n(&o2g->page, __ATOMIC_ACQUIRE);
	struct o2g_status *s = page ? page->status : 0;
	struct o2g_counts c;

	if (!s)
		return;
	o2g->ops->counts(o2g->engine, &c);
	put(&s->sent, c.sent);
	put(&s->sent_bytes, c.sent_bytes);
	put(&s->received, c.received);
	put(&s->received_bytes, c.received_bytes);
	put(&s->expected, c.expected);
	put(&s->unexpected, c.unexpected);
	put(&s->requested, c.requested);
	put(&s->waited, c.waited);
	put(&s->self, c.self);
	put(&s->frames_in, c.frames_in);
	put(&s->frames_out, c.frames_out);
	put(&s->held, c.held);
	put(&s->held_bytes, c.held_bytes);
	put(&s->posted, c.posted);
	pthread_mutex_lock(&o2g->lock);
	s->named = o2g->peers;
	s->connected = o2g->open;
	s->unreachable = o2g->peers_lost;
	s->refused = (u32)o2g->opener.refused;
	pthread_mutex_unlock(&o2g->lock);
}

void o2g_page_close(struct o2g *o2g)
{
	struct o2g_page *page = o2g->page;

	if (!page)
		return;
	unlinkat(page->folder, page->name, 0);
	close(page->folder);
	munmap(page->status, sizeof(*page->status));
	free(page);
	o2g->page = 0;
}

/* In a child of fork(), which has no such memory. */
void o2g_page_fork(struct o2g *o2g)
{
	if (!o2g->page)
		return;
	close(o2g->page->folder);
	o2g->page = 0;
}
