/* SPDX-License-Identifier: MIT */
/*
 * The calls about a process and its machine: identity, limits, usage, names.
 * proc->lock guards umask and limits. There is one user and one group.
 */
#include "call.h"
#include "own.h"
#include "refuse.h"
#include "log.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/mm/space.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "abi/uapi/linux.h"
#include "abi/time/cpu_timer.h"
#include "abi/time/time.h"
#include "abi/uapi/time.h"

#define NAME_SIZE 65 /* of a field of struct utsname */

/* Identity --------------------------------------------------------------------
 */

s64 abi_sys_getpid(struct abi_call *c)
{
	return abi_pid(c->p);
}

static int is_self(struct abi_call *c, u64 pid)
{
	return !(u32)pid || (u32)pid == c->p->info.pid;
}

s64 abi_sys_getuid(struct abi_call *c)
{
	return c->p->info.uid;
}

s64 abi_sys_geteuid(struct abi_call *c)
{
	return c->p->info.uid;
}

s64 abi_sys_getgid(struct abi_call *c)
{
	return c->p->info.gid;
}

s64 abi_sys_getegid(struct abi_call *c)
{
	return c->p->info.gid;
}

/* An id may only be set to its value; -1 keeps it. Linux allows root more. */
static s64 same_ids(struct abi_call *c, u32 count, u32 own)
{
	u32 i, same = 1;

	for (i = 0; i < count; i++)
		if ((u32)c->a[i] != own && (u32)c->a[i] != ~0u)
			same = 0;
	if (same)
		return 0;
	return c->p->info.uid
		       ? -LINUX_EPERM
		       : abi_refuse(c->p, ABI_REFUSE_CAPABILITY, -LINUX_EPERM);
}

s64 abi_sys_setuid(struct abi_call *c)
{
	if ((u32)c->a[0] == ~0u)
		return -LINUX_EINVAL;
	return same_ids(c, 1, c->p->info.uid);
}

s64 abi_sys_setgid(struct abi_call *c)
{
	if ((u32)c->a[0] == ~0u)
		return -LINUX_EINVAL;
	return same_ids(c, 1, c->p->info.gid);
}

s64 abi_sys_setreuid(struct abi_call *c)
{
	return same_ids(c, 2, c->p->info.uid);
}

s64 abi_sys_setregid(struct abi_call *c)
{
	return same_ids(c, 2, c->p->info.gid);
}

s64 abi_sys_setresuid(struct abi_call *c)
{
	return same_ids(c, 3, c->p->info.uid);
}

s64 abi_sys_setresgid(struct abi_call *c)
{
	return same_ids(c, 3, c->p->info.gid);
}

static s64 three_ids(struct abi_call *c, u32 id)
{
	u32 i;

	for (i = 0; i < 3; i++)
		if (ABI_PUT(c->p, c->a[i], &id))
			return -LINUX_EFAULT;
	return 0;
}

s64 abi_sys_getresuid(struct abi_call *c)
{
	return three_ids(c, c->p->info.uid);
}

s64 abi_sys_getresgid(struct abi_call *c)
{
	return three_ids(c, c->p->info.gid);
}

s64 abi_sys_getgroups(struct abi_call *c)
{
	u32 gid = c->p->info.gid;

	if ((s32)c->a[0] < 0)
		return -LINUX_EINVAL;
	if (!c->a[0])
		return 1;
	return ABI_PUT(c->p, c->a[1], &gid) ? -LINUX_EFAULT : 1;
}

/* setgroups(2) wants CAP_SETGID, which programs do not have: capget. */
s64 abi_sys_setgroups(struct abi_call *c)
{
	return abi_refuse(c->p, ABI_REFUSE_CAPABILITY, -LINUX_EPERM);
}

/* Both return the id from before, and never an error. */
s64 abi_sys_setfsuid(struct abi_call *c)
{
	return c->p->info.uid;
}

s64 abi_sys_setfsgid(struct abi_call *c)
{
	return c->p->info.gid;
}

