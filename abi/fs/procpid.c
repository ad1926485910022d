// SPDX-License-Identifier: MIT
/*
 * Owns the folder /proc, the folders /proc/PID, and cmdline, comm, stat and
 * status of other processes of the family, as proc(5). The host knows those
 * processes and writes the texts; a host without a family has one process. A
 * description's code says which file, and its value of which process.
 */
#include "procpid.h"
#include "desc.h"
#include "ops.h"
#include "path.h"
#include "position.h"
#include "procfs.h"
#include "stat.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

/* Codes of descriptions: a file of another process, or a folder. */
#define CODE_PROC 100u /* /proc */
#define CODE_SELF 101u /* the folder of this process */
#define CODE_PID 102u  /* of another one */

struct entry {
	const char *name;
	u32 type;
};

/* Files of other processes come first, in the order of enum abi_family_text. */
static const struct entry in_pid[] = {
	{"cmdline", ABI_DT_REG}, {"comm", ABI_DT_REG}, {"stat", ABI_DT_REG},
	{"status", ABI_DT_REG},	 {"cwd", ABI_DT_LNK},  {"exe", ABI_DT_LNK},
	{"fd", ABI_DT_DIR},	 {"maps", ABI_DT_REG}, {"root", ABI_DT_LNK},
	{"task", ABI_DT_DIR},
};

static const struct entry in_proc[] = {
	{"cpuinfo", ABI_DT_REG}, {"loadavg", ABI_DT_REG},
	{"meminfo", ABI_DT_REG}, {"self", ABI_DT_LNK},
	{"stat", ABI_DT_REG},	 {"uptime", ABI_DT_REG},
};

#define IN_OTHER ABI_FAMILY_TEXTS
#define IN_PID (sizeof(in_pid) / sizeof(in_pid[0]))
#define IN_PROC (sizeof(in_proc) / sizeof(in_proc[0]))

/* The first process of the family whose pid is above `pid`, or 0. */
static u32 next_process(struct abi_proc *p, u32 pid)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_NEXT, .pid = (s32)pid};
	s64 next;

	if (!p->host->family)
		return pid < p->info.pid ? p->info.pid : 0;
	next = p->host->family(&op, 0);
	return next > 0 ? (u32)next : 0;
}

/*
 * Of a path /proc/PID or /proc/PID/rest: the code, and the pid of a process of
 * the family. -ENOENT: there is none. 0: no such path.
 */
static s64 parse_path(struct abi_proc *p, const char *path, u32 *pid)
{
	const char *s = abi_path_below(path, "/proc");
	u64 n = 0;
	u32 i;

	*pid = 0;
	if (abi_streq(path, "/proc"))
		return CODE_PROC;
	if (abi_streq(path, "/proc/self"))
		return CODE_SELF;
	if (!s || *s < '1' || *s > '9')
		return 0;
	for (; *s >= '0' && *s <= '9' && n < 1u << 30; s++)
		n = n * 10 + (u64)(*s - '0');
	if ((*s && *s != '/') || n >= 1u << 30)
		return 0;
	*pid = (u32)n;
	if (*pid == p->info.pid)
		return *s ? 0 : CODE_SELF;
	if (next_process(p, *pid - 1) != *pid)
		return -LINUX_ENOENT;
	if (!*s)
		return CODE_PID;
	for (i = 0; i < IN_OTHER; i++)
		if (abi_streq(s + 1, in_pid[i].name))
			return i + 1;
	return -LINUX_ENOENT;
}

s64 abi_procpid_open(struct abi_proc *p, const char *path, struct abi_desc *d)
{
	u32 flags = abi_desc_flags(d), pid;
	s64 code = parse_path(p, path, &pid);

	if (code <= 0)
		return code;
	if (code >= CODE_PROC && flags & ABI_O_ACCMODE)
		return -LINUX_EISDIR;
	if (code < CODE_PROC && flags & ABI_O_DIRECTORY)
		return -LINUX_ENOTDIR;
	if (flags & ABI_O_ACCMODE)
		return -LINUX_EACCES;
	d->type = code >= CODE_PROC ? ABI_S_IFDIR : ABI_S_IFREG;
	d->kind = ABI_DESC_PROCESS;
	d->code = (u32)code;
	d->value = pid;
	return 1;
}

