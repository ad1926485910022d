// SPDX-License-Identifier: MIT
/*
 * Owns the files that abi provides itself: files of proc(5) and sysfs about the
 * guest (proctext.c has their texts), and the devices of null(4) and random(4).
 * The host's /proc would describe the loader, and Windows has none. Each read
 * generates the text again, in fds->bounce under bounce_lock.
 */
#include "procfs.h"
#include "desc.h"
#include "ops.h"
#include "path.h"
#include "position.h"
#include "procpid.h"
#include "proctext.h"
#include "stat.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/mm/space.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "abi/uapi/linux.h"

enum null_code { DEV_NULL, DEV_ZERO, DEV_FULL, DEV_RANDOM };

/* # stands for the number of a processor; each is a core of the only socket and
 * node. */
#define CPU_TOPOLOGY "/sys/devices/system/cpu/cpu#/topology/"

static const struct {
	const char *path;
	u32 kind, code, rdev; /* rdev is 0 unless it is a device */
} names[] = {
	{"/proc/self/maps", ABI_DESC_TEXT, ABI_TEXT_MAPS, 0},
	{"/proc/self/status", ABI_DESC_TEXT, ABI_TEXT_STATUS, 0},
	{"/proc/self/stat", ABI_DESC_TEXT, ABI_TEXT_STAT_SELF, 0},
	{"/proc/self/cmdline", ABI_DESC_TEXT, ABI_TEXT_CMDLINE, 0},
	{"/proc/self/comm", ABI_DESC_TEXT, ABI_TEXT_COMM, 0},
	{"/proc/self/fd", ABI_DESC_TEXT, ABI_TEXT_DIR_FD, 0},
	{"/proc/self/task", ABI_DESC_TEXT, ABI_TEXT_DIR_TASK, 0},
	{"/proc/cpuinfo", ABI_DESC_TEXT, ABI_TEXT_CPUINFO, 0},
	{"/proc/meminfo", ABI_DESC_TEXT, ABI_TEXT_MEMINFO, 0},
	{"/proc/stat", ABI_DESC_TEXT, ABI_TEXT_STAT, 0},
	{"/proc/uptime", ABI_DESC_TEXT, ABI_TEXT_UPTIME, 0},
	{"/proc/loadavg", ABI_DESC_TEXT, ABI_TEXT_LOADAVG, 0},
	{"/proc/sys/vm/overcommit_memory", ABI_DESC_TEXT, ABI_TEXT_OVERCOMMIT,
	 0},
	{"/proc/sys/vm/max_map_count", ABI_DESC_TEXT, ABI_TEXT_MAX_MAP_COUNT,
	 0},
	{"/proc/sys/kernel/ostype", ABI_DESC_TEXT, ABI_TEXT_OSTYPE, 0},
	{"/proc/sys/kernel/osrelease", ABI_DESC_TEXT, ABI_TEXT_OSRELEASE, 0},
	{"/proc/sys/kernel/hostname", ABI_DESC_TEXT, ABI_TEXT_HOSTNAME, 0},
	{"/proc/sys/kernel/ngroups_max", ABI_DESC_TEXT, ABI_TEXT_NGROUPS, 0},
	{"/proc/sys/kernel/pid_max", ABI_DESC_TEXT, ABI_TEXT_PID_MAX, 0},
	{"/proc/sys/fs/pipe-max-size", ABI_DESC_TEXT, ABI_TEXT_PIPE_MAX, 0},
	{"/proc/sys/net/core/somaxconn", ABI_DESC_TEXT, ABI_TEXT_SOMAXCONN, 0},
	{"/sys/devices/system/cpu/online", ABI_DESC_TEXT, ABI_TEXT_CPUS, 0},
	{"/sys/devices/system/cpu/possible", ABI_DESC_TEXT, ABI_TEXT_CPUS, 0},
	{"/sys/devices/system/cpu/present", ABI_DESC_TEXT, ABI_TEXT_CPUS, 0},
	{"/sys/devices/system/node/online", ABI_DESC_TEXT, ABI_TEXT_ZERO, 0},
	{"/sys/devices/system/node/possible", ABI_DESC_TEXT, ABI_TEXT_ZERO, 0},
	{"/sys/devices/system/node/node0/cpulist", ABI_DESC_TEXT, ABI_TEXT_CPUS,
	 0},
	{CPU_TOPOLOGY "core_id", ABI_DESC_TEXT, ABI_TEXT_OF_NUMBER, 0},
	{CPU_TOPOLOGY "thread_siblings_list", ABI_DESC_TEXT, ABI_TEXT_OF_NUMBER,
	 0},
	{CPU_TOPOLOGY "core_cpus_list", ABI_DESC_TEXT, ABI_TEXT_OF_NUMBER, 0},
	{CPU_TOPOLOGY "core_siblings_list", ABI_DESC_TEXT, ABI_TEXT_CPUS, 0},
	{CPU_TOPOLOGY "package_cpus_list", ABI_DESC_TEXT, ABI_TEXT_CPUS, 0},
	{CPU_TOPOLOGY "physical_package_id", ABI_DESC_TEXT, ABI_TEXT_ZERO, 0},
	{"/dev/null", ABI_DESC_NULL, DEV_NULL, 0x103},
	{"/dev/zero", ABI_DESC_NULL, DEV_ZERO, 0x105},
	{"/dev/full", ABI_DESC_NULL, DEV_FULL, 0x107},
	{"/dev/random", ABI_DESC_NULL, DEV_RANDOM, 0x108},
	{"/dev/urandom", ABI_DESC_NULL, DEV_RANDOM, 0x109},
};

