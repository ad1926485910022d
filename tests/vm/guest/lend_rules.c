// SPDX-License-Identifier: MIT
/*
 * What /dev/shimos refuses, to whom, and what it leaves behind. Runs as root
 * on a machine with CPUs 0 to 3.
 *
 * usage: lend_rules IMAGE
 *        lend_rules IMAGE lockdown	locks the kernel down, until it ends
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tap.h"
#include "lend.h"

#define MIB 1048576ull
#define USER 1000
#define GROUP 1234

static const char *image;
static struct {
	int err;
	char why[SHIMOS_WHY];
	long touches; /* of the last creation */
} * shared;

/* How often the module reached for memory or a CPU: probes count its calls. */
static long count_touches(void)
{
	FILE *f = fopen("/sys/kernel/tracing/kprobe_profile", "r");
	long hits, sum = 0;
	char name[64];
	int lines = 0;

	while (f && fscanf(f, "%63s %ld %*d", name, &hits) == 2) {
		sum += hits;
		lines++;
	}
	if (f)
		fclose(f);
	return lines == 2 ? sum : -1;
}

static void add_probes(void)
{
	const char *events = "/sys/kernel/tracing/kprobe_events";

	if (lend_write(events, "p:lend/memory alloc_contig_range"))
		lend_write(events, "p:lend/memory alloc_contig_range_noprof");
	lend_write(events, "p:lend/cpu remove_cpu");
	lend_write("/sys/kernel/tracing/events/lend/enable", "1");
}

static void remove_probes(void)
{
	lend_write("/sys/kernel/tracing/events/lend/enable", "0");
	lend_write("/sys/kernel/tracing/kprobe_events", "-:lend/memory");
	lend_write("/sys/kernel/tracing/kprobe_events", "-:lend/cpu");
}

/* Makes a partition and notes what it reached for. */
static int ask_on(u64 cpus, const u64 *bytes, u32 nodes, const char *name)
{
	long before = count_touches();
	int id = lend_create_on(cpus, bytes, nodes, name);

	shared->touches = before < 0 ? -1 : count_touches() - before;
	return id;
}

static int request_part(u64 cpus, u64 bytes, const char *name)
{
	return ask_on(cpus, &bytes, 1, name);
}

