// SPDX-License-Identifier: MIT
/*
 * The life of an endpoint: options, descriptors, leaks (memory is
 * LeakSanitizer's), and the errors that are told in words.
 */
#define _GNU_SOURCE /* ppoll */
#include "amid.h"
#include "bed.h"

#include <o2g/lib/hmac.h>
#include <skep/o2g_report.h>
#include <skep/o2g_status.h>
#include <tests/tap.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int open_refused(struct o2g_options options, int error, const char *word)
{
	struct o2g *o2g = (void *)1;
	int r = o2g_open(&o2g, &options);

	if (r == 0)
		o2g_close(o2g, 0);
	printf("# %s\n", o2g_error());
	return r == error && !o2g && strstr(o2g_error(), word);
}

static int refused_environment(const char *variable, const char *value)
{
	int r;

	setenv(variable, value, 1);
	r = open_refused(bed_options(), -EINVAL, variable);
	unsetenv(variable);
	return r;
}

static void test_options(void)
{
	struct o2g_options o = bed_options();

	o.secret = 0;
	tap_ok(open_refused(o, -EACCES, "skep mpirun"), "no secret");
	o.secret = "0123";
	tap_ok(open_refused(o, -EACCES, "64 hexadecimal"), "a short secret");
	o.secret = BED_SECRET "0";
	tap_ok(open_refused(o, -EACCES, "64 hexadecimal"), "a long secret");
	o = bed_options();
	o.interface = "nosuch0";
	tap_ok(open_refused(o, -EADDRNOTAVAIL, "nosuch0"), "no such interface");
	o.interface = "192.0.2.1";
	tap_ok(open_refused(o, -EADDRNOTAVAIL, "192.0.2.1"), "no such address");
	o.interface = "10.0.0.0/99";
	tap_ok(open_refused(o, -EINVAL, "10.0.0.0/99"), "no such network");
	o = bed_options();
	o.ports = "70000";
	tap_ok(open_refused(o, -EINVAL, "70000"), "no such port");
	o.ports = "10-5";
	tap_ok(open_refused(o, -EINVAL, "10-5"),
	       "a range of ports whose end precedes its start");
	o = bed_options();
	o.credit = 5;
	tap_ok(open_refused(o, -EINVAL, "SKEP_O2G_CREDIT"),
	       "too little credit");
	o = bed_options();
	o.engine = "hardware";
	tap_ok(open_refused(o, -EINVAL, "hardware"), "no such engine");
	o.engine = "kernel";
	if (access("/dev/o2g", F_OK) && !getenv("SKEP_O2G_ENCRYPT"))
		tap_ok(open_refused(o, -ENOENT, "modprobe o2g"),
		       "the kernel engine without its module");
	o = bed_options();
	o.size = 4000;
	tap_ok(open_refused(o, -EINVAL, "size"), "options of a later library");
	TAP(refused_environment("SKEP_O2G_NAP_US", "-1"));
	TAP(refused_environment("SKEP_O2G_CREDIT", "12x"));
	TAP(refused_environment("SKEP_O2G_UNEXPECTED", "1"));
	TAP(refused_environment("SKEP_O2G_OPERATIONS", "99999999999999999999"));
}

/* Two endpoints on two ports, below those that the kernel gives out; others
 * who run this test may have the first pairs. The even port of the pair. */
static int open_pair(struct o2g **one, struct o2g **two)
{
	const int first = 20000 + getpid() % 5000 * 2;

	for (int port = first; port < first + 100; port += 2) {
		char ports[32];

		snprintf(ports, sizeof(ports), "%d-%d", port, port + 1);
		setenv("SKEP_O2G_PORTS", ports, 1);
		if (o2g_open(one, 0))
			continue;
		if (!o2g_open(two, 0))
			return port;
		o2g_close(*one, 0);
	}
	bed_die("no two free ports");
	return 0;
}