s64 abi_procpid_stat(struct abi_proc *p, const char *path, struct abi_stat *st)
{
	u32 pid;
	s64 code = parse_path(p, path, &pid);

	if (code <= 0)
		return code;
	abi_memset(st, 0, sizeof(*st));
	st->dev = 0xab1;
	st->ino = 0x10000 + (u64)pid * 0x100 + (u64)code;
	st->nlink = 1;
	st->uid = p->info.uid;
	st->gid = p->info.gid;
	st->blksize = 4096;
	st->mode = code >= CODE_PROC ? ABI_S_IFDIR | 0555 : ABI_S_IFREG | 0444;
	return 1;
}

/* Folders ----------------------------------------------------------------- */

static s64 fill_entry(struct abi_dirent *e, const struct entry *from)
{
	abi_strcpy(e->name, from->name, sizeof(e->name));
	e->type = from->type;
	e->ino = ++e->next;
	return 1;
}

/* After the names of files, cookies are BASE and the pid before. */
#define BASE 0x100u

static s64 list_process(struct abi_proc *p, struct abi_dirent *e)
{
	u32 pid = next_process(p, e->next < BASE ? 0 : (u32)e->next - BASE);
	struct abi_text t;

	if (!pid)
		return 0;
	abi_text_init(&t, e->name, sizeof(e->name));
	abi_text_dec(&t, pid);
	e->type = ABI_DT_DIR;
	e->next = BASE + (u64)pid;
	e->ino = e->next;
	return 1;
}

static s64 procpid_list(struct abi_call *c, struct abi_desc *d,
			struct abi_dirent *e)
{
	static const struct entry dots[] = {{".", ABI_DT_DIR},
					    {"..", ABI_DT_DIR}};
	const struct entry *in = d->code == CODE_PROC ? in_proc : in_pid;
	u64 most = d->code == CODE_PROC	  ? IN_PROC
		   : d->code == CODE_SELF ? IN_PID
					  : IN_OTHER;

	if (e->next < 2)
		return fill_entry(e, &dots[e->next]);
	if (e->next - 2 < most)
		return fill_entry(e, &in[e->next - 2]);
	return d->code == CODE_PROC ? list_process(c->p, e) : 0;
}

/* Files ------------------------------------------------------------------- */

/* The text is made anew by each read. ESRCH: the process has ended. */
static s64 read_at(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   u64 offset)
{
	struct abi_fds *fds = &c->p->fds;
	struct abi_family_op op = {.verb = ABI_FAMILY_TEXT,
				   .pid = (s32)d->value,
				   .status = (s32)d->code - 1,
				   .text = (char *)fds->bounce,
				   .text_len = ABI_RING_SIZE};
	s64 n;

	if (d->type == ABI_S_IFDIR)
		return -LINUX_EISDIR;
	abi_lock(c->p, &fds->bounce_lock);
	n = c->p->host->family(&op, c->t->index);
	if (n > 0)
		n = offset < (u64)n
			    ? abi_span_scatter(c->p, s, fds->bounce + offset,
					       (u64)n - offset)
			    : 0;
	abi_unlock(c->p, &fds->bounce_lock);
	return n;
}

static s64 procpid_read(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset)
{
	return abi_position_read(c, d, s, offset, read_at);
}

const struct abi_desc_ops abi_procpid_ops = {
	.fs_type = ABI_FS_PROC,
	.read = procpid_read,
	.seek = abi_position_seek,
	.stat = abi_text_stat,
	.list = procpid_list,
};