#define CAP_VERSION_1 0x19980330u
#define CAP_VERSION_2 0x20071026u
#define CAP_VERSION_3 0x20080522u

struct cap_head {
	u32 version;
	s32 pid;
};

/* How many sets of 32 capabilities a version has; 0: not known. */
static u32 cap_sets(u32 version)
{
	if (version == CAP_VERSION_1)
		return 1;
	return version == CAP_VERSION_2 || version == CAP_VERSION_3 ? 2 : 0;
}

/* Of a version that is not known: tells the one that is. */
static s64 cap_head_get(struct abi_call *c, struct cap_head *head)
{
	if (ABI_GET(c->p, head, c->a[0]))
		return -LINUX_EFAULT;
	if (cap_sets(head->version))
		return 0;
	head->version = CAP_VERSION_3;
	return ABI_PUT(c->p, c->a[0], head) ? -LINUX_EFAULT : -LINUX_EINVAL;
}

/* capget(2): no capability at all. */
s64 abi_sys_capget(struct abi_call *c)
{
	struct cap_head head;
	u32 sets[6] = {0};
	s64 rc = cap_head_get(c, &head);

	if (rc)
		return rc == -LINUX_EINVAL && !c->a[1] ? 0 : rc;
	if (head.pid < 0)
		return -LINUX_EINVAL;
	if (head.pid && !abi_thread_find(c->p, (u32)head.pid))
		return -LINUX_ESRCH;
	return c->a[1] ? abi_user_put(c->p, c->a[1], sets,
				      cap_sets(head.version) * 12ull)
		       : 0;
}

/* capset(2): none can be gained, and none is what there is. */
s64 abi_sys_capset(struct abi_call *c)
{
	struct cap_head head;
	u32 sets[6] = {0}, any = 0, i;
	s64 rc = cap_head_get(c, &head);

	if (rc)
		return rc;
	if (head.pid && (u32)head.pid != c->t->tid)
		return -LINUX_EPERM;
	if (abi_user_get(c->p, sets, c->a[1], cap_sets(head.version) * 12ull))
		return -LINUX_EFAULT;
	for (i = 0; i < 6; i++)
		any |= sets[i];
	return any ? -LINUX_EPERM : 0;
}

s64 abi_sys_umask(struct abi_call *c)
{
	u32 old;

	abi_lock(c->p, &c->p->lock);
	old = *abi_umask(c->p);
	*abi_umask(c->p) = (u32)c->a[0] & 0777;
	abi_unlock(c->p, &c->p->lock);
	return old;
}

s64 abi_sys_personality(struct abi_call *c)
{
	/* PER_LINUX; 0xffffffff only queries */
	if ((u32)c->a[0] != ~0u && (u32)c->a[0] != 0)
		return abi_refuse(c->p, ABI_REFUSE_PERSONALITY, -LINUX_EINVAL);
	return 0;
}

/* Limits and usage
 * ---------------------------------------------------------------- */

/* Limits that are stored but not enforced, and what that means for the
 * program. */
static const char *const unenforced[ABI_RLIMITS] = {
	[ABI_RLIMIT_CPU] = "setrlimit: RLIMIT_CPU is not enforced: no SIGXCPU "
			   "will come",
	[ABI_RLIMIT_MEMLOCK] = "setrlimit: RLIMIT_MEMLOCK is not enforced: "
			       "mlock locks nothing here",
	[ABI_RLIMIT_SIGPENDING] = "setrlimit: RLIMIT_SIGPENDING is not "
				  "enforced",
};

/* After a limit was lowered. */
static void follow_limit(struct abi_proc *p, u32 which)
{
	if (which == ABI_RLIMIT_CPU && p->host->timer_arm)
		return abi_cpu_limit_arm(p);
	if (unenforced[which])
		abi_log_once(p, &p->said_limit[which], unenforced[which]);
}