#define NAMES (sizeof(names) / sizeof(names[0]))

/* Parses a text of decimal digits only, or returns -1. */
static s64 parse_decimal(const char *s)
{
	s64 n = 0;

	if (!*s)
		return -1;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || n > ABI_FD_MAX)
			return -1;
		n = n * 10 + (*s - '0');
	}
	return n;
}

/*
 * /proc/<pid>/x and /proc/thread-self/x are the same as /proc/self/x. Returns
 * the part after self, or 0 for other paths.
 */
static const char *self_part(struct abi_proc *p, const char *path)
{
	const char *s;
	u64 pid = 0;

	s = abi_path_below(path, "/proc/self");
	if (!s)
		s = abi_path_below(path, "/proc/thread-self");
	if (s)
		return s;
	path = abi_path_below(path, "/proc");
	if (!path || *path < '1' || *path > '9')
		return 0;
	for (; *path >= '0' && *path <= '9' && pid < 1ull << 32; path++)
		pid = pid * 10 + (u64)(*path - '0');
	return *path == '/' && p && pid == p->info.pid ? path + 1 : 0;
}

/* The part after fd/ of /proc/self/fd/x, or of /proc/self/task/N/fd/x. */
static const char *fd_part(struct abi_proc *p, const char *path)
{
	const char *s = self_part(p, path), *task;

	task = s ? abi_path_below(s, "task") : 0;
	if (task) {
		for (s = task; *s >= '0' && *s <= '9'; s++)
			;
		s = s != task && *s == '/' ? s + 1 : 0;
	}
	return s ? abi_path_below(s, "fd") : abi_path_below(path, "/dev/fd");
}

s64 abi_synth_number(struct abi_proc *p, const char *path)
{
	const char *s = fd_part(p, path);

	if (s)
		return parse_decimal(s);
	if (abi_streq(path, "/dev/stdin"))
		return 0;
	if (abi_streq(path, "/dev/stdout"))
		return 1;
	return abi_streq(path, "/dev/stderr") ? 2 : -1;
}

/* The description is only looked at: another thread may close it. */
static struct abi_desc *slot_desc(struct abi_proc *p, s64 fd)
{
	u32 slot;

	if (fd < 0 || fd >= ABI_FD_MAX)
		return 0;
	slot = abi_slots(p)[fd].desc;
	return slot ? &p->fds.desc[slot - 1] : 0;
}

const char *abi_synth_real(struct abi_proc *p, const char *path)
{
	const char *self = self_part(p, path);
	s64 fd = abi_synth_number(p, path);
	struct abi_desc *d;

	if (self && abi_streq(self, "exe"))
		return p->exe;
	if (self && abi_streq(self, "cwd"))
		return abi_cwd(p)[0] ? abi_cwd(p) : "/";
	if (self && abi_streq(self, "root"))
		return "/";
	if (self && abi_path_below(self, "root"))
		return abi_synth_real(p, self + 4);
	d = slot_desc(p, fd);
	return d && *d->path == '/' ? d->path : path;
}

int abi_synth_is_dir(struct abi_proc *p, const char *path)
{
	struct abi_desc *d = slot_desc(p, abi_synth_number(p, path));

	return d && d->type == ABI_S_IFDIR;
}

