/* SPDX-License-Identifier: MIT */
/*
 * A program that has one thing that a snapshot must keep or refuse, waits until
 * the file `go` exists, and then says whether it is unharmed. usage: held WHAT
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "await.h"

static int open_file(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, "0123456789", 10) != 10)
		report_wrong(name);
	return fd;
}

/* Removed when the last process detaches it. */
static void attach_segment(void)
{
	int id = shmget(IPC_PRIVATE, 4096, 0600);

	shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
}

/* Of a file with 10 bytes. */
static char *map_beyond(void)
{
	return mmap(NULL, 8192, 1, MAP_PRIVATE, open_file("short"), 0);
}

static void take_thing(const char *what)
{
	int fd[2];

	if (!strcmp(what, "socket"))
		socket(AF_INET, SOCK_STREAM, 0);
	else if (!strcmp(what, "pair"))
		socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
	else if (!strcmp(what, "eventfd")) {
		eventfd(0, 0);
		if (!fork())
			_exit(0);
		wait(NULL);
	} else if (!strcmp(what, "inotify"))
		inotify_init();
	else if (!strcmp(what, "shared"))
		mmap(NULL, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	else if (!strcmp(what, "mapped"))
		mmap(NULL, 4096, 3, MAP_SHARED, open_file("mapped"), 0);
	else if (!strcmp(what, "sysv"))
		attach_segment();
	else if (!strcmp(what, "flock"))
		flock(open_file("locked"), LOCK_EX);
	else if (!strcmp(what, "lock")) {
		struct flock lock = {.l_type = F_WRLCK};

		fcntl(open_file("locked"), F_SETLK, &lock);
	} else if (!strcmp(what, "linked")) {
		open_file("linked");
		if (link("linked", "other") || unlink("linked"))
			report_wrong("link");
	} else if (!strcmp(what, "listing"))
		readdir(opendir("."));
	else if (!strcmp(what, "beyond"))
		map_beyond();
	else if (!strcmp(what, "proc"))
		open("/proc/self/maps", O_RDONLY);
	else if (!strcmp(what, "code")) {
		char *p =
			mmap(NULL, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		*p = (char)0xc3;
		mprotect(p, 4096, PROT_READ | PROT_EXEC);
	} else
		report_wrong("no such thing");
}

/* The rest: what must go on as it was ---------------------------------------
 */

static long long read_cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Number and clocks, also after execve, and a child's parent. */
static void check_self(char **argv)
{
	long long past = read_clock(), used;
	char pid[32], time[32], spent[32];
	int status = 0, child;

	/* more than a restored bee needs itself */
	while ((used = read_cpu()) < 400000000)
		;
	/* the test restores it 4 seconds after it was saved */
	if (await_go() > 3000000000ll || read_clock() < past)
		report_wrong("monotonic time");
	if (read_cpu() < used)
		report_wrong("CPU time");
	snprintf(pid, sizeof(pid), "%d", getpid());
	child = fork();
	if (!child)
		_exit(getppid() == atoi(pid) && read_cpu() < 1000000000 ? 0
									: 1);
	if (waitpid(child, &status, 0) != child || status)
		report_wrong("a child's parent, or its clock");
	snprintf(time, sizeof(time), "%lld", read_clock());
	snprintf(spent, sizeof(spent), "%lld", read_cpu());
	execl(argv[0], argv[0], "again", pid, time, spent, NULL);
	report_wrong("execl");
}

static void check_again(char **argv)
{
	if (getpid() != atoi(argv[2]))
		report_wrong("process number");
	if (read_clock() < atoll(argv[3]) ||
	    read_clock() > atoll(argv[3]) + 60000000000ll)
		report_wrong("monotonic time");
	if (read_cpu() < atoll(argv[4]))
		report_wrong("CPU time");
}

/* Pending and blocked signals, one with a value; the mask; what is ignored. */
static void check_signals(void)
{
	union sigval value = {.sival_int = 77};
	struct timespec at_once = {0, 0};
	sigset_t set, got;
	siginfo_t info;
	int i;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	raise(SIGUSR1);
	for (i = 0; i < 3; i++) {
		value.sival_int = 77 + i;
		sigqueue(getpid(), SIGRTMIN + 3, value);
	}
	await_go();
	sigprocmask(SIG_BLOCK, NULL, &got);
	if (sigismember(&got, SIGUSR1) != 1 || sigismember(&got, SIGINT))
		report_wrong("mask");
	if (sigtimedwait(&set, &info, &at_once) != SIGUSR1)
		report_wrong("pending signal");
	for (i = 0; i < 3; i++)
		if (sigtimedwait(&set, &info, &at_once) != SIGRTMIN + 3 ||
		    info.si_value.sival_int != 77 + i)
			report_wrong("queued signals");
	if (sigtimedwait(&set, &info, &at_once) != -1)
		report_wrong("one signal too many");
	raise(SIGHUP);
	if (!fork())
		_exit(0);
	if (wait(NULL) != -1 || errno != ECHILD)
		report_wrong("children that end unseen");
}

/* Positions, flags, shared descriptions, a folder, limits, a full pipe. */
static void check_files(void)
{
	int a = open_file("a"), b = dup(a), dir = open(".", O_DIRECTORY), p[2];
	struct rlimit limit = {500, 600};
	char text[70000], back[70000];
	int null = open("/dev/null", O_WRONLY), c = open("a", O_RDONLY);
	struct stat st;

	memset(text, 'x', sizeof(text));
	fcntl(b, F_SETFD, FD_CLOEXEC);
	lseek(a, 3, SEEK_SET);
	lseek(c, 5, SEEK_SET);
	setrlimit(RLIMIT_NOFILE, &limit);
	umask(031);
	if (pipe(p) || fcntl(p[1], F_SETPIPE_SZ, 131072) < 0 ||
	    write(p[1], text, sizeof(text)) != sizeof(text))
		report_wrong("pipe");
	await_go();
	if (read(b, back, 2) != 2 || memcmp(back, "34", 2) ||
	    lseek(a, 0, SEEK_CUR) != 5 || read(c, back, 1) != 1 || *back != '5')
		report_wrong("positions");
	if (fcntl(b, F_GETFD) != FD_CLOEXEC || fcntl(a, F_GETFD) ||
	    write(c, "", 1) != -1 || write(null, "", 1) != 1)
		report_wrong("flags");
	if (fstatat(dir, "a", &st, 0) || st.st_size != 10)
		report_wrong("folder");
	if (read(p[0], back, sizeof(back)) != sizeof(back) ||
	    memcmp(text, back, sizeof(text)) ||
	    fcntl(p[0], F_GETPIPE_SZ) != 131072)
		report_wrong("pipe");
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur != 500 || umask(0) != 031)
		report_wrong("limits");
}

static void add_entry(int epoll, int fd, unsigned events,
		      unsigned long long data)
{
	struct epoll_event e = {.events = events, .data.u64 = data};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e))
		report_wrong("epoll_ctl");
}