static void test_environment(void)
{
	struct o2g_options o = {.size = sizeof(o)};
	uint8_t name[O2G_NAME_SIZE];
	struct o2g *o2g, *second;
	int port;

	setenv("SKEP_O2G_SECRET", BED_SECRET, 1);
	setenv("SKEP_O2G_IFACE", "127.0.0.0/8", 1);
	setenv("SKEP_O2G_CREDIT", "64K", 1);
	port = open_pair(&o2g, &second);
	TAP(o2g_name(o2g, name) == 0);
	tap_ok(name[0] == 4 && name[8] == 127 &&
		       (name[2] | name[3] << 8) / 2 == port / 2,
	       "the environment gives network and ports");
	tap_ok(open_refused(o, -EADDRINUSE, "SKEP_O2G_PORTS"),
	       "all ports in use");
	TAP(o2g_close(o2g, 0) == 0);
	TAP(o2g_close(second, 0) == 0);
	unsetenv("SKEP_O2G_SECRET");
	unsetenv("SKEP_O2G_IFACE");
	unsetenv("SKEP_O2G_CREDIT");
	unsetenv("SKEP_O2G_PORTS");
}

static void test_inet6(void)
{
	struct o2g_options o = bed_options();
	struct o2g *a, *b;

	o.interface = "::1";
	if (o2g_open(&a, &o)) {
		tap_skip("over IPv6", "this host has no ::1");
		return;
	}
	TAP(o2g_open(&b, &o) == 0);
	tap_ok(bed_transfer(a, b), "messages over IPv6");
	TAP(o2g_close(a, 1000) == 0 && o2g_close(b, 1000) == 0);
}

/* The fewer the better: MPI-IO with 4 ranks runs with 32, as over tcp. */
static void test_files(void)
{
	int before = bed_count_descriptors();
	struct o2g *a = bed_open();
	int expected = strcmp(o2g_engine_name(a), "user") ? 5 : 6;

	tap_ok(bed_count_descriptors() - before <= expected,
	       "an endpoint has at most %d descriptors", expected);
	TAP(o2g_close(a, 100) == 0);
}

/* pthread_join returns a moment before the kernel removes the thread. So a
 * count may contain a thread that has ended, the one before a test as well:
 * fewer than before is no fault. */
static int await_threads(int most)
{
	int count = 0;

	for (int ms = 0; ms < BED_WAIT; ms++) {
		count = bed_count_entries("/proc/self/task");
		if (count <= most)
			break;
		poll(NULL, 0, 1);
	}
	return count;
}

static void test_leaks(void)
{
	int files = bed_count_descriptors(),
	    threads = bed_count_entries("/proc/self/task");
	int bad = 0;

	for (int i = 0; i < 220; i++) {
		struct o2g *a = bed_open(), *b = bed_open();

		bad += !bed_transfer(a, b);
		/* Both in any case, and however slow: none may be left. */
		bad += !!o2g_close(a, BED_WAIT) + !!o2g_close(b, BED_WAIT);
	}
	tap_ok(bad == 0, "200 times opened, used and closed");
	tap_ok(bed_count_descriptors() == files, "no descriptor is left");
	tap_ok(await_threads(threads) <= threads, "no thread is left");
}

/* Standard error goes to a file until it is read: how often it has a word.
 * Endpoints that are opened meanwhile write to it. */
static FILE *begin_errors(int *was)
{
	FILE *errors = tmpfile();

	*was = dup(STDERR_FILENO);
	dup2(fileno(errors), STDERR_FILENO);
	setenv("SKEP_O2G_LOG", "1", 1);
	return errors;
}

static char said[8192]; /* until its end */

static int end_errors(FILE *errors, int was, const char *word)
{
	char line[600];
	int n = 0;

	dup2(was, STDERR_FILENO);
	close(was);
	setenv("SKEP_O2G_LOG", "0", 1);
	rewind(errors);
	said[fread(said, 1, sizeof(said) - 1, errors)] = 0;
	rewind(errors);
	while (fgets(line, sizeof(line), errors)) {
		printf("# %s", line);
		n += !!strstr(line, word);
	}
	fclose(errors);
	return n;
}