static s64 limit_set(struct abi_call *c, u32 which, u64 gaddr)
{
	struct abi_rlimit fresh, *limit = &abi_limits(c->p)[which];
	u32 lower;
	s64 rc = 0;

	if (ABI_GET(c->p, &fresh, gaddr))
		return -LINUX_EFAULT;
	if (fresh.cur > fresh.max)
		return -LINUX_EINVAL;
	abi_lock(c->p, &c->p->lock);
	lower = fresh.cur < limit->cur;
	if (fresh.max > limit->max)
		rc = -LINUX_EPERM;
	else
		*limit = fresh;
	abi_unlock(c->p, &c->p->lock);
	if (!rc && lower)
		follow_limit(c->p, which);
	return rc;
}

static s64 limit_call(struct abi_call *c, u64 which, u64 fresh, u64 old)
{
	struct abi_rlimit now;
	s64 rc;

	if ((u32)which >= ABI_RLIMITS)
		return -LINUX_EINVAL;
	abi_lock(c->p, &c->p->lock);
	now = abi_limits(c->p)[(u32)which];
	abi_unlock(c->p, &c->p->lock);
	rc = fresh ? limit_set(c, (u32)which, fresh) : 0;
	if (!rc && old && ABI_PUT(c->p, old, &now))
		rc = -LINUX_EFAULT;
	return rc;
}

s64 abi_sys_getrlimit(struct abi_call *c)
{
	return c->a[1] ? limit_call(c, c->a[0], 0, c->a[1]) : -LINUX_EFAULT;
}

s64 abi_sys_setrlimit(struct abi_call *c)
{
	return c->a[1] ? limit_call(c, c->a[0], c->a[1], 0) : -LINUX_EFAULT;
}

s64 abi_sys_prlimit64(struct abi_call *c)
{
	if ((u32)c->a[0] && !abi_thread_find(c->p, (u32)c->a[0]))
		return -LINUX_ESRCH;
	return limit_call(c, c->a[1], c->a[2], c->a[3]);
}

static struct abi_timeval timeval_of(s64 ns)
{
	return (struct abi_timeval){(s64)((u64)ns / ABI_NS),
				    (s64)((u64)ns % ABI_NS / 1000)};
}

struct rusage {
	struct abi_timeval user, system;
	u64 maxrss; /* KiB */
	u64 rest[13];
};
SKEP_ASSERT_SIZE(struct rusage, 144);

#define RUSAGE_SELF 0
#define RUSAGE_CHILDREN (-1)
#define RUSAGE_THREAD 1

/* Usage of children that were waited for. */
static s64 children_usage(struct abi_call *c)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_USAGE};

	if (c->p->host->family)
		c->p->host->family(&op, c->t->index);
	return ABI_PUT(c->p, c->a[1], &op.usage);
}

s64 abi_sys_getrusage(struct abi_call *c)
{
	struct rusage usage;
	s64 user = 0, system = 0;
	u64 committed, mapped;

	abi_memset(&usage, 0, sizeof(usage));
	abi_space_count(c->p, &committed, &mapped);
	switch ((s32)c->a[0]) {
	case RUSAGE_CHILDREN:
		return children_usage(c);
	case RUSAGE_SELF:
		c->p->host->rusage(&user, &system);
		break;
	case RUSAGE_THREAD:
		user = c->p->host->clock(ABI_CLOCK_THREAD);
		break;
	default:
		return -LINUX_EINVAL;
	}
	usage.user = timeval_of(user);
	usage.system = timeval_of(system);
	usage.maxrss = committed / 1024;
	return ABI_PUT(c->p, c->a[1], &usage);
}

#define TICK (ABI_NS / 100) /* USER_HZ */

/* time: seconds and microseconds. */
static s64 ticks_of(const u64 *time)
{
	return (s64)(time[0] * 100 + time[1] / 10000);
}

s64 abi_sys_times(struct abi_call *c)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_USAGE};
	s64 user = 0, system = 0, tms[4] = {0};

	c->p->host->rusage(&user, &system);
	if (c->p->host->family)
		c->p->host->family(&op, c->t->index);
	tms[2] = ticks_of(&op.usage[0]);
	tms[3] = ticks_of(&op.usage[2]);
	tms[0] = (s64)((u64)user / TICK);
	tms[1] = (s64)((u64)system / TICK);
	if (c->a[0] && ABI_PUT(c->p, c->a[0], &tms))
		return -LINUX_EFAULT;
	return (s64)((u64)c->p->host->clock(ABI_CLOCK_MONOTONIC) / TICK);
}

