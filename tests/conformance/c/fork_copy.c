/* SPDX-License-Identifier: MIT */
/* What the child of fork has: a copy of memory, the calling thread alone, and
 * the parent's descriptors. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

#define BLOCK (1 << 20)
#define FORKS 4

static int exit_code(pid_t pid)
{
	int status = -1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

/* Memory ------------------------------------------------------------------- */

static int in_data = 1;
static __thread int in_tls = 2;

struct places {
	int *heap, *mapped, *closed;
	int on_stack;
};

static int all_are(struct places *p, int n)
{
	int same;

	mprotect(p->closed, 4096, PROT_READ | PROT_WRITE);
	same = *p->closed == n;
	return same && in_data == n && in_tls == n && *p->heap == n &&
	       p->mapped[BLOCK / 4 - 1] == n && p->on_stack == n;
}

static void set_all(struct places *p, int n)
{
	mprotect(p->closed, 4096, PROT_READ | PROT_WRITE);
	in_data = in_tls = *p->heap = p->mapped[BLOCK / 4 - 1] = p->on_stack =
		*p->closed = n;
	mprotect(p->closed, 4096, PROT_NONE);
}

static void test_memory(void)
{
	struct places p = {malloc(64),
			   mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			   mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			   0};
	int go[2], said[2];
	char c = 0;
	pid_t pid;

	CHECK(!pipe(go) && !pipe(said));
	set_all(&p, 7);
	pid = fork();
	if (!pid) {
		int ok = all_are(&p, 7);

		set_all(&p, 8);
		ok &= write(said[1], "x", 1) == 1 && read(go[0], &c, 1) == 1;
		ok &= all_are(&p, 8);
		ok &= !munmap(p.mapped, BLOCK) && malloc(1 << 18) != NULL;
		_exit(ok ? 3 : 4);
	}
	CHECK(read(said[0], &c, 1) == 1 && all_are(&p, 7));
	set_all(&p, 9);
	CHECK(write(go[1], "y", 1) == 1 && exit_code(pid) == 3);
	CHECK(all_are(&p, 9));
	close(go[0]), close(go[1]), close(said[0]), close(said[1]);
}

/* Threads ------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;
static volatile long *first, *last; /* far apart; `first` counts first */