/* Too few descriptors: to open, to dial, to accept. */
static void test_limits(void)
{
	struct o2g_options o = bed_options();
	int n = 0, was;
	FILE *errors = begin_errors(&was);
	struct o2g *a = bed_open(), *b = bed_open(), *c, *hasty;
	struct rlimit old, tight;
	static int spare[1024];
	char in[2] = "";

	o.connect_ms = 200;
	TAP(o2g_open(&hasty, &o) == 0);
	getrlimit(RLIMIT_NOFILE, &old);
	tight = old;
	tight.rlim_cur = (rlim_t)bed_count_descriptors() + 10;
	setrlimit(RLIMIT_NOFILE, &tight);
	while ((spare[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	tap_ok(o2g_open(&c, &o) == -EMFILE && strstr(o2g_error(), "ulimit"),
	       "no descriptor left to open: %s", o2g_error());
	bed_send(hasty, bed_peer(hasty, b), 1, "x", 1);
	tap_ok(bed_event(hasty).status == -EMFILE,
	       "without descriptors a connection attempt ends at its timeout");
	bed_recv(b, O2G_ANY, 1, in, 1);
	bed_send(a, bed_peer(a, b), 1, "y", 1);
	tap_ok(o2g_wait(a, &(struct o2g_event){0}, 1, 300) == 0,
	       "the peer is not lost while descriptors are missing");
	close(spare[--n]);
	/* one to dial with, none to accept with */
	TAP(o2g_wait(a, &(struct o2g_event){0}, 1, 300) == 0);
	close(spare[--n]);
	tap_ok(bed_event(a).status == 0 && bed_event(b).status == 0 &&
		       in[0] == 'y',
	       "messages go on when descriptors are free");
	while (n > 0)
		close(spare[--n]);
	setrlimit(RLIMIT_NOFILE, &old);
	TAP(o2g_close(a, 100) == 0);
	TAP(o2g_close(b, 100) == 0);
	TAP(o2g_close(hasty, 100) == 0);
	n = end_errors(errors, was, "trying again: Too many open files; raise");
	/* b may have slept while it had none */
	TAP(strstr(said, "peer 0 at ") && strstr(said, "files: raise `ulim"));
	tap_ok(n == 2 || n == 3,
	       "each endpoint logs the lack of descriptors once");
}

/* A name that leads to this port of this host. */
static void name_port(uint8_t name[O2G_NAME_SIZE], uint16_t port)
{
	memset(name, 0, O2G_NAME_SIZE);
	name[0] = 4;
	name[2] = (uint8_t)port;
	name[3] = (uint8_t)(port >> 8);
	name[8] = 127;
	name[11] = 1;
	name[24] = 1;
}

/* How much is logged is read when an endpoint opens: its thread must not read
 * the environment while the program changes it. */
static void test_logs(void)
{
	struct o2g_options o = bed_options();
	uint8_t name[O2G_NAME_SIZE];
	FILE *errors;
	struct o2g *a;
	uint32_t peer;
	int was;

	name_port(name, 9);
	o.connect_ms = 100;
	errors = begin_errors(&was);
	TAP(o2g_open(&a, &o) == 0 && o2g_peer(a, name, &peer) == 0);
	setenv("SKEP_O2G_LOG", "0", 1);
	bed_send(a, peer, 1, "x", 1);
	TAP(bed_event(a).status < 0);
	tap_ok(end_errors(errors, was, "can't reach peer") == 1,
	       "an endpoint keeps the log level of its opening");
	TAP(o2g_close(a, 0) == 0);
}

static void test_descriptor(void)
{
	struct o2g *a = bed_open(), *b = bed_open();
	struct pollfd file = {.fd = o2g_descriptor(b), .events = POLLIN};
	struct o2g_event event;
	char in[5];

	TAP(poll(&file, 1, 50) == 0);
	bed_recv(b, O2G_ANY, 1, in, sizeof(in));
	bed_send(a, bed_peer(a, b), 1, "abcd", 5);
	tap_ok(poll(&file, 1, BED_WAIT) == 1,
	       "the descriptor is readable once there is an event");
	TAP(o2g_poll(b, &event, 1) == 1 && event.status == 0);
	TAP(o2g_poll(b, &event, 1) == 0);
	tap_ok(poll(&file, 1, 50) == 0,
	       "the descriptor is not readable after its last event");
	TAP(bed_event(a).status == 0);
	TAP(o2g_close(a, 1000) == 0 && o2g_close(b, 1000) == 0);
}

static struct o2g *sleeper;

static void wake_and_poll(void)
{
	struct o2g_event event;

	o2g_wake(sleeper);
	o2g_poll(sleeper, &event, 1);
}

static void wake_and_nap(void)
{
	int before = sleeps;

	o2g_wake(sleeper);
	for (int i = 0; i < 1000000 && sleeps == before; i++)
		o2g_nap(sleeper);
}

/* Who takes a wake-up that was meant for another passes it on. */
static void test_wakes(void)
{
	struct o2g_event event;
	int before;

	sleeper = bed_open();
	amid = wake_and_nap;
	before = sleeps;
	TAP(o2g_wait(sleeper, &event, 1, BED_WAIT) == -EINTR);
	tap_ok(slept > 0 && sleeps - before == 2,
	       "a nap does not swallow a wake-up");
	TAP(o2g_descriptor(sleeper) >= 0);
	amid = wake_and_poll;
	TAP(o2g_wait(sleeper, &event, 1, BED_WAIT) == -EINTR);
	tap_ok(slept > 0, "a poll does not swallow a wake-up");
	TAP(o2g_wake(sleeper) == 0);
	TAP(o2g_wait(sleeper, &event, 1, BED_WAIT) == -EINTR);
	tap_ok(o2g_wait(sleeper, &event, 1, 10) == 0,
	       "one wake-up ends one wait");
	TAP(o2g_close(sleeper, 0) == 0);
}

static void send_two(void)
{
	static char in[2];
	uint32_t self = bed_peer(sleeper, sleeper);

	for (int i = 0; i < 2; i++) {
		bed_recv(sleeper, self, 1, &in[i], 1);
		bed_send(sleeper, self, 1, "x", 1);
	}
}

/* Events that come while the descriptor is made calm, more than are taken. */
static void test_leftovers(void)
{
	struct pollfd file = {.events = POLLIN};
	struct o2g_event event;

	sleeper = bed_open();
	file.fd = o2g_descriptor(sleeper);
	TAP(o2g_wake(sleeper) == 0); /* there is something to make calm */
	amid_calm = send_two;
	TAP(o2g_poll(sleeper, &event, 1) == 1 && event.status == 0);
	tap_ok(poll(&file, 1, BED_WAIT) == 1,
	       "the descriptor is readable while events are left");
	for (int i = 0; i < 3; i++)
		TAP(bed_event(sleeper).status == 0);
	TAP(o2g_close(sleeper, 0) == 0);
}

/* Operations are bounded; events make room. */
static void test_operations(void)
{
	struct o2g_options o = bed_options();
	static char in[200][8];
	struct o2g_match any = {.peer = O2G_ANY};
	struct o2g *a;
	int n = 0, r = 0, cancelled = 0;

	o.operations = 100;
	TAP(o2g_open(&a, &o) == 0);
	while (n < 200 && r == 0) {
		r = o2g_recv(a, &any, in[n], 8, 0, 0, in[n]);
		n += r == 0;
	}
	tap_ok(n == 100 && r == -EAGAIN,
	       "the limit of 100 operations is enforced");
	for (int i = 0; i < n; i++)
		cancelled += o2g_cancel(a, in[i]) == 0 &&
			     bed_event(a).status == -ECANCELED;
	TAP(cancelled == 100);
	TAP(o2g_recv(a, &any, in[0], 8, 0, 0, in[0]) == 0);
	TAP(o2g_close(a, 0) == 0);
}

/* ---- what an endpoint shows, and reports ---- */

/* The page of this process in a folder, 0 for none. */
static const struct o2g_status *find_page(const char *folder)
{
	void *memory = MAP_FAILED;
	struct dirent *entry;
	char path[400];
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "%s/skep-o2g", folder);
	dir = opendir(path);
	while (dir && memory == MAP_FAILED && (entry = readdir(dir))) {
		if (atoi(entry->d_name) != getpid())
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		memory = mmap(0, sizeof(struct o2g_status), PROT_READ,
			      MAP_SHARED, fd, 0);
		close(fd);
	}
	if (dir)
		closedir(dir);
	return memory == MAP_FAILED ? 0 : memory;
}

static void test_shows(void)
{
	char folder[] = "/tmp/o2g-life-XXXXXX";
	char path[100], stale[100], distant[100];
	const struct o2g_status *s;
	struct stat st = {0};
	uint8_t name[O2G_NAME_SIZE];
	struct o2g *a;
	int far;

	if (!mkdtemp(folder))
		bed_die("mkdtemp");
	snprintf(path, sizeof(path), "%s/skep-o2g", folder);
	snprintf(stale, sizeof(stale), "%s/skep-o2g/4194000-1", folder);
	mkdir(path, 0700);
	close(open(stale, O_CREAT | O_CLOEXEC, 0600));
	/* no process of ours has that number, yet somebody holds it */
	snprintf(distant, sizeof(distant), "%s/skep-o2g/4194001-1", folder);
	far = open(distant, O_CREAT | O_CLOEXEC, 0600);
	TAP(flock(far, LOCK_EX) == 0);
	setenv("XDG_RUNTIME_DIR", folder, 1);
	a = bed_open();
	s = find_page(folder);
	TAP(s && s->magic == O2G_STATUS_MAGIC && s->pid == (u32)getpid());
	TAP(s && strcmp((const char *)s->engine, o2g_engine_name(a)) == 0 &&
	    strstr((const char *)s->program, "life"));
	TAP(s && o2g_name(a, name) == 0 && !memcmp(s->name, name, 40));
	tap_ok(access(stale, F_OK) < 0, "a dead process' page is removed");
	tap_ok(access(distant, F_OK) == 0,
	       "a page of a live process in another pid namespace stays");
	close(far);
	TAP(bed_transfer(a, a));
	for (int i = 0; s && i < 5000; i++) {
		if (__atomic_load_n(&s->sent, __ATOMIC_RELAXED) == 1)
			break;
		usleep(1000);
	}
	tap_ok(s && s->sent == 1 && s->received_bytes == 5 && s->named == 1,
	       "the page shows what was sent while no call is made");
	munmap((void *)s, sizeof(*s));
	TAP(o2g_close(a, 100) == 0);
	tap_ok(!find_page(folder), "the page is removed with its endpoint");
	chmod(path, 0755);
	TAP(unlink(distant) == 0);
	a = bed_open();
	tap_ok(!find_page(folder),
	       "a folder that others may enter is not used");
	TAP(o2g_close(a, 100) == 0);
	TAP(stat(path, &st) == 0 && rmdir(path) == 0 && rmdir(folder) == 0);
	unsetenv("XDG_RUNTIME_DIR");
}

/* The library's getsockopt(): as if each connection had sent some segments
 * again. */
#define RESENT 7
static int resending;

int getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
	int r = (int)syscall(SYS_getsockopt, fd, level, option, value, size);

	if (resending && level == IPPROTO_TCP && option == TCP_INFO)
		((struct tcp_info *)value)->tcpi_total_retrans = RESENT;
	return r;
}

/* Also those of a connection that has ended. */
static void test_links(void)
{
	char folder[] = "/tmp/o2g-life-XXXXXX", path[100];
	const struct o2g_status *s;
	struct o2g *a, *b;
	u32 links = 0;
	u64 resent = 0;

	if (!mkdtemp(folder))
		bed_die("mkdtemp");
	setenv("XDG_RUNTIME_DIR", folder, 1);
	resending = 1;
	a = bed_open();
	s = find_page(folder);
	b = bed_open();
	TAP(s && s->known == !strcmp(o2g_engine_name(a), "user"));
	TAP(bed_transfer(a, b) && bed_transfer(b, a));
	for (int i = 0; s && s->known && i < BED_WAIT && links != 1; i++) {
		usleep(1000);
		(void)bed_transfer(a, b); /* it is shown while it moves */
		links = __atomic_load_n(&s->links, __ATOMIC_RELAXED);
	}
	tap_ok(s && (!s->known || (links == 1 && s->resent == RESENT)),
	       "the page counts connections and segments sent again");
	TAP(o2g_close(b, 1000) == 0);
	__atomic_store_n(&hurried, 1, __ATOMIC_RELAXED);
	for (int i = 0; s && s->known && i < BED_WAIT && links != 0; i++) {
		usleep(1000);
		(void)bed_transfer(a, a);
		links = __atomic_load_n(&s->links, __ATOMIC_RELAXED);
		resent = s->resent;
	}
	__atomic_store_n(&hurried, 0, __ATOMIC_RELAXED);
	tap_ok(s && (!s->known || (links == 0 && resent == RESENT)),
	       "also those of a connection that has ended");
	munmap((void *)s, sizeof(*s));
	TAP(o2g_close(a, 100) == 0);
	resending = 0;
	snprintf(path, sizeof(path), "%s/skep-o2g", folder);
	TAP(rmdir(path) == 0 && rmdir(folder) == 0);
	unsetenv("XDG_RUNTIME_DIR");
}

static int report_authentic(const struct o2g_report *r)
{
	struct o2g_hmac hmac;
	u8 secret[32], mac[32];

	for (u8 i = 0; i < 32; i++)
		secret[i] = i;
	o2g_hmac_init(&hmac, secret, sizeof(secret));
	o2g_hmac_update(&hmac, "o2g report", 10);
	o2g_hmac_update(&hmac, r, sizeof(*r) - sizeof(r->mac));
	o2g_hmac_final(&hmac, mac);
	return !memcmp(mac, r->mac, sizeof(mac));
}

static void *run_launcher(void *arg)
{
	static struct o2g_report r;
	int fd = accept(*(int *)arg, 0, 0);

	if (recv(fd, &r, sizeof(r), MSG_WAITALL) != sizeof(r))
		memset(&r, 0, sizeof(r));
	close(fd);
	return &r;
}

/* The library's poll(): while `interrupted` is above 0 a signal comes first. */
static int interrupted;

int poll(struct pollfd *file, nfds_t count, int ms)
{
	struct timespec limit = {.tv_sec = ms / 1000,
				 .tv_nsec = ms % 1000 * 1000000l};

	if (__atomic_load_n(&interrupted, __ATOMIC_RELAXED) > 0) {
		__atomic_sub_fetch(&interrupted, 1, __ATOMIC_RELAXED);
		errno = EINTR;
		return -1;
	}
	return ppoll(file, count, ms < 0 ? 0 : &limit, 0);
}

/* Where reports of this process and its children go from here on. */
static int listen_for_reports(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char where[40];

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 5) ||
	    getsockname(fd, (struct sockaddr *)&at, &length))
		bed_die("listen");
	snprintf(where, sizeof(where), "127.0.0.1:%d", ntohs(at.sin_port));
	setenv("SKEP_O2G_REPORT", where, 1);
	return fd;
}

