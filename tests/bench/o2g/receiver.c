/* SPDX-License-Identifier: MIT */
/*
 * What a receiver does for a small message when many connections lead to it,
 * on the interface of libfabric, so that providers can be compared.
 *
 *   receiver [-c] [-r] PROVIDER SENDERS MESSAGES
 *
 * One process owns the receiving endpoint, another SENDERS endpoints that have
 * a connection to it each. A message is in the receiver's socket before it
 * looks for it; its work then lies between marks (skep/mark.h), one interval
 * for each question below. With -c the marks are calls of close() with a
 * number that no descriptor has, for strace; with -r the receiver is a
 * real-time program that lets nothing else run on its processor meanwhile.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <skep/mark.h>

#include "tests/bench/o2g/fabric.h"

/* The intervals. */
enum {
	TICKS,	      /* a loop without calls: what interrupts add */
	ONE_POSTED,   /* one message, its receive waits */
	ONE_EARLY,    /* one message that comes before its receive */
	POST,	      /* a receive that finds no message */
	BURST_POSTED, /* BURST messages of different senders */
	BURST_EARLY,
	EMPTY, /* EMPTY_READS reads that find nothing */
};

#define BURST 32
#define EMPTY_READS 64
#define TICK_LOOPS 10000000
#define SENDERS_MAX 16384
#define TIMEOUT_S 300 /* seconds for one step */

/* Between the two processes: the receiver orders, the senders obey. */
struct shared {
	atomic_int order;    /* number of the last one */
	atomic_int finished; /* the last one that is done */
	int count;	     /* senders in it; 0: that was all */
	int sender[BURST];
	struct name receiver;
	struct name name[SENDERS_MAX];
};

struct message {
	struct fi_context2 context; /* first: the operation's */
	uint64_t number;
};

static struct shared *shared;
static int senders, messages;
static bool calls, alone;

/* ---- marks ---- */

#define BEGIN(n)                                                               \
	do {                                                                   \
		if (calls)                                                     \
			close(-1000 - (n));                                    \
		SKEP_MARK_BEGIN(n);                                            \
	} while (0)
#define END(n)                                                                 \
	do {                                                                   \
		SKEP_MARK_END(n);                                              \
		if (calls)                                                     \
			close(-2000 - (n));                                    \
	} while (0)

/* ---- endpoints ---- */

static void drain_queue(struct end *end, int wanted)
{
	struct fi_cq_tagged_entry entry[BURST];

	while (wanted > 0)
		wanted -=
			read_queue(end, entry, wanted < BURST ? wanted : BURST);
}

/* ---- senders ---- */

static void send_one(struct end *end, int sender)
{
	struct message message = {.number = (uint64_t)sender};
	struct fi_cq_tagged_entry entry;
	double deadline = clock_seconds() + TIMEOUT_S;
	ssize_t r;

	do { /* also until it is connected */
		r = fi_tsend(end->ep, &message.number, sizeof(message.number),
			     NULL, end->other, (uint64_t)sender,
			     &message.context);
		if (r == -FI_EAGAIN)
			read_queue(end, &entry, 0);
	} while (r == -FI_EAGAIN && clock_seconds() < deadline);
	expect_success(r, "fi_tsend");
	while (!read_queue(end, &entry, 1))
		if (clock_seconds() >= deadline)
			exit_message("sender %d was not served", sender);
}

static void send_on_order(struct end *end)
{
	for (int order = 1;; order++) {
		while (atomic_load(&shared->order) < order)
			sched_yield();
		if (!shared->count)
			return;
		for (int i = 0; i < shared->count; i++)
			send_one(&end[shared->sender[i]], shared->sender[i]);
		if (alone)
			usleep(1000); /* what a soft interrupt has put off */
		atomic_store(&shared->finished, order);
	}
}

static void pin_process(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit_message("no processor %d: %m", processor);
}

static int send_all(const char *provider)
{
	struct end *end = calloc((size_t)senders, sizeof(*end));

	role = "senders";
	if (!end)
		exit_message("out of memory");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_process(0);
	/* Of a sender nothing is asked but to send: it needs little memory. */
	setenv("FI_O2G_OPERATIONS", "64", 1);
	open_domain(provider);
	for (int i = 0; i < senders; i++)
		open_end(&end[i], &shared->name[i]);
	atomic_store(&shared->finished, 0); /* the names are there */
	while (atomic_load(&shared->order) < 0)
		usleep(1000);
	for (int i = 0; i < senders; i++)
		end[i].other = insert_name(&end[i], &shared->receiver);
	send_on_order(end);
	return 0;
}