/* The next event, or 0: there is none. */
static unsigned long long next_event(int epoll)
{
	struct epoll_event e;

	return epoll_wait(epoll, &e, 1, 0) == 1 ? e.data.u64 : 0;
}

static void *wait_event(void *arg)
{
	static struct epoll_event e;

	return epoll_wait(*(int *)arg, &e, 1, -1) == 1 ? &e : NULL;
}

/* Counters; entries of each kind; a list in a list; a thread that waits. */
static void check_events(void)
{
	int many = eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK), p[2];
	int one = eventfd(40, EFD_NONBLOCK | EFD_CLOEXEC);
	int outer = epoll_create1(EPOLL_CLOEXEC), inner = epoll_create1(0);
	int quiet = epoll_create1(0), bell = eventfd(0, 0);
	unsigned long long value;
	struct epoll_event *got;
	pthread_t thread;
	void *result;

	add_entry(outer, inner, EPOLLIN, 5);
	add_entry(inner, dup(many), EPOLLIN, 1ull << 63 | 6);
	add_entry(quiet, one, EPOLLIN | EPOLLONESHOT, 7);
	if (pipe(p) || next_event(quiet) != 7)
		report_wrong("an event that is there");
	add_entry(quiet, p[0], EPOLLIN | EPOLLET, 8);
	add_entry(quiet, bell, EPOLLIN, 9);
	pthread_create(&thread, NULL, wait_event, &quiet);
	await_go();
	if (next_event(outer) != 5 || next_event(inner) != (1ull << 63 | 6))
		report_wrong("a list in a list");
	if (write(p[1], "x", 1) != 1 || pthread_join(thread, &result))
		report_wrong("pipe");
	got = result;
	if (!got || got->data.u64 != 8 || read(p[0], &value, 1) != 1 ||
	    next_event(quiet))
		report_wrong("a waiting thread, an edge, or one shot");
	if (read(many, &value, 8) != 8 || value != 1 ||
	    read(one, &value, 8) != 8 || value != 40 ||
	    read(one, &value, 8) != -1)
		report_wrong("counters");
	if (fcntl(one, F_GETFD) != FD_CLOEXEC || fcntl(inner, F_GETFD) ||
	    epoll_ctl(quiet, EPOLL_CTL_DEL, bell, NULL) ||
	    epoll_ctl(quiet, EPOLL_CTL_DEL, bell, NULL) != -1)
		report_wrong("flags, or what can be removed");
}