static void test_reports(void)
{
	int fd = listen_for_reports();
	struct o2g_report *r = 0;
	uint8_t name[O2G_NAME_SIZE];
	pthread_t thread;
	struct o2g *a;

	pthread_create(&thread, 0, run_launcher, &fd);
	a = bed_open();
	TAP(bed_transfer(a, a) && o2g_name(a, name) == 0);
	TAP(o2g_close(a, 100) == 0);
	pthread_join(thread, (void **)&r);
	tap_ok(r->magic == O2G_REPORT_MAGIC && r->sent == 1 && r->self == 1 &&
		       r->received_bytes == 5 && r->pid == (u32)getpid() &&
		       !memcmp(r->id, name + 24, 16),
	       "the launcher gets a report of what was sent");
	tap_ok(report_authentic(r),
	       "the report is authenticated by the job's secret");
	r->sent = 0;
	pthread_create(&thread, 0, run_launcher, &fd);
	a = bed_open();
	TAP(bed_transfer(a, a));
	interrupted = 20;
	TAP(o2g_close(a, 100) == 0);
	shutdown(fd, SHUT_RD); /* nobody came: accept() ends */
	pthread_join(thread, (void **)&r);
	tap_ok(r->sent == 1 && interrupted == 0,
	       "signals during the report do not lose it");
	/* it listens, and never takes what comes; then it is gone */
	a = bed_open();
	TAP(o2g_close(a, 100) == 0);
	close(fd);
	a = bed_open();
	TAP(o2g_close(a, 100) == 0);
	unsetenv("SKEP_O2G_REPORT");
}