/* ---- the receiver ---- */

static void on_child_exit(int signal)
{
	(void)signal;
	_exit(1); /* the senders have said why */
}

static struct end own;
static fi_addr_t *address; /* of each sender */
static struct message inbox[BURST];

static void post_receive(int i, int sender)
{
	ssize_t r;

	inbox[i].number = ~0ull;
	do {
		r = fi_trecv(own.ep, &inbox[i].number, sizeof(inbox[i].number),
			     NULL, address[sender], (uint64_t)sender, 0,
			     &inbox[i].context);
	} while (r == -FI_EAGAIN);
	expect_success(r, "fi_trecv");
}

static void post_all(void)
{
	for (int i = 0; i < shared->count; i++)
		post_receive(i, shared->sender[i]);
}

static void check_received(void)
{
	for (int i = 0; i < shared->count; i++)
		if (inbox[i].number != (uint64_t)shared->sender[i])
			exit_message("%llu came instead of %d",
				     (unsigned long long)inbox[i].number,
				     shared->sender[i]);
}

/* Different senders, in an order that nothing can guess. */
static void choose_senders(int count)
{
	static uint64_t state = 1;

	for (int i = 0; i < count; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		shared->sender[i] = (int)((state >> 33) % (uint64_t)senders);
	}
	shared->count = count;
}

/* Whoever polls is left alone by a provider's own thread, which would take what
 * comes next; strace stops this process for so long that it steps in. */
static void be_seen(void)
{
	struct fi_cq_tagged_entry entry;

	for (int i = 0; calls && i < 8; i++)
		read_queue(&own, &entry, 0);
}

/* Until the messages are in the sockets, which soft interrupts may put off: a
 * look that comes too early would be counted. Never sleeps, and gives up after
 * a second, since a provider may read elsewhere. */
static void await_bytes(void)
{
	static struct pollfd file[SENDERS_MAX + 64];
	static nfds_t files;
	double start = clock_seconds();
	struct stat status;
	int wanted = shared->count, ready = 0;

	if (!files) /* everybody is connected */
		for (int fd = 0; fd < 10 * SENDERS_MAX; fd++)
			if (!fstat(fd, &status) && S_ISSOCK(status.st_mode) &&
			    files < SENDERS_MAX + 64)
				file[files++] = (struct pollfd){fd, POLLIN, 0};
	for (int i = 0; i < shared->count; i++)
		for (int j = 0; j < i; j++)
			if (shared->sender[i] == shared->sender[j]) {
				wanted--;
				break;
			}
	while (ready < wanted && clock_seconds() - start < 1)
		ready = poll(file, files, 0);
}

/* Has the chosen ones send; `polling` until they have: to be connected. */
static void order_sends(bool polling)
{
	double deadline = clock_seconds() + TIMEOUT_S;
	struct fi_cq_tagged_entry entry;
	int number;

	be_seen();
	number = atomic_fetch_add(&shared->order, 1) + 1;
	while (atomic_load(&shared->finished) < number) {
		if (polling) {
			read_queue(&own, &entry, 0);
			usleep(100); /* other threads have work as well */
		}
		if (!polling && !alone && !calls)
			sched_yield();
		if (clock_seconds() > deadline)
			exit_message("the senders do not send");
	}
	if (!polling && alone)
		await_bytes();
}

static void connect_all(void)
{
	for (int i = 0; i < senders; i++) {
		shared->sender[0] = i;
		shared->count = 1;
		post_receive(0, i);
		order_sends(true);
		drain_queue(&own, 1);
		check_received();
	}
}

static void one_posted(void)
{
	struct fi_cq_tagged_entry entry;

	choose_senders(1);
	BEGIN(POST);
	post_receive(0, shared->sender[0]);
	END(POST);
	order_sends(false);
	BEGIN(ONE_POSTED);
	while (!read_queue(&own, &entry, 1))
		;
	END(ONE_POSTED);
	check_received();
}

/* MPI libraries look for completions whenever they are called: so the message
 * is met by a read before its receive is posted. */
static void one_early(void)
{
	struct fi_cq_tagged_entry entry;

	choose_senders(1);
	order_sends(false);
	BEGIN(ONE_EARLY);
	if (read_queue(&own, &entry, 1))
		exit_message("a message came without its receive");
	post_receive(0, shared->sender[0]);
	while (!read_queue(&own, &entry, 1))
		;
	END(ONE_EARLY);
	check_received();
}