struct sysinfo {
	s64 uptime;
	u64 loads[3];
	u64 total_ram, free_ram, shared_ram, buffer_ram;
	u64 total_swap, free_swap;
	u16 procs, pad;
	u32 pad2;
	u64 total_high, free_high;
	u32 unit, pad3;
};
SKEP_ASSERT_SIZE(struct sysinfo, 112);

s64 abi_sys_sysinfo(struct abi_call *c)
{
	struct abi_host_info info = c->p->info;
	struct sysinfo s;

	c->p->host->info(&info); /* free memory changes */
	abi_memset(&s, 0, sizeof(s));
	s.uptime = (s64)((u64)c->p->host->clock(ABI_CLOCK_MONOTONIC) / ABI_NS);
	s.total_ram = info.mem_total;
	s.free_ram = info.mem_free;
	s.procs = (u16)__atomic_load_n(&c->p->threads.live, __ATOMIC_RELAXED);
	s.unit = 1;
	return ABI_PUT(c->p, c->a[0], &s);
}

s64 abi_sys_uname(struct abi_call *c)
{
	char names[6][NAME_SIZE];

	abi_memset(names, 0, sizeof(names));
	abi_strcpy(names[0], "Linux", NAME_SIZE);
	abi_strcpy(names[1], c->p->info.node, NAME_SIZE);
	abi_strcpy(names[2], "6.1.0-skep", NAME_SIZE);
	abi_strcpy(names[3], c->p->info.machine, NAME_SIZE);
	abi_strcpy(names[4], "x86_64", NAME_SIZE);
	abi_strcpy(names[5], "(none)", NAME_SIZE);
	return ABI_PUT(c->p, c->a[0], &names);
}

/* Priority: stored and returned, without effect. --------
 */

static s64 nice_check(struct abi_call *c)
{
	u32 which = (u32)c->a[0];

	if (which > 2)
		return -LINUX_EINVAL;
	if (which < 2 && !is_self(c, c->a[1]) &&
	    !abi_thread_find(c->p, (u32)c->a[1]))
		return -LINUX_ESRCH;
	if (which == 2 && (u32)c->a[1] && (u32)c->a[1] != c->p->info.uid)
		return -LINUX_ESRCH;
	return 0;
}

s64 abi_sys_getpriority(struct abi_call *c)
{
	s64 rc = nice_check(c);

	if (rc)
		return rc;
	return 20 - (s64)__atomic_load_n(&c->p->threads.nice, __ATOMIC_RELAXED);
}

s64 abi_sys_setpriority(struct abi_call *c)
{
	s32 *nice = &c->p->threads.nice, wanted = (s32)c->a[2];
	s64 rc = nice_check(c);

	if (rc)
		return rc;
	if (wanted > 19)
		wanted = 19;
	if (wanted < __atomic_load_n(nice, __ATOMIC_RELAXED))
		return -LINUX_EACCES;
	__atomic_store_n(nice, wanted, __ATOMIC_RELAXED);
	return 0;
}

/* prctl
 * ----------------------------------------------------------------------------
 */

#define PR_SET_PDEATHSIG 1
#define PR_GET_PDEATHSIG 2
#define PR_GET_DUMPABLE 3
#define PR_SET_DUMPABLE 4
#define PR_SET_NAME 15
#define PR_GET_NAME 16
#define PR_GET_SECCOMP 21
#define PR_CAPBSET_READ 23
#define PR_SET_TIMERSLACK 29
#define PR_GET_TIMERSLACK 30
#define PR_SET_NO_NEW_PRIVS 38
#define PR_GET_NO_NEW_PRIVS 39
#define PR_LAST 78
#define PR_SET_VMA 0x53564d41
#define PR_SET_PTRACER 0x59616d61