/* ---- closing before all was sent ---- */

/* o2g_close() waits for its openings here. */
static int closing;

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
			   const struct timespec *limit)
{
	__atomic_store_n(&closing, 1, __ATOMIC_RELAXED);
	return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, limit);
}

/* Answers with garbage once the endpoint that dialled it is being closed. */
static void *run_refuser(void *arg)
{
	static const char junk[200];
	int fd = accept(*(int *)arg, 0, 0);

	while (!__atomic_load_n(&closing, __ATOMIC_RELAXED))
		usleep(1000);
	TAP(send(fd, junk, sizeof(junk), MSG_NOSIGNAL) == sizeof(junk));
	close(fd);
	return 0;
}

/* Closes an endpoint whose only message is for who listens there. */
static int close_dialling(int listener, int linger_ms)
{
	struct sockaddr_in at;
	socklen_t length = sizeof(at);
	struct o2g_options o = bed_options();
	struct o2g_match to = {.context = 1};
	uint8_t name[O2G_NAME_SIZE];
	struct o2g *a;

	o.connect_ms = 600000;
	if (getsockname(listener, (struct sockaddr *)&at, &length))
		bed_die("getsockname");
	name_port(name, ntohs(at.sin_port));
	if (o2g_open(&a, &o) || o2g_peer(a, name, &to.peer) ||
	    o2g_send(a, &to, "x", 1, 0, O2G_COPY | O2G_QUIET, 0))
		bed_die("send");
	return o2g_close(a, linger_ms);
}