static void burst_posted(void)
{
	choose_senders(BURST);
	post_all();
	order_sends(false);
	BEGIN(BURST_POSTED);
	drain_queue(&own, BURST);
	END(BURST_POSTED);
	check_received();
}

static void burst_early(void)
{
	struct fi_cq_tagged_entry entry;

	choose_senders(BURST);
	order_sends(false);
	BEGIN(BURST_EARLY);
	if (read_queue(&own, &entry, 1))
		exit_message("a message came without its receive");
	post_all();
	drain_queue(&own, BURST);
	END(BURST_EARLY);
	check_received();
}

static void empty_queue(void)
{
	struct fi_cq_tagged_entry entry;

	BEGIN(EMPTY);
	for (int i = 0; i < EMPTY_READS; i++)
		if (read_queue(&own, &entry, 1))
			exit_message("a message came that nobody sent");
	END(EMPTY);
}

static void measure_ticks(void)
{
	BEGIN(TICKS);
	for (int i = 0; i < TICK_LOOPS; i++)
		__asm__ volatile("");
	END(TICKS);
}

static void measure_cost(void (*question)(void), int times)
{
	for (int i = -times / 8 - 1; i < times; i++)
		question();
}

static void measure_receiver(void)
{
	measure_ticks();
	measure_cost(one_posted, messages);
	measure_cost(one_early, messages);
	measure_cost(burst_posted, messages / BURST + 1);
	measure_cost(burst_early, messages / BURST + 1);
	empty_queue();
}

static int receive_all(const char *provider)
{
	struct sched_param priority = {.sched_priority = 10};
	double start = clock_seconds(), opened;

	signal(SIGCHLD, on_child_exit);
	address = calloc((size_t)senders, sizeof(*address));
	if (!address)
		exit_message("out of memory");
	pin_process((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
	/* Before threads are made, which inherit it: they wait their turn. */
	if (alone && sched_setscheduler(0, SCHED_FIFO, &priority))
		exit_message(
			"no real-time priority: %m; be root, or leave -r out");
	open_domain(provider);
	open_end(&own, &shared->receiver);
	while (atomic_load(&shared->finished) < 0) {
		usleep(1000);
		if (clock_seconds() - start > TIMEOUT_S)
			exit_message("the senders do not come up");
	}
	for (int i = 0; i < senders; i++)
		address[i] = insert_name(&own, &shared->name[i]);
	atomic_store(&shared->order, 0);
	opened = clock_seconds();
	connect_all();
	fprintf(stderr,
		"receiver: %s, libfabric %u.%u, %d connections, opened in %.1f "
		"s, made in %.1f s\n",
		info->fabric_attr->prov_name, FI_MAJOR(fi_version()),
		FI_MINOR(fi_version()), senders, opened - start,
		clock_seconds() - opened);
	measure_receiver();
	signal(SIGCHLD, SIG_DFL);
	shared->count = 0;
	atomic_fetch_add(&shared->order, 1);
	return 0;
}

/* An ordinary user's 1024 descriptors do for some 100 connections. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		exit_message("no limit of descriptors: %m");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		exit_message("no more descriptors: %m");
}

static void print_usage(void)
{
	fprintf(stderr,
		"usage: receiver [-c] [-r] PROVIDER SENDERS MESSAGES\n"
		"  SENDERS 1 to %d, MESSAGES 1 to 1000000\n",
		SENDERS_MAX);
	exit(2);
}

static int parse_number(const char *text, int most)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end || n < 1 || n > most)
		print_usage();
	return (int)n;
}

int main(int argc, char **argv)
{
	pid_t child;
	int option, status;

	role = "receiver";
	while ((option = getopt(argc, argv, "cr")) != -1) {
		calls |= option == 'c';
		alone |= option == 'r';
		if (option == '?')
			print_usage();
	}
	if (argc - optind != 3)
		print_usage();
	senders = parse_number(argv[optind + 1], SENDERS_MAX);
	messages = parse_number(argv[optind + 2], 1000000);
	raise_limit();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		exit_message("out of memory");
	atomic_store(&shared->order, -1);
	atomic_store(&shared->finished, -1);
	child = fork();
	if (child < 0)
		exit_message("no process: %m");
	if (!child)
		_exit(send_all(argv[optind]));
	status = receive_all(argv[optind]);
	if (waitpid(child, &status, 0) != child || status)
		exit_message("the senders ended with %#x", (unsigned)status);
	/* Connections that are not measured need not be closed in order. */
	_exit(0);
}