/* As the dynamic loader: a mapping that is too long for a moment. */
static void check_loading(void)
{
	char *p = map_beyond();

	say_ready();
	usleep(100000);
	munmap(p, 8192);
	await_go();
}

static int start_timer(long first_ns, long next_ns)
{
	struct itimerspec t = {{0, next_ns}, {0, first_ns}};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

	if (fd < 0 || timerfd_settime(fd, 0, &t, NULL))
		report_wrong("timerfd");
	return fd;
}

static void await_ready(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, 20000) != 1)
		report_wrong("an event that does not come");
}

/* Expirations that were not read, a timer that goes on, one that is off; a
 * signal that waits, and a set of signals. */
/* Most of the time it lists a folder, but not for long. */
static void check_listing(void)
{
	const struct timespec list = {0, 200000000}, rest = {0, 20000000};
	DIR *dir;

	say_ready();
	while (access("go", F_OK)) {
		dir = opendir(".");
		if (!dir || !readdir(dir))
			report_wrong("a folder");
		nanosleep(&list, NULL);
		closedir(dir);
		nanosleep(&rest, NULL);
	}
}

static void check_timers(void)
{
	int once = start_timer(1, 0), many = start_timer(1, 50000000);
	int off = start_timer(0, 0), fd;
	struct signalfd_siginfo info = {0};
	struct itimerspec t;
	unsigned long long n;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	raise(SIGUSR2);
	await_ready(once);
	await_go();
	if (read(once, &n, 8) != 8 || n != 1 || read(once, &n, 8) != -1)
		report_wrong("expirations");
	if (timerfd_gettime(many, &t) || t.it_interval.tv_nsec != 50000000 ||
	    !t.it_value.tv_nsec || read(many, &n, 8) != 8)
		report_wrong("a timer that goes on");
	await_ready(many);
	if (timerfd_gettime(off, &t) || t.it_value.tv_nsec ||
	    read(off, &n, 8) != -1)
		report_wrong("a timer that is off");
	if (read(fd, &info, sizeof(info)) != sizeof(info) ||
	    info.ssi_signo != SIGUSR2 || read(fd, &info, sizeof(info)) != -1)
		report_wrong("a signal that waits");
	raise(SIGUSR2);
	await_ready(fd);
}

/* Memory of each protection; `size` MiB without zeros. few: it is restored
 * before it goes on, and that is none of its CPU time. */
