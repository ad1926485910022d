/* SPDX-License-Identifier: MIT */
/*
 * Threads by number: what proc(5) says about each of them, above all whether it
 * waits, and signals to a process by the number of any of its threads.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

#define LIMIT_NS 60000000000ll

static int ends[2];
static sem_t sem;
static unsigned *word; /* in memory that processes share */
static volatile int tid, stop;

static const char *task_file(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
	return path;
}

static int read_file(const char *path, char *text, int size)
{
	int fd = open(path, O_RDONLY), n = -1;

	if (fd >= 0) {
		n = (int)read(fd, text, (size_t)size - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
	return n;
}

static int read_letter(const char *path)
{
	char text[512], *s;

	if (read_file(path, text, sizeof(text)) <= 0)
		return 0;
	s = strrchr(text, ')');
	return s && s[1] == ' ' ? s[2] : 0;
}

/* Whether the letter comes before the limit. */
static int await_letter(const char *path, int want)
{
	long long end = say_now_ns() + LIMIT_NS;

	while (read_letter(path) != want && say_now_ns() < end)
		usleep(1000);
	return read_letter(path) == want;
}

static void *in_read(void *arg)
{
	char c;

	prctl(PR_SET_NAME, "reader) S 1");
	tid = (int)syscall(SYS_gettid);
	CHECK(read(ends[0], &c, 1) == 1 &&
	      read_letter(task_file("stat")) == 'R');
	return arg;
}

static void *in_wait(void *arg)
{
	tid = (int)syscall(SYS_gettid);
	while (sem_wait(&sem))
		;
	return arg;
}

static void *in_shared(void *arg)
{
	tid = (int)syscall(SYS_gettid);
	while (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, word, 0, 0, NULL, NULL, 0);
	CHECK(read_letter(task_file("stat")) == 'R');
	return arg;
}

static void *in_loop(void *arg)
{
	tid = (int)syscall(SYS_gettid);
	while (!stop)
		;
	return arg;
}

/* The first thread waits for this one. */
static void *of_first(void *arg)
{
	CHECK(await_letter("/proc/self/stat", 'S'));
	return arg;
}

static pthread_t start_thread(void *(*run)(void *))
{
	pthread_t t;

	tid = 0;
	CHECK(!pthread_create(&t, NULL, run, NULL));
	while (!tid && run != of_first)
		usleep(1000);
	return t;
}

static int number_of(const char *text, const char *key)
{
	const char *s = strstr(text, key);

	return s ? atoi(s + strlen(key)) : 0;
}

static void check_texts(void)
{
	char text[4096];
	int bad = tid + 100000000;

	CHECK(read_file(task_file("comm"), text, sizeof(text)) > 0);
	CHECK(!strcmp(text, "reader) S 1\n"));
	CHECK(read_file(task_file("status"), text, sizeof(text)) > 0);
	CHECK(!strncmp(text, "Name:\treader) S 1\n", 18));
	CHECK(strstr(text, "\nState:\tS (sleeping)\n") != NULL);
	CHECK(number_of(text, "\nTgid:\t") == getpid());
	CHECK(number_of(text, "\nPid:\t") == tid);
	CHECK(read_file(task_file("stat"), text, sizeof(text)) > 0);
	CHECK(atoi(text) == tid);
	CHECK(!access(task_file("maps"), R_OK));
	CHECK(FAILS(access(task_file("task"), F_OK), ENOENT));
	CHECK(read_file("/proc/self/stat", text, sizeof(text)) > 0);
	CHECK(atoi(text) == getpid() && read_letter("/proc/self/stat") == 'R');
	snprintf(text, sizeof(text), "/proc/self/task/%d/stat", bad);
	CHECK(FAILS(open(text, O_RDONLY), ENOENT));
}

static void check_read(void)
{
	long long end = say_now_ns() + LIMIT_NS;
	char text[512];
	pthread_t t;
	int fd;

	CHECK(!pipe(ends));
	t = start_thread(in_read);
	CHECK(await_letter(task_file("stat"), 'S'));
	check_texts();
	fd = open(task_file("stat"), O_RDONLY);
	CHECK(fd >= 0 && write(ends[1], "x", 1) == 1 && !pthread_join(t, NULL));
	while (pread(fd, text, sizeof(text), 0) > 0 && say_now_ns() < end)
		usleep(1000);
	CHECK(FAILS(pread(fd, text, sizeof(text), 0), ESRCH) && !close(fd));
}

static void check_waits(void)
{
	pthread_t t = start_thread(in_wait);

	CHECK(await_letter(task_file("stat"), 'S') && !sem_post(&sem));
	CHECK(!pthread_join(t, NULL));
	t = start_thread(in_shared);
	CHECK(await_letter(task_file("stat"), 'S'));
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, 1, 1, NULL, NULL, 0);
	CHECK(!pthread_join(t, NULL));
	t = start_thread(in_loop);
	CHECK(await_letter(task_file("stat"), 'R'));
	stop = 1;
	CHECK(!pthread_join(t, NULL));
	t = start_thread(of_first);
	CHECK(!pthread_join(t, NULL));
}

static void *of_waiter(void *arg)
{
	int good = await_letter("/proc/self/stat", 'S');

	return !close(ends[1]) && good ? arg : NULL;
}

/* The first thread is in wait(2) until the other one has seen that. */
static void check_child(void)
{
	pthread_t t;
	void *good = NULL;
	int status;
	pid_t child = fork();

	if (!child) {
		char c;

		close(ends[1]);
		_exit(read(ends[0], &c, 1) != 0);
	}
	CHECK(!pthread_create(&t, NULL, of_waiter, &status));
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(read_letter("/proc/self/stat") == 'R');
	CHECK(!pthread_join(t, &good) && good);
}

static volatile int got, value;

static void on_signal(int signo, siginfo_t *info, void *context)
{
	(void)context;
	got = signo;
	value = info->si_value.sival_int;
}

static void check_signals(void)
{
	struct sigaction act = {.sa_sigaction = on_signal,
				.sa_flags = SA_SIGINFO};
	siginfo_t info = {0};
	pthread_t t;
	int none = getpid() + 100000000;

	CHECK(!sigaction(SIGUSR1, &act, NULL));
	t = start_thread(in_wait);
	CHECK(!kill(tid, 0) && FAILS(kill(none, 0), ESRCH));
	CHECK(!kill(tid, SIGUSR1));
	while (!got)
		usleep(1000);
	got = 0;
	info.si_code = SI_QUEUE;
	info.si_value.sival_int = 777;
	CHECK(!syscall(SYS_rt_sigqueueinfo, tid, SIGUSR1, &info));
	while (!got)
		usleep(1000);
	CHECK(value == 777);
	CHECK(FAILS(syscall(SYS_rt_sigqueueinfo, none, SIGUSR1, &info), ESRCH));
	info.si_code = SI_USER;
	CHECK(FAILS(syscall(SYS_rt_sigqueueinfo, tid, SIGUSR1, &info), EPERM));
	CHECK(!syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &info));
	CHECK(!sem_post(&sem) && !pthread_join(t, NULL));
}

int main(void)
{
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(word != MAP_FAILED && !sem_init(&sem, 0, 0));
	check_read();
	check_waits();
	check_signals();
	check_child();
	return say_done();
}