/* f as an ordinary user, in that group or in none. */
static int as_user(int group, int (*f)(void))
{
	gid_t groups[1] = {GROUP};
	long before = count_touches();
	pid_t pid;

	shared->err = -ECHILD; /* until the child has written */
	pid = fork();
	if (!pid) {
		if (setgroups(group, groups) || setgid(USER) || setuid(USER))
			_exit(1);
		shared->err = f();
		memcpy(shared->why, lend_why, SHIMOS_WHY);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	shared->touches = before < 0 ? -1 : count_touches() - before;
	return shared->err;
}

static void expect_refused(const char *name, int got, int err,
			   const char *words)
{
	if (!tap_ok(got == -err && strstr(lend_why, words) && !shared->touches,
		    "refused: %s", name))
		printf("# %d, %ld touches: %s\n", got, shared->touches,
		       lend_why);
	shared->touches = 0;
}

/* Nothing is touched before a request is judged. */
static void test_requests(void)
{
	int id;

	expect_refused("CPU 0", request_part(1, 64 * MIB, ""), EINVAL, "1-3");
	expect_refused("a CPU that is not there",
		       request_part(16, 64 * MIB, ""), EINVAL, "1-3");
	expect_refused("no memory", request_part(8, 0, ""), EINVAL,
		       "more than");
	expect_refused("more memory than there is",
		       request_part(8, 1ull << 40, ""), ENOMEM, "could spare");
	id = request_part(8, 32 * MIB, "one");
	tap_ok(id > 0, "a partition of one CPU and 32 MB");
	tap_ok(shared->touches >= 2,
	       "a creation that is granted takes memory and a CPU");
	expect_refused("a CPU of another partition",
		       request_part(0xc, 32 * MIB, ""), EINVAL, "1-2");
	expect_refused("a name that is taken", request_part(4, 32 * MIB, "one"),
		       EEXIST, "another");
	expect_refused("a partition that is not there", lend_release(id + 1),
		       ENOENT, "part list");
	tap_ok(!lend_release(id), "refusals leave the first partition alone");
}

/* A mapping of that kind, or -errno. */
static int try_map(struct lend *l, u64 length, u64 offset, int prot, int flags)
{
	void *at = mmap(NULL, length, prot, flags, l->fd, offset);

	if (at == MAP_FAILED)
		return -errno;
	munmap(at, length);
	return 0;
}

static void test_maps(struct lend *l)
{
	u64 page = 4096, pool = SHIMOS_MAP_POOL, ends = l->open.pool;
	int rw = PROT_READ | PROT_WRITE;

	tap_ok(!try_map(l, page, pool + ends - page, rw, MAP_SHARED),
	       "map: the last page of the pool");
	tap_ok(try_map(l, 2 * page, pool + ends - page, rw, MAP_SHARED) ==
			       -EINVAL &&
		       try_map(l, page, pool + ends, rw, MAP_SHARED) == -EINVAL,
	       "map: refuses addresses behind the pool");
	tap_ok(try_map(l, l->open.mail + page, 0, rw, MAP_SHARED) == -EINVAL &&
		       try_map(l, page, l->open.mail, rw, MAP_SHARED) ==
			       -EINVAL,
	       "map: refuses addresses behind the mail");
	tap_ok(try_map(l, page, 1ull << 62, rw, MAP_SHARED) == -EINVAL,
	       "map: refuses far addresses");
	tap_ok(try_map(l, page, 0, rw, MAP_PRIVATE) == -EACCES,
	       "map: refuses a private mapping");
	tap_ok(try_map(l, page, pool, PROT_READ | PROT_EXEC, MAP_SHARED) ==
			       -EACCES &&
		       mprotect(l->pool, page, PROT_READ | PROT_EXEC) < 0,
	       "map: refuses an executable mapping");
}

/* The head of the image with revisions that are not its own: what follows is
 * not looked at any more.
 */
static int load_revision(struct lend *l, u32 revision, u32 partition)
{
	int err, fd = open(image, O_RDONLY | O_CLOEXEC);
	const char *path = "/root/wrong";
	struct skep_image head;
	ssize_t n = read(fd, &head, sizeof(head));

	close(fd);
	head.revision = revision;
	head.partition = partition;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	err = n == sizeof(head) && write(fd, &head, n) == n ? lend_load(l, path)
							    : -EIO;
	close(fd);
	unlink(path);
	return err;
}

static void test_calls(void)
{
	int id = lend_create(8, 32 * MIB, "calls"), fd = lend_device();
	struct lend l, again;
	u32 seen = 0;

	tap_ok(ioctl(fd, SHIMOS_IOC_STOP) < 0 && errno == ENXIO,
	       "call: STOP needs OPEN");
	tap_ok(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED,
	       "call: a mapping needs OPEN");
	tap_ok(ioctl(fd, SHIMOS_IOC_CREATE, 8) < 0 && errno == EFAULT,
	       "call: a bad address");
	tap_ok(ioctl(fd, _IO('3', 99)) < 0 && errno == ENOTTY,
	       "call: an unknown number");
	close(fd);
	tap_ok(!lend_open(&l, id), "call: OPEN");
	expect_refused("a second proxy", lend_open(&again, id), EBUSY,
		       "already");
	expect_refused("release under a proxy", lend_release(id), EBUSY,
		       "in use");
	tap_ok(lend_nmi(&l, 0, 1) == -EPIPE, "call: NMI needs START");
	tap_ok(lend_wait(&l, &seen, 1) == -EPIPE, "call: WAIT needs START");
	expect_refused("a file that is not an image",
		       lend_load(&l, "/proc/self/exe"), EINVAL, "SMS1");
	expect_refused("an image of another revision",
		       load_revision(&l, SKEP_IMAGE_REVISION + 1,
				     SKEP_PARTITION_REVISION),
		       EINVAL, "revision");
	expect_refused("an image for partitions of another revision",
		       load_revision(&l, SKEP_IMAGE_REVISION,
				     SKEP_PARTITION_REVISION + 1),
		       EINVAL, "revision");
	expect_refused("START without an image", lend_start(&l), ENOENT,
		       "parameters/image");
	tap_ok(!lend_load(&l, image), "call: LOAD");
	expect_refused("a second image", lend_load(&l, image), EBUSY,
		       "already");
	test_maps(&l);
	tap_ok(!lend_start(&l) && lend_alive(&l), "call: START");
	tap_ok(lend_nmi(&l, 1, 1) == -EINVAL, "call: NMI to a core beyond");
	tap_ok(lend_nmi(&l, 0, 0) == -EINVAL &&
		       lend_nmi(&l, 0, 0x8000) == -EINVAL,
	       "call: NMI for no reason, or for Linux's own");
	tap_ok(lend_wait(&l, &seen, 1) == -ETIMEDOUT, "call: WAIT times out");
	expect_refused("a second START", lend_start(&l), EBUSY, "another");
	lend_close(&l);
	tap_ok(!lend_release(id), "call: RELEASE");
}

static int create_own(void)
{
	return lend_create(8, 32 * MIB, "user");
}

static int create_more(void)
{
	return lend_create(8, 66 * MIB, "");
}

static int create_other_cpu(void)
{
	return lend_create(4, 32 * MIB, "");
}

static int user_id;

static int release_it(void)
{
	return lend_release(user_id);
}

static int open_it(void)
{
	struct lend l;
	int err = lend_open(&l, user_id);

	if (!err)
		lend_close(&l);
	return err;
}

static int load_own(void)
{
	struct lend l = {.fd = lend_device()};
	int err = lend_load(&l, image);

	close(l.fd);
	return err;
}

static int allow_it(void)
{
	return lend_allow(GROUP, ~1ull, 1ull << 40);
}

static void test_user(const char *name, int group, int (*f)(void), int err,
		      const char *words)
{
	int got = as_user(group, f);

	if (!tap_ok(got == -err && strstr(shared->why, words) &&
			    !shared->touches,
		    "user: %s", name))
		printf("# %d, %ld touches: %s\n", got, shared->touches,
		       shared->why);
}

static void test_rights(void)
{
	test_user("no allowance", 1, create_own, EPERM, "skep part allow");
	tap_ok(!lend_allow(GROUP, 8, 64 * MIB), "root: an allowance");
	expect_refused("an allowance with CPU 0", lend_allow(GROUP, 1, 0),
		       EINVAL, "CPU 0");
	test_user("not in the group", 0, create_own, EPERM, "skep part allow");
	test_user("more memory than allowed", 1, create_more, ENOMEM, "64 MiB");
	test_user("a CPU that is not allowed", 1, create_other_cpu, EINVAL,
		  "lent: 3");
	test_user("an allowance by an ordinary user", 1, allow_it, EPERM, "");
	test_user("an image by an ordinary user", 1, load_own, EPERM, "root");
	user_id = as_user(1, create_own);
	tap_ok(user_id > 0, "user: a partition within the allowance");
	test_user("opens it", 1, open_it, 0, "");
	tap_ok(!open_it(), "root: opens it");
	test_user("releases it", 1, release_it, 0, "");
	user_id = lend_create(8, 32 * MIB, "");
	test_user("may not open another's", 1, open_it, EPERM, "another user");
	test_user("may not release another's", 1, release_it, EPERM,
		  "another user");
	tap_ok(!release_it() && !lend_allow(~0u, 0, 0),
	       "root: all CPUs are back");
}

static volatile int taken, creating;

static void take_signal(int sig)
{
	(void)sig;
	taken++;
}

/* Some signals to a thread while it creates. Only its search for memory ends
 * early, and how long that takes is the machine's matter: each time the signals
 * have another distance.
 */
static void *send_signals(void *thread)
{
	static useconds_t pause;
	int i;

	pause = pause % 3000 + 100;
	while (!creating)
		;
	for (i = 0; i < 3 && creating; i++) {
		usleep(pause);
		pthread_kill(*(pthread_t *)thread, SIGUSR1);
	}
	return NULL;
}

/* A creation that is disturbed so, by a handler with these flags. */
static int create_disturbed(int flags)
{
	struct sigaction action = {.sa_handler = take_signal,
				   .sa_flags = flags};
	pthread_t self = pthread_self(), other;
	int id;

	taken = 0;
	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&other, NULL, send_signals, &self);
	creating = 1;
	id = lend_create(8, 64 * MIB, "signals");
	creating = 0;
	pthread_join(other, NULL);
	if (id > 0)
		lend_release(id);
	return id;
}

