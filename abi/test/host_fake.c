/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "abi/include/lin.h"
#include "base/errno.h"
#include "host_fake.h"

struct fake fake;
void (*fake_thread_run)(struct abi_proc *p, u32 thread);
static struct abi_proc *current_proc;

#define RESERVE (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED)

/* Memory ---------------------------------------------------------------- */

/* A mapping at [addr, addr + len) as unused guest memory. */
static s64 map_fresh(u64 addr, u64 len, int prot)
{
	void *p = mmap((void *)addr, len, prot, RESERVE, -1, 0);

	return p == MAP_FAILED ? -errno : 0;
}

static s64 mem_commit(u64 addr, u64 len, u32 prot)
{
	if (fake.commit_answer)
		return fake.commit_answer;
	fake.commits++;
	fake.committed += len;
	return map_fresh(addr, len, (int)prot);
}

static s64 mem_protect(u64 addr, u64 len, u32 prot)
{
	fake.protects++;
	return mprotect((void *)addr, len, (int)prot) ? -errno : 0;
}

static s64 mem_release(u64 addr, u64 len)
{
	fake.releases++;
	fake.committed -= len;
	return map_fresh(addr, len, PROT_NONE);
}

static s64 mem_discard(u64 addr, u64 len)
{
	fake.discards++;
	return map_fresh(addr, len, PROT_READ | PROT_WRITE);
}

static s64 text_seal(u64 addr, u64 len)
{
	volatile u8 *first = (void *)addr;

	*first = *first; /* the contract: writable now */
	first[len - 1] = first[len - 1];
	fake.seals++;
	return fake.seal_answer;
}

static u64 text_pc(u64 pc)
{
	return pc;
}

/* Threads and waiting ----------------------------------------------------- */

static void *thread_main(void *arg)
{
	fake_thread_run(current_proc, (u32)(u64)arg);
	return NULL;
}

static s64 thread_start(u32 thread)
{
	pthread_attr_t attr;
	pthread_t id;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&id, &attr, thread_main, (void *)(u64)thread);
	pthread_attr_destroy(&attr);
	return -rc;
}

static void thread_exit(u32 thread)
{
	abi_thread_gone(current_proc, thread);
	pthread_exit(NULL);
}

static void thread_kick(u32 thread)
{
	(void)thread;
	__atomic_add_fetch(&fake.kicks, 1, __ATOMIC_RELAXED);
}

static s64 thread_yield(void)
{
	return sched_yield();
}

static s64 thread_affinity(u32 thread, const void *mask, u64 bytes)
{
	(void)thread, (void)mask, (void)bytes;
	return 0;
}

static void thread_tp(u32 thread, u64 tp)
{
	(void)thread, (void)tp;
}

static s64 host_wait(u32 *word, u32 expect, u64 deadline)
{
	struct timespec ts = {(time_t)(deadline / 1000000000),
			      (long)(deadline % 1000000000)};
	long rc;

	rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expect,
		     deadline == ABI_FOREVER ? NULL : &ts, NULL,
		     FUTEX_BITSET_MATCH_ANY);
	return rc && errno == ETIMEDOUT ? -ETIMEDOUT : 0;
}

static void host_wake(u32 *word, u32 count)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static s64 host_clock(u32 clock)
{
	static const clockid_t id[] = {CLOCK_REALTIME, CLOCK_MONOTONIC,
				       CLOCK_PROCESS_CPUTIME_ID,
				       CLOCK_THREAD_CPUTIME_ID};
	struct timespec ts;

	if (clock >= 4 || clock_gettime(id[clock], &ts))
		return -EINVAL;
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static s64 host_random(void *buf, u64 len)
{
	return getrandom(buf, len, 0) == (ssize_t)len ? 0 : -EIO;
}

static s64 host_info(struct abi_host_info *info)
{
	*info = fake.info;
	return 0;
}

static s64 read_rusage(s64 *user, s64 *system)
{
	*user = host_clock(ABI_CLOCK_PROCESS);
	*system = 0;
	return 0;
}

/* Files ------------------------------------------------------------------- */

static s64 return_errno(long rc)
{
	return rc < 0 ? -errno : rc;
}

static s64 file_open(struct abi_open *o)
{
	struct stat st;
	int fd = open(o->path, (int)o->flags | O_CLOEXEC | O_NONBLOCK, o->mode);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		close(fd);
		return -EIO;
	}
	o->handle = fd;
	o->type = st.st_mode & S_IFMT;
	return 0;
}

