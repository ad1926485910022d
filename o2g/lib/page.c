// SPDX-License-Identifier: MIT
/*
 * The page that `skep o2g status` reads; see <skep/o2g_status.h>. An endpoint
 * also works without one, so errors here are only logged with SKEP_O2G_LOG=2.
 * The engine's thread writes it, or the opener if the engine has none; the
 * program opens and closes it; `page` itself is atomic.
 */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "endpoint.h"
#include "error.h"

#include <skep/o2g_status.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A page may be removed by others between its creation and its lock; this many
 * are created. */
#define TRIES 12

/* The mapping keeps the file open, and so the lock, which is the sign of life,
 * without a descriptor: some programs have few. */
struct o2g_page {
	struct o2g_status *status;
	char folder[288], name[32];
	s64 links_at; /* atomic: ns, of the next look at all links */
};

#define LINKS_NS 1000000000ll

/* Creates the folder if necessary. */
static int name_folder(char *path, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (runtime && runtime[0] == '/' && strlen(runtime) < size - 16)
		snprintf(path, size, "%s/skep-o2g", runtime);
	else
		snprintf(path, size, "/dev/shm/skep-o2g-%u",
			 (unsigned)getuid());
	return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

/* Opens the folder, if only this user can write to it: /dev/shm is shared by
 * all. The owner of its parent may replace it at any time, so all later access
 * is relative to this descriptor. */
static int open_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && st.st_uid == getuid() && !(st.st_mode & 077))
		return fd;
	close(fd);
	return -EPERM;
}

/* Whether the page's owner has ended: then nobody has it locked, in any
 * namespace. Only regular files of this user are considered, because opening a
 * FIFO could block. */
static int page_abandoned(int folder, const char *name)
{
	int fd = openat(folder, name,
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	int r = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		st.st_uid == getuid() && flock(fd, LOCK_SH | LOCK_NB) == 0;

	if (fd >= 0)
		close(fd);
	return r;
}

/* Removes the pages of killed processes. */
static void sweep_folder(int folder)
{
	int fd = fcntl(folder, F_DUPFD_CLOEXEC, 0);
	DIR *dir = fd >= 0 ? fdopendir(fd) : 0;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (atoi(entry->d_name) > 0 &&
		    page_abandoned(folder, entry->d_name))
			unlinkat(folder, entry->d_name, 0);
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

/* Creates and locks a file, or returns -errno; -EAGAIN: another process removed
 * it before it was locked. */
static int make_file(int folder, const char *name)
{
	struct stat st;
	int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
			0600);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
	    st.st_nlink > 0)
		return fd;
	unlinkat(folder, name, 0);
	close(fd);
	return -EAGAIN;
}

static struct o2g_status *map_page(int file)
{
	void *memory = MAP_FAILED;
	/* Allocated now, because a write to a full file system would raise
	 * SIGBUS later. */
	int r = posix_fallocate(file, 0, sizeof(struct o2g_status));