/* A signal ends a creation, but for one whose handler restarts calls: those
 * that no program asked for, as of Go's run-time, are of that kind.
 */
static void test_signals(void)
{
	int i, ended = 0, wrong = 0, during = 0, id;

	for (i = 0; i < 50 && !ended; i++)
		ended = create_disturbed(0) == -EINTR;
	tap_ok(ended, "signals: a creation ends");
	for (i = 0; i < 50 && !wrong && !during; i++) {
		id = create_disturbed(SA_RESTART);
		during += taken;
		if (id < 0)
			wrong = id;
	}
	if (!tap_ok(!wrong && during, "signals: a creation begins again"))
		printf("# %d, %d signals: %s\n", wrong, during, lend_why);
}

static int can_sleep(void)
{
	int fd = open("/sys/power/state", O_RDONLY | O_CLOEXEC);
	char words[64] = "";

	if (fd < 0)
		return 0;
	if (read(fd, words, sizeof(words) - 1) < 0)
		words[0] = 0;
	close(fd);
	return strstr(words, "freeze") != NULL;
}

static void test_machine(void)
{
	const char *online = "/sys/devices/system/cpu/cpu3/online";
	int id = lend_create(8, 32 * MIB, "");

	tap_ok(id > 0 && lend_write(online, "1") == -EBUSY,
	       "machine: a lent CPU does not go online");
	tap_ok(system("rmmod shimos 2>/dev/null") != 0,
	       "machine: the module stays");
	if (!can_sleep())
		tap_skip("machine: suspend is refused",
			 "this kernel cannot sleep at all");
	else
		tap_ok(lend_write("/sys/power/state", "freeze") == -EBUSY,
		       "machine: suspend is refused");
	tap_ok(!lend_release(id), "machine: release");
	tap_ok(!lend_write(online, "0"), "machine: the CPU is back in Linux");
	expect_refused("a CPU that is offline", request_part(8, 32 * MIB, ""),
		       EINVAL, "CPU 3 is offline");
	tap_ok(!lend_write(online, "1"),
	       "machine: an offline CPU goes online again");
}