static void check_memory(int size, int few)
{
	size_t len = (size_t)size << 20, i;
	unsigned *p = mmap(NULL, len, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *none = mmap(NULL, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *file = mmap(NULL, 4096, 3, MAP_PRIVATE, open_file("m"), 0);
	char *far =
		mmap(NULL, 1ul << 30, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long long used;
	unsigned x = 1;

	for (i = 0; i < len / 4; i++)
		p[i] = x = x * 1664525 + 1013904223;
	none[4100] = 9;
	mprotect(none, 8192, PROT_NONE);
	file[1] = 'y';
	far[700000000] = 1;
	used = read_cpu();
	await_go();
	if (few && read_cpu() - used > 80000000) /* restoring 64 MB is more */
		report_wrong("CPU time");
	mprotect(none, 8192, PROT_READ);
	if (none[4100] != 9 || none[1] || memcmp(file, "0y2", 3) ||
	    far[700000000] != 1 || far[800000000])
		report_wrong("memory");
	for (i = 0, x = 1; i < len / 4; i++)
		if (p[i] != (x = x * 1664525 + 1013904223))
			report_wrong("large memory");
}

/* Pages that change until the end: written, filled with zeros, given back to
 * the system, mapped anew elsewhere. */
#define BUSY 2048
static unsigned busy_last[BUSY], busy_end[BUSY]; /* its last word */

static void change_page(char *pages[], unsigned n)
{
	unsigned i = n * 2654435761u % BUSY, k;
	unsigned *word = (unsigned *)pages[i];

	if (n % 5 == 0) {
		((unsigned *)pages[i])[1023] = busy_end[i] = n;
		return;
	}
	busy_last[i] = n % 7 && n % 11 && n % 13 ? n : 0;
	busy_end[i] = busy_last[i] ? n + 1023 : 0;
	if (n % 11 == 0)
		madvise(word, 4096, MADV_DONTNEED);
	if (n % 13 == 0) {
		word = mmap(NULL, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(pages[i], 4096);
		pages[i] = (char *)word;
	}
	for (k = 0; k < 1024 && n % 11 && n % 13; k++)
		word[k] = busy_last[i] ? n + k : 0;
}

/* Memory that is filled and given back as a whole. */
#define BUSY_FAR (4u << 20)
static unsigned *busy_far, far_last;

static void change_far(unsigned n)
{
	unsigned i;

	far_last = far_last ? 0 : n;
	if (!far_last)
		madvise(busy_far, BUSY_FAR, MADV_DONTNEED);
	for (i = 0; i < BUSY_FAR / 4 && far_last; i++)
		busy_far[i] = far_last;
}

static void check_far(void)
{
	unsigned i;

	for (i = 0; i < BUSY_FAR / 4; i++)
		if (busy_far[i] != far_last)
			report_wrong("memory that was given back");
}

static void check_busy(void)
{
	static char *pages[BUSY];
	unsigned i, k, n, *word;
	char *all =
		mmap(NULL, BUSY * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	busy_far = mmap(NULL, BUSY_FAR, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < BUSY; i++)
		pages[i] = all + i * 4096;
	for (n = 1; n < BUSY * 8; n++)
		change_page(pages, n);
	say_ready();
	for (; access("go", F_OK); n++) {
		change_page(pages, n);
		if (n % 4096 == 0)
			change_far(n);
	}
	check_far();
	for (i = 0; i < BUSY; i++)
		for (word = (unsigned *)pages[i], k = 0; k < 1024; k++)
			if (word[k] != (k == 1023      ? busy_end[i]
					: busy_last[i] ? busy_last[i] + k
						       : 0))
				report_wrong("a page is of another moment");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "self")) {
		check_self(argv);
	} else if (!strcmp(what, "again")) {
		check_again(argv);
	} else if (!strcmp(what, "signals")) {
		check_signals();
	} else if (!strcmp(what, "files")) {
		check_files();
	} else if (!strcmp(what, "events")) {
		check_events();
	} else if (!strcmp(what, "timers")) {
		check_timers();
	} else if (!strcmp(what, "loading")) {
		check_loading();
	} else if (!strcmp(what, "listings")) {
		check_listing();
	} else if (!strcmp(what, "memory")) {
		check_memory(argc > 2 ? atoi(argv[2]) : 4, argc > 3);
	} else if (!strcmp(what, "busy")) {
		check_busy();
	} else {
		take_thing(what);
		await_go();
	}
	printf("unharmed\n");
	fflush(stdout);
	_exit(0);
}
