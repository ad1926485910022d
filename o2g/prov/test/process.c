/* SPDX-License-Identifier: MIT */
/*
 * Two processes: the child runs this program again and answers every message
 * with the same one, until one of length 0 comes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

#define LONG (3u << 20)

/* One end alone; b stays closed. */
static void open_alone(struct pair *p)
{
	static const struct setup setup;
	struct fi_info *hints = hints_alloc();

	memset(p, 0, sizeof(*p));
	if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &p->info) ||
	    fi_fabric(p->info->fabric_attr, &p->fabric, NULL) ||
	    fi_domain(p->fabric, p->info, &p->domain, NULL))
		exit(1);
	fi_freeinfo(hints);
	end_open(p, &p->a, &setup);
}

static bool move_bytes(int fd, void *buffer, size_t length, bool out)
{
	while (length) {
		ssize_t n = out ? write(fd, buffer, length)
				: read(fd, buffer, length);

		if (n <= 0)
			return false;
		buffer = (char *)buffer + n;
		length -= (size_t)n;
	}
	return true;
}

/* Waits for one completion; its length, or -1. */
static ssize_t wait_completion(struct pair *p)
{
	struct fi_cq_tagged_entry e;

	return next_entry(p, &p->a, &e) == 1 ? (ssize_t)e.len : -1;
}

static int echo_messages(struct pair *p, char *buffer)
{
	for (;;) {
		ssize_t n = fi_trecv(p->a.ep, buffer, LONG, NULL, p->a.other, 1,
				     0, NULL);

		if (n || (n = wait_completion(p)) < 0)
			return 1;
		if (!n)
			return 0;
		if (fi_tsend(p->a.ep, buffer, (size_t)n, NULL, p->a.other, 2,
			     NULL) ||
		    wait_completion(p) < 0)
			return 1;
	}
}

/* --echo IN OUT: descriptors over which the names go. --die: the same, but
 * without closing. --open: an endpoint without a secret. */
int process_child(int argc, char **argv)
{
	uint8_t name[NAME_SIZE];
	struct pair p;
	int error;

	open_alone(&p);
	if (argc < 4)
		return 0;
	end_name(&p.a, name);
	if (!move_bytes(atoi(argv[3]), name, sizeof(name), true) ||
	    !move_bytes(atoi(argv[2]), name, sizeof(name), false))
		return 1;
	p.a.other = end_insert(&p.a, name);
	error = echo_messages(&p, malloc(LONG));
	if (!strcmp(argv[1], "--die"))
		_exit(error);
	pair_close(&p);
	return error;
}