/* The bytes of a node in the machine's memory, as Linux counts them. */
static void node_span(int node, u64 *low, u64 *high)
{
	FILE *f = fopen("/proc/zoneinfo", "r");
	u64 value, spanned = 0;
	char line[256];
	int of = -1;

	*low = ~0ull;
	*high = 0;
	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "Node %d,", &of);
		sscanf(line, " spanned %llu", &spanned);
		if (of != node || !spanned ||
		    sscanf(line, " start_pfn: %llu", &value) != 1)
			continue;
		if (value * 4096 < *low)
			*low = value * 4096;
		if ((value + spanned) * 4096 > *high)
			*high = (value + spanned) * 4096;
	}
	if (f)
		fclose(f);
}

/* A partition with memory of one node has all of it there. */
static void test_place(int node)
{
	u64 bytes[2] = {0}, low, high;
	struct slot s = {0};
	struct lend l;
	int id;

	bytes[node] = 32 * MIB;
	id = lend_create_on(8, bytes, 2, "place");
	if (id > 0 && !lend_open(&l, id)) {
		if (!lend_load(&l, image) && !lend_start(&l) && lend_alive(&l))
			s = *lend_slot(&l, 0);
		lend_close(&l);
	}
	node_span(node, &low, &high);
	if (!tap_ok(s.high && s.low >= low && s.high <= high &&
			    (s.nodes & 0xffff00) == (u64)node * 0x10100,
		    "nodes: memory of node %d lies there", node))
		printf("# %llx to %llx, the node has %llx to %llx; %llx\n",
		       s.low, s.high, low, high, s.nodes);
	tap_ok(!lend_release(id), "nodes: node %d has its memory back", node);
}