static void *use_heap(void *arg)
{
	while (!stop) {
		pthread_mutex_lock(&lock);
		free(malloc(1000));
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

static void *count_both(void *arg)
{
	while (!stop) {
		++*first;
		++*last;
	}
	return arg;
}

static void *add_one(void *arg)
{
	++*(int *)arg;
	return NULL;
}

/* The child is one thread, and can start others. */
static void *fork_here(void *arg)
{
	long ahead;
	int mine = 5, n = 0;
	pthread_t t;
	pid_t pid;

	in_tls = 40;
	pthread_mutex_lock(&lock);
	pid = fork();
	if (!pid) {
		ahead = *first - *last; /* the copy is of one moment */
		n = ahead < 0 || ahead > 1 ||
		    pthread_create(&t, NULL, add_one, &mine) ||
		    pthread_join(t, NULL) || mine != 6 || in_tls != 40 ||
		    (pid_t)gettid() != getpid();
		pthread_mutex_unlock(&lock);
		_exit(n ? 1 : 41);
	}
	pthread_mutex_unlock(&lock);
	*(int *)arg = exit_code(pid);
	return NULL;
}

static void test_threads(void)
{
	pthread_t busy, counts, t;
	int code = 0;

	first = calloc(1, 4 * BLOCK);
	last = first + 4 * BLOCK / sizeof(*last) - 1;
	memset((void *)(first + 1), 1, 4 * BLOCK - 2 * sizeof(*first));
	CHECK(!pthread_create(&busy, NULL, use_heap, NULL) &&
	      !pthread_create(&counts, NULL, count_both, NULL));
	CHECK(!pthread_create(&t, NULL, fork_here, &code) &&
	      !pthread_join(t, NULL));
	stop = 1;
	CHECK(!pthread_join(busy, NULL) && !pthread_join(counts, NULL) &&
	      code == 41);
}

/* Descriptors -------------------------------------------------------------- */

static void test_files(void)
{
	char buf[16] = "";
	int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	pid_t pid;
	FILE *f;

	CHECK(fd >= 0 && write(fd, "ab", 2) == 2);
	pid = fork();
	if (!pid)
		_exit(write(fd, "cd", 2) != 2 ||
		      fcntl(fd, F_GETFD) != FD_CLOEXEC);
	CHECK(exit_code(pid) == 0 && write(fd, "ef", 2) == 2);
	CHECK(pread(fd, buf, 6, 0) == 6 && !strcmp(buf, "abcdef"));
	close(fd);
	f = fopen("g", "w");
	fputs("once ", f);
	pid = fork();
	if (!pid) {
		fputs("child\n", f);
		exit(fclose(f) ? 1 : 0);
	}
	CHECK(exit_code(pid) == 0);
	fputs("parent\n", f);
	fclose(f);
	fd = open("g", O_RDONLY);
	memset(buf, 0, sizeof(buf));
	CHECK(read(fd, buf, 5) == 5 && !strcmp(buf, "once "));
	CHECK(lseek(fd, 0, SEEK_END) == 11 + 12);
	close(fd);
}

/* A pipe ends when the last process closes it. */
static void test_pipes(void)
{
	int a[2], b[2];
	char buf[16];
	pid_t pid;

	CHECK(!pipe(a) && !pipe(b));
	CHECK(write(a[1], "early", 5) == 5);
	pid = fork();
	if (!pid) {
		ssize_t n, all = 0;

		close(a[1]);
		close(b[0]);
		while ((n = read(a[0], buf, sizeof(buf))) > 0 &&
		       write(b[1], buf, (size_t)n) == n)
			all += n;
		_exit((int)all);
	}
	close(a[0]);
	close(b[1]);
	CHECK(write(a[1], " late", 5) == 5 && !close(a[1]));
	memset(buf, 0, sizeof(buf));
	CHECK(exit_code(pid) == 10);
	CHECK(read(b[0], buf, 10) == 10 && !strcmp(buf, "early late"));
	CHECK(read(b[0], buf, 10) == 0);
	close(b[0]);
}

static void test_shared_file(void)
{
	int fd = open("m", O_RDWR | O_CREAT, 0600);
	volatile int *word;
	pid_t pid;

	CHECK(fd >= 0 && !ftruncate(fd, 8192));
	word = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(word != MAP_FAILED);
	close(fd);
	word[1500] = 11;
	pid = fork();
	if (!pid) {
		int seen = word[1500];

		word[1500] = 12;
		_exit(seen);
	}
	CHECK(exit_code(pid) == 11 && word[1500] == 12);
}

/* The child serves the parent's listening socket; then both write to one
 * connection, which ends when both have closed it. */
static void test_sockets(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), s, c = -1;
	char buf[8] = "";
	pid_t pid;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(l >= 0 && !bind(l, (void *)&a, len) && !listen(l, 5) &&
	      !getsockname(l, (void *)&a, &len));
	pid = fork();
	if (!pid) {
		c = accept(l, NULL, NULL);
		_exit(read(c, buf, 1) == 1 && *buf == 'q' &&
				      write(c, "r", 1) == 1
			      ? 6
			      : 7);
	}
	s = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(s, (void *)&a, len) && write(s, "q", 1) == 1);
	CHECK(read(s, buf, 1) == 1 && *buf == 'r' && exit_code(pid) == 6);
	close(s);
	s = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(s, (void *)&a, len) && (c = accept(l, NULL, NULL)) >= 0);
	pid = fork();
	if (!pid)
		_exit(write(s, "child", 5) == 5 ? 8 : 9);
	CHECK(exit_code(pid) == 8 && write(s, "me", 2) == 2 && !close(s));
	CHECK(recv(c, buf, 8, MSG_WAITALL) == 7 && !memcmp(buf, "childme", 7));
	close(c);
	close(l);
}

/* Signals ------------------------------------------------------------------ */

static volatile sig_atomic_t got;

static void on_signal(int signo)
{
	got += signo;
}

static void test_signals(void)
{
	sigset_t set, was;
	pid_t pid;

	signal(SIGUSR1, on_signal);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	alarm(100);
	pid = fork();
	if (!pid) {
		sigset_t now;

		sigpending(&now);
		sigprocmask(SIG_BLOCK, NULL, &was);
		if (sigismember(&now, SIGUSR1) || alarm(0) ||
		    !sigismember(&was, SIGUSR2))
			_exit(1);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		raise(SIGUSR1);
		_exit(got == SIGUSR1 ? 2 : 3);
	}
	CHECK(exit_code(pid) == 2 && !got);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	CHECK(got == SIGUSR1 && alarm(0) > 0);
}

/* Many --------------------------------------------------------------------- */

static int fork_nested(int depth)
{
	pid_t pid = depth ? fork() : 0;

	if (pid)
		return exit_code(pid);
	_exit(depth ? fork_nested(depth - 1) + 1 : 10);
}

static void test_many(void)
{
	int i, sum = 0;

	CHECK(fork_nested(2) == 11);
	for (i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(i);
		sum += exit_code(pid);
	}
	CHECK(sum == FORKS * (FORKS - 1) / 2);
}

int main(void)
{
	test_memory();
	test_threads();
	test_files();
	test_pipes();
	test_shared_file();
	test_sockets();
	test_signals();
	test_many();
	return say_done();
}