static s64 name_set(struct abi_call *c)
{
	char name[16] = {0};
	struct abi_family_op op = {.verb = ABI_FAMILY_NAME, .path = name};
	u32 i;

	for (i = 0; i < sizeof(name) - 1; i++) {
		if (abi_user_get(c->p, &name[i], c->a[1] + i, 1))
			return -LINUX_EFAULT;
		if (!name[i])
			break;
	}
	abi_memcpy(c->t->comm, name, sizeof(name));
	if (c->t->index)
		return 0;
	abi_lock(c->p, &c->p->lock);
	abi_memcpy(c->p->comm, name, sizeof(name));
	abi_unlock(c->p, &c->p->lock);
	if (c->p->host->family)
		c->p->host->family(&op, c->t->index);
	return 0;
}

static s64 name_get(struct abi_call *c)
{
	char name[16];

	abi_lock(c->p, &c->p->lock);
	/* a thread without a name has the program's */
	abi_memcpy(name, c->t->comm[0] ? c->t->comm : c->p->comm, sizeof(name));
	abi_unlock(c->p, &c->p->lock);
	return ABI_PUT(c->p, c->a[1], &name);
}

/* The first process of a family has no parent in it. */
static s64 death_set(struct abi_call *c)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_DEATH,
				   .status = (s32)c->a[1]};

	if (c->a[1] > ABI_SIGNALS)
		return -LINUX_EINVAL;
	__atomic_store_n(&c->p->death_signal, (u32)c->a[1], __ATOMIC_RELAXED);
	return c->p->child ? c->p->host->family(&op, c->t->index) : 0;
}

s64 abi_sys_prctl(struct abi_call *c)
{
	switch ((u32)c->a[0]) {
	case PR_SET_NAME:
		return name_set(c);
	case PR_GET_NAME:
		return name_get(c);
	case PR_SET_PDEATHSIG:
		return death_set(c);
	case PR_GET_PDEATHSIG:
		return ABI_PUT(c->p, c->a[1], &c->p->death_signal);
	case PR_GET_DUMPABLE: /* no core is dumped, whatever was set */
		return 0;
	case PR_SET_DUMPABLE:
		return c->a[1] > 1 ? -LINUX_EINVAL : 0;
	case PR_SET_VMA: /* names of mappings, for debuggers */
	case PR_SET_TIMERSLACK:
		return 0;
	case PR_GET_TIMERSLACK:
		return 50000;
	case PR_GET_SECCOMP:
		return 0;
	case PR_CAPBSET_READ:
		return c->a[1] > 40 ? -LINUX_EINVAL : 0;
	/* execve never grants privileges, so it always holds */
	case PR_SET_NO_NEW_PRIVS:
		return c->a[1] == 1 ? 0 : -LINUX_EINVAL;
	case PR_GET_NO_NEW_PRIVS:
		return 1;
	}
	if ((u32)c->a[0] > PR_LAST && (u32)c->a[0] != PR_SET_PTRACER)
		return -LINUX_EINVAL;
	return abi_refuse(c->p, ABI_REFUSE_PRCTL, -LINUX_EINVAL);
}

#define GRND_NONBLOCK 1u
#define GRND_RANDOM 2u
#define GRND_INSECURE 4u
#define RANDOM_MAX 0x1ffffffull /* as Linux */

s64 abi_sys_getrandom(struct abi_call *c)
{
	u64 len = c->a[1];
	u32 flags = (u32)c->a[2];

	if (flags & ~(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE) ||
	    (flags & (GRND_RANDOM | GRND_INSECURE)) ==
		    (GRND_RANDOM | GRND_INSECURE))
		return -LINUX_EINVAL;
	if (len > RANDOM_MAX)
		len = RANDOM_MAX;
	if (abi_user_check(c->p, c->a[0], len, ABI_PROT_WRITE))
		return -LINUX_EFAULT;
	if (len && c->p->host->random(abi_user_ptr(c->a[0]), len))
		return -LINUX_EIO;
	return (s64)len;
}