/* Memory of two nodes, cores of the second. */
static void test_nodes(void)
{
	static char before[8192], after[8192];
	u64 bytes[6] = {32 * MIB, 32 * MIB}, n = 0;
	struct lend l;
	int id;

	lend_look(before, sizeof(before));
	id = lend_create_on(0xc, bytes, 2, "nodes");
	if (!tap_ok(id > 0, "nodes: memory of both nodes is lent"))
		printf("# %d: %s\n", id, lend_why);
	if (id > 0 && !lend_open(&l, id)) {
		if (!lend_load(&l, image) && !lend_start(&l) && lend_alive(&l))
			n = lend_slot(&l, 0)->nodes;
		lend_close(&l);
	}
	if (!tap_ok(n == 0x010001 || n == 0x000101,
		    "nodes: the image knows the node of its memory"))
		printf("# %llx\n", n);
	tap_ok(!lend_release(id), "nodes: all memory is back");
	test_place(0);
	test_place(1);
	lend_look(after, sizeof(after));
	if (!tap_ok(strstr(before, "Node 1 MemTotal") && !strcmp(before, after),
		    "nodes: each node has its memory back"))
		printf("# before:\n%s# after:\n%s", before, after);
	bytes[5] = 2 * MIB;
	expect_refused("a node that is not there", ask_on(8, bytes, 6, ""),
		       EINVAL, "node 5 has no memory");
}

/* Every step of a creation fails once; then all of it can be had. */
static void test_undo(void)
{
	const char *fail = "/sys/module/shimos/parameters/fail";
	char step[4], online[16] = "";
	int i, id, wrong = 0, fd;

	for (i = 1; i <= 7; i++) {
		snprintf(step, sizeof(step), "%d", i);
		if (lend_write(fail, step) ||
		    lend_create(0xc, 64 * MIB, "x") != -ECANCELED)
			wrong = i;
	}
	tap_ok(!wrong, "undo: each step can fail (%s)", wrong ? step : "");
	fd = open("/sys/devices/system/cpu/online", O_RDONLY);
	tap_ok(fd >= 0 && read(fd, online, 15) > 0 && !strcmp(online, "0-3\n"),
	       "undo: all CPUs are back");
	close(fd);
	lend_write(fail, "0");
	id = lend_create(0xc, 64 * MIB, "x");
	tap_ok(id > 0 && !lend_release(id), "undo: all CPUs can be lent");
}

static void test_parameter(void)
{
	const char *at = "/sys/module/shimos/parameters/image";
	char copy[] = "/root/image", command[512];
	struct lend l;
	int id;

	snprintf(command, sizeof(command), "cp '%s' %s && chmod 666 %s", image,
		 copy, copy);
	tap_ok(!system(command) && lend_write(at, copy) == -EPERM,
	       "image: one that others can write is refused");
	tap_ok(!chmod(copy, 0644) && !chown(copy, USER, 0) &&
		       lend_write(at, copy) == -EPERM,
	       "image: one of another user is refused");
	tap_ok(!chown(copy, 0, 0) && !lend_write(at, copy),
	       "image: root's image is loaded");
	tap_ok(lend_write(at, "/nowhere") == -ENOENT,
	       "image: a missing image is refused");
	id = lend_create(0xc, 64 * MIB, "x");
	tap_ok(!lend_open(&l, id) && !lend_start(&l) && lend_alive(&l),
	       "image: any user boots root's image");
	lend_close(&l);
	tap_ok(!lend_release(id) && !lend_write(at, ""),
	       "image: the image is removed");
}

/* What root may load, until the kernel holds against root. */
static int lock_down(void)
{
	const char *how = "/sys/kernel/security/lockdown";

	if (access(how, F_OK))
		mount("none", "/sys/kernel/security", "securityfs", 0, NULL);
	tap_ok(!load_own(), "lockdown: root loads an image before it");
	tap_ok(!lend_write(how, "integrity"), "lockdown: begins");
	expect_refused("an image of root's own under lockdown", load_own(),
		       EPERM, "locked down");
	return tap_done();
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	image = argv[1];
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc > 2)
		return lock_down();
	add_probes();
	test_requests();
	test_calls();
	test_rights();
	test_signals();
	test_machine();
	test_nodes();
	test_undo();
	test_parameter();
	remove_probes();
	return tap_done();
}