static s64 file_close(s32 handle)
{
	return return_errno(close(handle));
}

static s64 file_read(s32 handle, const struct abi_io *io)
{
	if (io->offset == ABI_STREAM || io->offset == ABI_CURRENT)
		return return_errno(read(handle, io->buf, io->len));
	return return_errno(pread(handle, io->buf, io->len, io->offset));
}

static s64 file_write(s32 handle, const struct abi_io *io)
{
	struct stat st;

	if (io->offset == ABI_STREAM || io->offset == ABI_CURRENT)
		return return_errno(write(handle, io->buf, io->len));
	if (io->offset != ABI_APPEND)
		return return_errno(
			pwrite(handle, io->buf, io->len, io->offset));
	if (fstat(handle, &st))
		return -errno;
	return return_errno(pwrite(handle, io->buf, io->len, st.st_size));
}

static s64 host_file(s32 handle, struct abi_file_op *op)
{
	struct stat st;

	switch (op->verb) {
	case ABI_FILE_STAT:
		if (fstat(handle, &st))
			return -errno;
		abi_lin_stat_from(op->stat, &st);
		return 0;
	case ABI_FILE_SYNC:
		return return_errno(fsync(handle));
	case ABI_FILE_TRUNCATE:
		return return_errno(ftruncate(handle, (off_t)op->len));
	case ABI_FILE_CHMOD:
		return return_errno(fchmod(handle, op->mode));
	case ABI_FILE_WINSIZE:
		return -ENOTTY;
	case ABI_FILE_SEEK:
		return return_errno(
			lseek(handle, (off_t)op->len, (int)op->mode));
	default:
		return -ENOSYS;
	}
}

static s64 path_stat(struct abi_path_op *op, int flags)
{
	struct stat st;

	if (fstatat(AT_FDCWD, op->path, &st, flags))
		return -errno;
	abi_lin_stat_from(op->stat, &st);
	return 0;
}

static s64 host_path(struct abi_path_op *op)
{
	switch (op->verb) {
	case ABI_PATH_STAT:
		return path_stat(op, 0);
	case ABI_PATH_LSTAT:
		return path_stat(op, AT_SYMLINK_NOFOLLOW);
	case ABI_PATH_ACCESS:
		return return_errno(access(op->path, (int)op->mode));
	case ABI_PATH_UNLINK:
		return return_errno(unlink(op->path));
	case ABI_PATH_RMDIR:
		return return_errno(rmdir(op->path));
	case ABI_PATH_MKDIR:
		return return_errno(mkdir(op->path, op->mode));
	case ABI_PATH_RENAME:
		return return_errno(renameat2(AT_FDCWD, op->path, AT_FDCWD,
					      op->path2, op->mode));
	case ABI_PATH_LINK:
		return return_errno(link(op->path, op->path2));
	case ABI_PATH_SYMLINK:
		return return_errno(symlink(op->path2, op->path));
	case ABI_PATH_READLINK:
		return return_errno(readlink(op->path, op->buf, op->len));
	case ABI_PATH_CHMOD:
		return return_errno(chmod(op->path, op->mode));
	case ABI_PATH_TRUNCATE:
		return return_errno(truncate(op->path, (off_t)op->len));
	default:
		return -ENOSYS;
	}
}

/* Sockets: a test that needs them fills these in. */
static s64 sock_open(u32 domain, u32 type, u32 protocol)
{
	(void)domain, (void)type, (void)protocol;
	return -EAFNOSUPPORT;
}

static s64 host_sock(s32 handle, struct abi_sock_op *op)
{
	(void)handle, (void)op;
	return -ENOTSOCK;
}