/* Of task/N/x, where N is a thread: x and the number; others as they are. */
static const char *thread_part(struct abi_proc *p, const char *self, u32 *tid)
{
	const char *task = self ? abi_path_below(self, "task") : 0, *s = task;
	u64 n = 0;

	if (!task || *task < '1' || *task > '9')
		return self;
	for (; *s >= '0' && *s <= '9' && n < 1ull << 30; s++)
		n = n * 10 + (u64)(*s - '0');
	if (*s != '/' || !abi_thread_find(p, (u32)n))
		return self;
	*tid = (u32)n;
	return s + 1;
}

/* Whether `path` matches the table's name, in which # is a processor's
 * number. */
static int name_matches(struct abi_proc *p, const char *name, const char *path,
			u32 *cpu)
{
	for (; *name && *name != '#' && *name == *path; name++, path++)
		;
	if (*name != '#')
		return *name == *path;
	if (*path < '0' || *path > '9' || (*path == '0' && path[1] != '/'))
		return 0;
	for (*cpu = 0; *path >= '0' && *path <= '9' && *cpu < 0x10000; path++)
		*cpu = *cpu * 10 + (u32)(*path - '0');
	return p && *cpu < p->info.cpus && abi_streq(name + 1, path);
}

/* number: of a processor, or of a thread. */
static int find_name(struct abi_proc *p, const char *path, u32 *number)
{
	const char *self;
	u32 i;

	*number = 0;
	self = thread_part(p, self_part(p, path), number);
	for (i = 0; i < NAMES; i++) {
		if (name_matches(p, names[i].path, path, number))
			return (int)i;
		if (self && i <= ABI_TEXT_DIR_TASK - (*number != 0) &&
		    abi_streq(names[i].path + 11, self))
			return (int)i;
	}
	return -1;
}

/* Folders about which the host has no data for the guest. */
static int is_ours(const char *path)
{
	static const char *const roots[] = {"/proc", "/sys"};
	u32 i;

	for (i = 0; i < 2; i++)
		if (abi_streq(path, roots[i]) || abi_path_below(path, roots[i]))
			return 1;
	return 0;
}

int abi_synth_is_own(struct abi_proc *p, const char *path)
{
	u32 number;

	return is_ours(path) || abi_synth_number(p, path) >= 0 ||
	       find_name(p, path, &number) >= 0;
}

static u32 type_of(int i)
{
	if (names[i].rdev)
		return ABI_S_IFCHR;
	return names[i].code == ABI_TEXT_DIR_FD ||
			       names[i].code == ABI_TEXT_DIR_TASK
		       ? ABI_S_IFDIR
		       : ABI_S_IFREG;
}

s64 abi_synth_open(struct abi_proc *p, const char *path, struct abi_desc *d)
{
	u32 flags = abi_desc_flags(d), number;
	int i = find_name(p, path, &number);
	s64 n;

	if (i < 0) {
		const char *real = abi_synth_real(p, path);

		/* Only a host with families knows the controlling terminal. */
		if (abi_streq(path, "/dev/tty") && !abi_forks(p))
			return -LINUX_ENXIO;
		if (real != path || !is_ours(path))
			return 0;
		n = abi_procpid_open(p, path, d);
		return n ? n : -LINUX_ENOENT;
	}
	d->type = type_of(i);
	if (d->type != ABI_S_IFDIR && flags & ABI_O_DIRECTORY)
		return -LINUX_ENOTDIR;
	if (d->type == ABI_S_IFDIR && flags & ABI_O_ACCMODE)
		return -LINUX_EISDIR;
	if (d->type == ABI_S_IFREG && flags & ABI_O_ACCMODE)
		return -LINUX_EACCES;
	d->kind = names[i].kind;
	d->code = names[i].code;
	if (d->code <= ABI_TEXT_DIR_TASK)
		d->value = number;
	else
		d->code |= number << ABI_TEXT_NUMBER;
	return 1;
}