static pid_t start_child(const char *program, const char *how, int fd[2])
{
	int to[2], from[2];
	pid_t pid;

	if (pipe(to) || pipe(from))
		exit(1);
	pid = fork();
	if (!pid) {
		char in[12], out[12];

		snprintf(in, sizeof(in), "%d", to[0]);
		snprintf(out, sizeof(out), "%d", from[1]);
		execl(program, program, how, in, out, (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	fd[0] = from[0];
	fd[1] = to[1];
	return pid;
}

static void exchange_names(struct pair *p, int fd[2])
{
	uint8_t name[NAME_SIZE];

	end_name(&p->a, name);
	CHECK(move_bytes(fd[1], name, sizeof(name), true));
	CHECK(move_bytes(fd[0], name, sizeof(name), false));
	p->a.other = end_insert(&p->a, name);
}

static bool bounce_message(struct pair *p, char *out, char *in, size_t size)
{
	struct fi_cq_tagged_entry e;
	int got = 0;

	fill_buffer(out, size, (unsigned)size);
	if (fi_trecv(p->a.ep, in, size, NULL, p->a.other, 2, 0, in) ||
	    fi_tsend(p->a.ep, out, size, NULL, p->a.other, 1, out))
		return false;
	for (int i = 0; i < 2; i++) {
		if (next_entry(p, &p->a, &e) != 1)
			return false;
		got += e.op_context == in && e.len == size;
	}
	return got == 1 && buffer_filled(in, size, (unsigned)size);
}

static void end_child(pid_t pid)
{
	int status = -1;

	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void test_echo(const char *program)
{
	char *out = malloc(LONG), *in = malloc(LONG);
	struct pair p;
	int fd[2], bad = 0;
	pid_t pid = start_child(program, "--echo", fd);

	open_alone(&p);
	exchange_names(&p, fd);
	for (int i = 0; i < 1000; i++)
		bad |= !bounce_message(&p, out, in, (size_t)i + 1);
	CHECK(!bad);
	for (size_t size = 2000; size < LONG; size = size * 3 - 1)
		CHECK(bounce_message(&p, out, in, size));
	CHECK(!fi_tinject(p.a.ep, NULL, 0, p.a.other, 1));
	end_child(pid);
	pair_close(&p);
	free(out);
	free(in);
}

/* A peer that dies fails what is directed at it, and nothing else. */
static void test_death(const char *program)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry error;
	struct pair p;
	char in[2] = {0};
	int fd[2];
	pid_t pid = start_child(program, "--die", fd);

	open_alone(&p);
	exchange_names(&p, fd);
	CHECK(bounce_message(&p, (char[4]){0}, (char[4]){0}, 4));
	CHECK(!fi_trecv(p.a.ep, &in[0], 1, NULL, p.a.other, 3, 0, &in[0]));
	CHECK(!fi_trecv(p.a.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, 4, 0, &in[1]));
	CHECK(!fi_tinject(p.a.ep, NULL, 0, p.a.other, 1));
	end_child(pid);
	CHECK(next_error(&p, &p.a, &error) == 1);
	CHECK(error.op_context == &in[0]);
	CHECK(error.err == FI_ECONNRESET || error.err == FI_ESHUTDOWN);
	CHECK(pair_quiet(&p, &p.a));
	CHECK(!fi_cancel(&p.a.ep->fid, &in[1]));
	CHECK(next_error(&p, &p.a, &error) == 1 && error.err == FI_ECANCELED);
	CHECK(!fi_tsend(p.a.ep, "x", 1, NULL, p.a.other, 1, &e));
	CHECK(next_error(&p, &p.a, &error) == 1 && error.op_context == &e);
	CHECK(!fi_tinject(p.a.ep, "x", 1, p.a.other, 1));
	CHECK(next_error(&p, &p.a, &error) == 1);
	CHECK(error.flags == (FI_TAGGED | FI_SEND) && !error.op_context);
	CHECK(!fi_inject(p.a.ep, "x", 1, p.a.other));
	CHECK(next_error(&p, &p.a, &error) == 1);
	CHECK(error.flags == (FI_MSG | FI_SEND) && !error.op_context);
	pair_close(&p);
}

/* Opens an endpoint in another process, with a variable set, or unset for a
 * value of NULL: its exit status, and what it said. */
static int open_with(const char *program, const char *variable,
		     const char *value, char text[4096])
{
	size_t length = 0;
	int fd[2], status = -1;
	ssize_t n;
	pid_t pid;

	if (pipe(fd))
		exit(1);
	pid = fork();
	if (!pid) {
		if (value)
			setenv(variable, value, 1);
		else
			unsetenv(variable);
		dup2(fd[1], STDERR_FILENO);
		close(fd[0]);
		close(fd[1]);
		execl(program, program, "--open", (char *)NULL);
		_exit(127);
	}
	close(fd[1]);
	while ((n = read(fd[0], text + length, 4095 - length)) > 0)
		length += (size_t)n;
	text[length] = 0;
	close(fd[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Without a secret: one line that says what to do. */
static void no_secret(const char *program)
{
	char text[4096];

	CHECK(open_with(program, "SKEP_O2G_SECRET", NULL, text) == 1);
	CHECK(strstr(text,
		     "start it with `skep mpirun`, or set SKEP_O2G_SECRET "
		     "to the same 64 hexadecimal digits for each of its "
		     "processes"));
	CHECK(strstr(text, "fi_endpoint: Permission denied"));
}

static void test_sizes(const char *program)
{
	static const struct {
		const char *variable, *value, *word;
	} bad[] = {
		{"FI_O2G_CREDIT", "12x", "FI_O2G_CREDIT=12x: want a number"},
		{"FI_O2G_CREDIT", "-1", "FI_O2G_CREDIT=-1: want"},
		{"FI_O2G_CREDIT", "5G", "FI_O2G_CREDIT=5G: want"},
		{"FI_O2G_CREDIT", "4194304k", "FI_O2G_CREDIT=4194304k: want"},
		{"FI_O2G_CREDIT", "5", "16384"},
		{"FI_O2G_UNEXPECTED", "M", "FI_O2G_UNEXPECTED=M: want"},
		{"FI_O2G_UNEXPECTED", "1MB", "FI_O2G_UNEXPECTED=1MB: want"},
		{"FI_O2G_OPERATIONS", "0", "FI_O2G_OPERATIONS=0: want"},
		{"FI_O2G_NAP_US", "1e3", "FI_O2G_NAP_US=1e3: want"},
		{"FI_O2G_LINGER_MS", "never", "FI_O2G_LINGER_MS=never: want"},
		{"FI_O2G_LINGER_MS", "2097152K",
		 "FI_O2G_LINGER_MS=2097152K: want a number from 0 to "
		 "2147483647, which may end in K, M or G"},
		{"FI_O2G_LINGER_MS", "2048m", "FI_O2G_LINGER_MS=2048m: want"},
		{"FI_O2G_LINGER_MS", "2g", "FI_O2G_LINGER_MS=2g: want"},
		{"FI_O2G_LINGER_MS", "1KK", "FI_O2G_LINGER_MS=1KK: want"},
		{"FI_O2G_LINGER_MS", "-0", "FI_O2G_LINGER_MS=-0: want"},
		{"FI_O2G_UNEXPECTED", "18446744073709551616",
		 "FI_O2G_UNEXPECTED=18446744073709551616: want"},
		{"FI_O2G_RMA", "maybe", "FI_O2G_RMA=maybe: want yes or no"},
	};
	static const char *const good[][2] = {
		{"FI_O2G_CREDIT", "64K"},      {"FI_O2G_UNEXPECTED", "1M"},
		{"FI_O2G_UNEXPECTED", "2g"},   {"FI_O2G_OPERATIONS", "1k"},
		{"FI_O2G_NAP_US", "100"},      {"FI_O2G_LINGER_MS", "0"},
		{"FI_O2G_CREDIT", ""},	       {"FI_O2G_LINGER_MS", "2097151K"},
		{"FI_O2G_LINGER_MS", "2047M"}, {"FI_O2G_LINGER_MS", "1G"},
		{"FI_O2G_RMA", "no"},	       {"FI_O2G_RMA", "yes"},
	};
	char text[4096];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CHECK(open_with(program, bad[i].variable, bad[i].value, text) ==
		      1);
		CHECK(strstr(text, bad[i].word));
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		CHECK(!open_with(program, good[i][0], good[i][1], text));
}

/* Who turns libfabric's log on is told what was chosen. */
static void log_lines(const char *program)
{
	char text[4096];

	setenv("FI_LOG_SUBSYS", "ep_ctrl", 1);
	CHECK(!open_with(program, "FI_LOG_LEVEL", "info", text));
	CHECK(strstr(text, "engine user") && strstr(text, "copies up to "));
	CHECK(!open_with(program, "FI_LOG_LEVEL", "warn", text));
	CHECK(!strstr(text, "copies up to "));
	unsetenv("FI_LOG_SUBSYS");
}

void test_processes(const char *program)
{
	log_lines(program);
	no_secret(program);
	test_sizes(program);
	test_echo(program);
	test_death(program);
}