static void test_unsent(void)
{
	int fd = listen_for_reports();
	pthread_t thread;

	unsetenv("SKEP_O2G_REPORT");
	tap_ok(close_dialling(fd, 50) == -ETIMEDOUT,
	       "closing during a connection attempt: %s", o2g_error());
	close(accept(fd, 0, 0));
	closing = 0;
	pthread_create(&thread, 0, run_refuser, &fd);
	tap_ok(close_dialling(fd, BED_WAIT) == -ETIMEDOUT,
	       "a peer that is lost while it closes: %s", o2g_error());
	pthread_join(thread, 0);
	close(fd);
}

/* Ends without closing its endpoints, maybe inside a call of the library. */
static pid_t leave_child(const char *folder, int inside)
{
	struct o2g *a, *b;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	alarm(60); /* a hang is another status */
	a = bed_open();
	if (!inside)
		exit(bed_transfer(a, a) && find_page(folder) ? 0 : 1);
	b = bed_open();
	if (!bed_transfer(a, b))
		exit(1);
	__atomic_store_n(&exits, 1, __ATOMIC_RELAXED);
	(void)bed_transfer(a, b);
	exit(2);
}

static void test_leaves(void)
{
	char folder[] = "/tmp/o2g-life-XXXXXX", path[100];
	int status = -1, fd = listen_for_reports();
	struct o2g_report *r = 0;
	pthread_t thread;
	pid_t pid;

	if (!mkdtemp(folder))
		bed_die("mkdtemp");
	setenv("XDG_RUNTIME_DIR", folder, 1);
	pid = leave_child(folder, 0);
	pthread_create(&thread, 0, run_launcher, &fd);
	TAP(waitpid(pid, &status, 0) == pid && status == 0);
	shutdown(fd, SHUT_RD); /* nobody came: accept() ends */
	pthread_join(thread, (void **)&r);
	tap_ok(r->pid == (u32)pid && r->sent == 1 && report_authentic(r),
	       "a process that exits without closing reports");
	snprintf(path, sizeof(path), "%s/skep-o2g", folder);
	tap_ok(rmdir(path) == 0,
	       "a process that exits without closing leaves no page");
	close(fd);
	pid = leave_child(folder, 1);
	TAP(waitpid(pid, &status, 0) == pid);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 3,
	       "exit() during a call of the library ends the process");
	TAP(rmdir(path) == 0 && rmdir(folder) == 0);
	unsetenv("XDG_RUNTIME_DIR");
	unsetenv("SKEP_O2G_REPORT");
}

int main(void)
{
	setenv("SKEP_O2G_LOG", "0", 1);
	test_options();
	test_environment();
	test_inet6();
	test_descriptor();
	test_wakes();
	test_leftovers();
	test_operations();
	test_shows();
	test_links();
	test_reports();
	test_unsent();
	test_leaves();
	test_logs();
	test_limits();
	test_files();
	test_leaks();
	return tap_done();
}