s64 abi_synth_stat(struct abi_proc *p, const char *path, struct abi_stat *st)
{
	const char *real = abi_synth_real(p, path);
	s64 fd = abi_synth_number(p, path), n;
	u32 number;
	int i = find_name(p, path, &number), is_tty;

	if (fd >= 0)
		return slot_desc(p, fd) ? 0 : -LINUX_ENOENT;
	n = i < 0 && real == path ? abi_procpid_stat(p, path, st) : 0;
	if (n)
		return n;
	is_tty = abi_streq(path, "/dev/tty") && !abi_forks(p);
	if (i < 0 && (real != path || !is_ours(path)) && !is_tty)
		return 0;
	if (i < 0 && !abi_streq(path, "/sys") && !is_tty)
		return -LINUX_ENOENT;
	abi_memset(st, 0, sizeof(*st));
	st->dev = 0xab1;
	st->ino = 0x1000 + (u64)(i + 1) + ((u64)number << 16);
	st->nlink = 1;
	st->uid = p->info.uid;
	st->gid = p->info.gid;
	st->blksize = 4096;
	st->mode = ABI_S_IFDIR | 0555;
	if (is_tty || (i >= 0 && type_of(i) == ABI_S_IFCHR)) {
		st->mode = ABI_S_IFCHR | 0666;
		st->rdev = is_tty ? 0x500 : names[i].rdev;
	} else if (i >= 0 && type_of(i) == ABI_S_IFREG) {
		st->mode = ABI_S_IFREG | 0444;
	}
	return 1;
}

s64 abi_synth_link(struct abi_proc *p, const char *path, char *to, u64 size)
{
	const char *self = self_part(p, path), *text = 0;
	s64 fd = abi_synth_number(p, path);
	struct abi_desc *d;
	struct abi_text t;
	u64 n;

	if (abi_streq(path, "/proc/self")) {
		abi_text_init(&t, to, size);
		abi_text_dec(&t, p->info.pid);
		return (s64)t.len;
	}
	if (self && abi_streq(self, "exe"))
		text = p->exe;
	if (self && abi_streq(self, "cwd"))
		text = abi_cwd(p)[0] ? abi_cwd(p) : "/";
	if (self && abi_streq(self, "root"))
		text = "/";
	if (text)
		return (s64)abi_strcpy(to, text, size);
	if (fd < 0)
		return is_ours(path) ? -LINUX_ENOENT : 0;
	if (abi_path_below(path, "/dev") && !abi_path_below(path, "/dev/fd")) {
		abi_text_init(&t, to, size);
		abi_text_str(&t, "/proc/self/fd/");
		abi_text_dec(&t, (u64)fd);
		return (s64)t.len;
	}
	d = abi_desc_get(p, (u64)fd);
	if (!d)
		return -LINUX_ENOENT;
	n = abi_strcpy(to, d->path, size);
	abi_desc_put(p, d);
	return (s64)n;
}

/* Directories ------------------------------------------------------------ */

/* The first number, or thread, from `i` on; `most` if there is none. */
static u32 dir_next(struct abi_proc *p, u32 code, u32 i, u32 most)
{
	abi_lock(p, &p->fds.lock);
	for (; i < most; i++) {
		if (code == ABI_TEXT_DIR_FD && abi_slots(p)[i].desc)
			break;
		if (code == ABI_TEXT_DIR_TASK &&
		    __atomic_load_n(&p->threads.thread[i].state,
				    __ATOMIC_ACQUIRE) == ABI_THREAD_LIVE)
			break;
	}
	abi_unlock(p, &p->fds.lock);
	return i;
}

static s64 text_list(struct abi_call *c, struct abi_desc *d,
		     struct abi_dirent *e)
{
	u32 code = d->code, i;
	u32 most = code == ABI_TEXT_DIR_FD ? ABI_FD_MAX : ABI_THREADS_MAX;
	struct abi_proc *p = c->p;
	struct abi_text t;

	abi_text_init(&t, e->name, sizeof(e->name));
	if (e->next < 2) {
		abi_text_str(&t, e->next ? ".." : ".");
		e->type = ABI_DT_DIR;
		e->ino = ++e->next;
		return 1;
	}
	i = e->next - 2 < most ? (u32)e->next - 2 : most;
	i = dir_next(p, code, i, most);
	if (i == most)
		return 0;
	abi_text_dec(&t,
		     code == ABI_TEXT_DIR_FD ? i : p->threads.thread[i].tid);
	e->type = code == ABI_TEXT_DIR_FD ? ABI_DT_LNK : ABI_DT_DIR;
	e->next = i + 3;
	e->ino = e->next;
	return 1;
}

/* Copies the part of a generated text from `offset` on. */
static s64 copy_text(struct abi_call *c, struct abi_span *s, u64 offset,
		     const char *text, u64 len)
{
	if (offset >= len)
		return 0;
	return abi_span_scatter(c->p, s, text + offset, len - offset);
}