	if (r == 0)
		memory = mmap(0, sizeof(struct o2g_status),
			      PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	else
		errno = r;
	if (memory == MAP_FAILED)
		return 0;
	madvise(memory, sizeof(struct o2g_status), MADV_DONTFORK);
	return memory;
}

static void remove_name(const struct o2g_page *page)
{
	int folder = open_folder(page->folder);

	if (folder < 0)
		return;
	unlinkat(folder, page->name, 0);
	close(folder);
}

/* The id distinguishes processes with equal numbers in two namespaces; each try
 * uses other bytes of it, because another process may still remove the last
 * name.
 */
static int name_file(struct o2g_page *page, int folder, const struct o2g_id *id)
{
	int r = -EAGAIN;

	for (const u8 *b = id->byte; r == -EAGAIN && b < id->byte + TRIES;
	     b++) {
		snprintf(page->name, sizeof(page->name), "%d-%02x%02x%02x%02x",
			 (int)getpid(), b[0], b[1], b[2], b[3]);
		r = make_file(folder, page->name);
	}
	return r;
}

static int make_page(struct o2g_page *page, const struct o2g_id *id)
{
	int file, r = name_folder(page->folder, sizeof(page->folder));
	int folder = r ? r : open_folder(page->folder);

	if (folder < 0)
		return folder;
	sweep_folder(folder);
	file = name_file(page, folder, id);
	close(folder);
	if (file < 0)
		return file;
	page->status = map_page(file);
	r = page->status ? 0 : -errno;
	close(file);
	if (r)
		remove_name(page);
	return r;
}

static void fill_status(struct o2g *o2g, struct o2g_status *s)
{
	s->revision = O2G_STATUS_REVISION;
	s->pid = (u32)getpid();
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
	int r = page ? make_page(page, &o2g->identity.id) : -ENOMEM;

	if (r) {
		o2g_error_log_more(
			"can't create the page for skep o2g status: %s",
			strerror(-r));
		free(page);
		return;
	}
	fill_status(o2g, page->status);
	__atomic_store_n(&o2g->page, page, __ATOMIC_RELEASE);
	o2g_page_show(o2g);
}

static void store_relaxed(u64 *to, u64 value)
{
	__atomic_store_n(to, value, __ATOMIC_RELAXED);
}

static void show_module(struct o2g *o2g, struct o2g_status *s)
{
	struct o2g_device_counts c;

	if (!o2g->ops->module)
		return;
	o2g->ops->module(o2g->engine, &c);
	store_relaxed(&s->softirq_bytes, c.softirq_bytes);
	store_relaxed(&s->worker_bytes, c.worker_bytes);
	store_relaxed(&s->over_budget, c.over_budget);
	store_relaxed(&s->direct_bytes, c.direct_bytes);
	store_relaxed(&s->slab_pages, c.slab_pages);
	store_relaxed(&s->stopped_reading, c.stopped_reading);
	store_relaxed(&s->wakes, c.wakes);
	store_relaxed(&s->sleeps, c.sleeps);
	store_relaxed(&s->refused_memory, c.refused_memory);
}

/* Rarely, because it takes a system call for each link. */
static void show_links(struct o2g *o2g, struct o2g_page *page)
{
	struct o2g_link_counts c;
	s64 now = o2g_now_ns();

	if (!o2g->ops->links ||
	    now < __atomic_load_n(&page->links_at, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&page->links_at, now + LINKS_NS, __ATOMIC_RELAXED);
	o2g->ops->links(o2g->engine, &c);
	__atomic_store_n(&page->status->links, c.open, __ATOMIC_RELAXED);
	store_relaxed(&page->status->resent, c.resent);
	__atomic_store_n(&page->status->known, 1, __ATOMIC_RELAXED);
}

void o2g_page_show(void *ctx)
{
	struct o2g *o2g = ctx;
	struct o2g_page *page = __atomic_load_n(&o2g->page, __ATOMIC_ACQUIRE);
	struct o2g_status *s = page ? page->status : 0;
	struct o2g_counts c;

	if (!s)
		return;
	show_module(o2g, s);
	show_links(o2g, page);
	o2g->ops->counts(o2g->engine, &c);
	store_relaxed(&s->sent, c.sent);
	store_relaxed(&s->sent_bytes, c.sent_bytes);
	store_relaxed(&s->received, c.received);
	store_relaxed(&s->received_bytes, c.received_bytes);
	store_relaxed(&s->expected, c.expected);
	store_relaxed(&s->unexpected, c.unexpected);
	store_relaxed(&s->requested, c.requested);
	store_relaxed(&s->waited, c.waited);
	store_relaxed(&s->self, c.self);
	store_relaxed(&s->frames_in, c.frames_in);
	store_relaxed(&s->frames_out, c.frames_out);
	store_relaxed(&s->unmatched, c.unmatched);
	store_relaxed(&s->unmatched_bytes, c.unmatched_bytes);
	store_relaxed(&s->posted, c.posted);
	pthread_mutex_lock(&o2g->lock);
	s->named = o2g->named;
	s->connected = o2g->open;
	s->unreachable = o2g->peers_lost;
	s->refused = (u32)o2g->opener.refused;
	pthread_mutex_unlock(&o2g->lock);
}

void o2g_page_remove(struct o2g *o2g)
{
	struct o2g_page *page = __atomic_load_n(&o2g->page, __ATOMIC_ACQUIRE);

	if (page)
		remove_name(page);
}

static u64 bytes_moved(struct o2g *o2g)
{
	struct o2g_page *page = __atomic_load_n(&o2g->page, __ATOMIC_ACQUIRE);
	struct o2g_status *s = page ? page->status : 0;

	return s ? s->frames_in + s->frames_out + s->received + s->posted : 0;
}

int o2g_page_look(struct o2g *o2g)
{
	u64 before = bytes_moved(o2g);

	o2g_page_show(o2g);
	return bytes_moved(o2g) != before;
}

void o2g_page_close(struct o2g *o2g)
{
	struct o2g_page *page = o2g->page;

	if (!page)
		return;
	remove_name(page);
	munmap(page->status, sizeof(*page->status));
	free(page);
	o2g->page = 0;
}

/* Called in a child of fork(), which does not inherit this memory. */
void o2g_page_fork(struct o2g *o2g)
{
	o2g->page = 0;
}