static s64 io_wait(struct abi_poll *list, u32 count, u64 deadline, u32 thread)
{
	struct pollfd fds[64];
	s64 left = -1;
	u32 i;
	int rc;

	(void)thread;
	if (count > 64)
		return -EINVAL;
	for (i = 0; i < count; i++)
		fds[i] = (struct pollfd){list[i].handle, (short)list[i].events,
					 0};
	if (deadline != ABI_FOREVER)
		left = ((s64)deadline - host_clock(ABI_CLOCK_MONOTONIC)) /
		       1000000;
	if (deadline != ABI_FOREVER && left < 0)
		left = 0;
	rc = poll(fds, count, (int)left);
	for (i = 0; i < count; i++)
		list[i].revents = (u16)fds[i].revents;
	return return_errno(rc);
}

/* The rest ---------------------------------------------------------------- */

static s64 vec_save(void *buf, u64 len)
{
	memset(buf, 0, len);
	return 0;
}

static s64 vec_load(const void *buf, u64 len)
{
	(void)buf, (void)len;
	return 0;
}

static void proc_exit(u32 status)
{
	fake.exit_status = status;
	fake.exited = 1;
	pthread_exit(NULL);
}

static void host_log(const char *line)
{
	fake.logs++;
	snprintf(fake.last_log, sizeof(fake.last_log), "%s", line);
}

static const struct abi_host template = {
	.mem_commit = mem_commit,
	.mem_protect = mem_protect,
	.mem_release = mem_release,
	.mem_discard = mem_discard,
	.text_seal = text_seal,
	.text_pc = text_pc,
	.thread_start = thread_start,
	.thread_exit = thread_exit,
	.thread_kick = thread_kick,
	.thread_yield = thread_yield,
	.thread_affinity = thread_affinity,
	.thread_tp = thread_tp,
	.wait = host_wait,
	.wake = host_wake,
	.clock = host_clock,
	.random = host_random,
	.info = host_info,
	.rusage = read_rusage,
	.file_open = file_open,
	.file_close = file_close,
	.file_read = file_read,
	.file_write = file_write,
	.file = host_file,
	.path = host_path,
	.sock_open = sock_open,
	.sock = host_sock,
	.io_wait = io_wait,
	.vec_save = vec_save,
	.vec_load = vec_load,
	.proc_exit = proc_exit,
	.log = host_log,
};

void fake_reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.host = template;
	fake.info.cpus = 2;
	fake.info.pid = 4242;
	fake.info.uid = fake.info.gid = 1000;
	fake.info.umask = 022;
	fake.info.mem_total = 8ull << 30;
	fake.info.mem_free = 4ull << 30;
	fake.info.mem_limit = 1ull << 30;
	fake.info.xsave_size = 576;
	fake.info.xsave_mask = 3;
	strcpy(fake.info.node, "fake");
	strcpy(fake.info.machine, "fake host for tests");
	/*
	 * Test programs are PIE and the shadow of ASan ends below ARENA, so
	 * nothing of theirs lies in either range.
	 */
	if (map_fresh(SKEP_IMAGE_START, SKEP_IMAGE_END - SKEP_IMAGE_START,
		      PROT_NONE) ||
	    map_fresh(SKEP_ARENA_START, SKEP_ARENA_SIZE, PROT_NONE)) {
		perror("fake host: reserve guest memory");
		exit(99);
	}
}

struct abi_proc *fake_proc(void)
{
	struct abi_proc *p;
	int rc;

	fake_reset();
	p = calloc(1, abi_proc_size());
	rc = p ? abi_proc_init(p, &fake.host) : -ENOMEM;
	if (rc) {
		fprintf(stderr, "fake host: abi_proc_init: %d\n", rc);
		exit(99);
	}
	current_proc = p;
	return p;
}

void fake_free(struct abi_proc *p)
{
	current_proc = NULL;
	free(p);
}

s64 fake_family(struct abi_family_op *op, u32 thread)
{
	(void)op;
	(void)thread;
	return -LINUX_ENOSYS;
}