/* The map may be longer than the buffer, so it is generated in parts. */
static s64 give_maps(struct abi_call *c, struct abi_span *s, u64 offset)
{
	char *buf = (char *)c->p->fds.bounce;
	u64 from = 0, before = 0, len;
	s64 done = 0, n;

	while (s->left) {
		len = abi_space_maps(c->p, buf, ABI_RING_SIZE, &from);
		if (!len)
			break;
		if (offset + (u64)done < before + len) {
			n = copy_text(c, s, offset + (u64)done - before, buf,
				      len);
			if (n < 0)
				return done ? done : n;
			done += n;
		}
		before += len;
	}
	return done;
}

static s64 give_cmdline(struct abi_call *c, struct abi_span *s, u64 offset)
{
	u64 start = c->p->arg_start, len = c->p->arg_end - start;

	if (offset >= len || abi_user_check(c->p, start, len, ABI_PROT_READ))
		return 0;
	return abi_span_scatter(c->p, s, abi_user_ptr(start + offset),
				len - offset);
}

static s64 read_at(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   u64 offset)
{
	const struct abi_thread *thread = 0;
	struct abi_fds *fds = &c->p->fds;
	struct abi_text t;
	s64 n;

	if (d->type == ABI_S_IFDIR)
		return -LINUX_EISDIR;
	if (d->value)
		thread = abi_thread_find(c->p, (u32)d->value);
	if (d->value && !thread)
		return -LINUX_ESRCH;
	if (d->code == ABI_TEXT_CMDLINE)
		return give_cmdline(c, s, offset);
	abi_lock(c->p, &fds->bounce_lock);
	if (d->code == ABI_TEXT_MAPS) {
		n = give_maps(c, s, offset);
	} else {
		abi_text_init(&t, (char *)fds->bounce, ABI_RING_SIZE);
		abi_proctext_write(c->p, d->code, thread, &t);
		n = copy_text(c, s, offset, t.buf, t.len);
	}
	abi_unlock(c->p, &fds->bounce_lock);
	return n;
}

static s64 fill_device(struct abi_call *c, u32 code, struct abi_span *s)
{
	s64 done = 0, n;
	void *at;

	for (;;) {
		n = abi_span_chunk(c->p, s, &at);
		if (n <= 0)
			return n && !done ? n : done;
		if (code != DEV_RANDOM) {
			if (abi_user_zero(at, (u64)n))
				return done ? done : -LINUX_EFAULT;
		} else if (c->p->host->random(at, (u64)n)) {
			return done ? done : -LINUX_EIO;
		}
		abi_span_skip(s, (u64)n);
		done += n;
	}
}

static s64 text_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		     s64 offset)
{
	return abi_position_read(c, d, s, offset, read_at);
}

static s64 text_write(struct abi_call *c, struct abi_desc *d,
		      struct abi_span *s, s64 offset)
{
	(void)c;
	(void)d;
	(void)s;
	(void)offset;
	return -LINUX_EBADF;
}

s64 abi_text_stat(struct abi_call *c, struct abi_desc *d, struct abi_stat *st)
{
	abi_stat_unnamed(c->p, d, st);
	st->mode = d->type | (d->type == ABI_S_IFDIR ? 0555 : 0444);
	return 0;
}

const struct abi_desc_ops abi_text_ops = {
	.fs_type = ABI_FS_PROC,
	.read = text_read,
	.write = text_write,
	.seek = abi_position_seek,
	.stat = abi_text_stat,
	.list = text_list,
};

static s64 device_read(struct abi_call *c, struct abi_desc *d,
		       struct abi_span *s, s64 offset)
{
	(void)offset;
	return d->code == DEV_NULL ? 0 : fill_device(c, d->code, s);
}

static s64 device_write(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset)
{
	(void)c;
	(void)offset;
	return d->code == DEV_FULL ? -LINUX_ENOSPC : (s64)s->left;
}

static s64 device_seek(struct abi_call *c, struct abi_desc *d, s64 offset,
		       u32 whence)
{
	abi_assert_locked(&d->lock);
	(void)c;
	(void)d;
	(void)offset;
	(void)whence;
	return 0;
}

static s64 device_stat(struct abi_call *c, struct abi_desc *d,
		       struct abi_stat *st)
{
	u32 i;

	abi_stat_unnamed(c->p, d, st);
	st->mode = ABI_S_IFCHR | 0666;
	for (i = 0; i < NAMES; i++)
		if (names[i].rdev && names[i].code == d->code && !st->rdev)
			st->rdev = names[i].rdev;
	return 0;
}

const struct abi_desc_ops abi_null_ops = {
	.fs_type = ABI_FS_TMP,
	.read = device_read,
	.write = device_write,
	.seek = device_seek,
	.stat = device_stat,
};
