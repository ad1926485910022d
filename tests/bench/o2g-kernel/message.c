/* SPDX-License-Identifier: MIT */
/*
 * What one message costs a machine with one processor, sender and receiver
 * together, on the interface of libfabric: two endpoints in this process, so
 * that all work is done on the processor that is counted.
 *
 *   message PROVIDER MESSAGES
 *
 * Two intervals (skep/mark.h) for each question: 2q is the call that sends,
 * 2q + 1 all that follows until both ends have their completions. Prints how
 * often it gave the processor away, since the counter counts that as a call.
 */
#define _GNU_SOURCE
#include <sched.h>

#include <skep/mark.h>

#include "tests/bench/o2g/fabric.h"

#define MESSAGE_SIZE_MAX (1u << 20)
#define TIMEOUT_S 120 /* seconds for one message */

static struct end from, to;
static uint8_t *out, *in;
static uint64_t yields;

static struct fi_context2 context[2];

static int poll_end(struct end *end)
{
	struct fi_cq_tagged_entry entry;

	return read_queue(end, &entry, 1);
}

static void post_receive(size_t length)
{
	ssize_t r;

	do {
		r = fi_trecv(to.ep, in, length, NULL, to.other, 1, 0,
			     &context[1]);
	} while (r == -FI_EAGAIN);
	expect_success(r, "fi_trecv");
}

static void send_one(size_t length)
{
	ssize_t r;

	do {
		r = fi_tsend(from.ep, out, length, NULL, from.other, 1,
			     &context[0]);
		if (r == -FI_EAGAIN) { /* not connected yet */
			poll_end(&from);
			poll_end(&to);
			sched_yield();
		}
	} while (r == -FI_EAGAIN);
	expect_success(r, "fi_tsend");
}

/* Both ends; other tasks get the processor in between. */
static void await_both(void)
{
	int sent = 0, received = 0;

	for (;;) {
		if (!received)
			received = poll_end(&to);
		if (!sent)
			sent = poll_end(&from);
		if (sent && received)
			return;
		sched_yield();
		yields++;
	}
}

static void check_body(size_t length, int number)
{
	for (size_t i = 0; i < length; i += 4000)
		if (in[i] != (uint8_t)number)
			exit_message("wrong bytes");
	if (in[length - 1] != (uint8_t)number)
		exit_message("wrong bytes");
}

/* A question; marks want constants. */
#define POSTED(question, length)                                               \
	static void posted_##question(int number)                              \
	{                                                                      \
		memset(out, number, length);                                   \
		post_receive(length);                                          \
		SKEP_MARK_BEGIN(2 * (question));                               \
		send_one(length);                                              \
		SKEP_MARK_END(2 * (question));                                 \
		SKEP_MARK_BEGIN(2 * (question) + 1);                           \
		await_both();                                                  \
		SKEP_MARK_END(2 * (question) + 1);                             \
		check_body(length, number);                                    \
	}

POSTED(0, 8)
POSTED(1, 8192)
POSTED(2, 65536)
POSTED(3, MESSAGE_SIZE_MAX)

/* Comes before its receive: the interval of completion has the posting too. */
static void unexpected_4(int number)
{
	memset(out, number, 8);
	SKEP_MARK_BEGIN(8);
	send_one(8);
	SKEP_MARK_END(8);
	SKEP_MARK_BEGIN(9);
	poll_end(&to); /* as an MPI library does, called for something else */
	post_receive(8);
	await_both();
	SKEP_MARK_END(9);
	check_body(8, number);
}

/* What a look costs that finds nothing. */
static void nothing_5(int number)
{
	(void)number;
	SKEP_MARK_BEGIN(10);
	poll_end(&to);
	SKEP_MARK_END(10);
}

int main(int argc, char **argv)
{
	static void (*const question[])(int) = {posted_0,     posted_1,
						posted_2,     posted_3,
						unexpected_4, nothing_5};
	struct name name[2];
	int messages;

	if (argc != 3)
		return 2;
	role = "message";
	messages = atoi(argv[2]);
	out = malloc(MESSAGE_SIZE_MAX);
	in = malloc(MESSAGE_SIZE_MAX);
	if (!out || !in)
		exit_message("out of memory");
	memset(in, 0, MESSAGE_SIZE_MAX);
	open_domain(argv[1]);
	open_end(&from, &name[0]);
	open_end(&to, &name[1]);
	from.other = insert_name(&from, &name[1]);
	to.other = insert_name(&to, &name[0]);
	post_receive(8); /* they are connected then, both ways */
	send_one(8);
	await_both();
	for (size_t q = 0; q < sizeof(question) / sizeof(*question); q++) {
		double end = clock_seconds() + TIMEOUT_S;

		yields = 0;
		for (int i = 1; i <= messages; i++) {
			question[q](i);
			if (clock_seconds() > end)
				exit_message("question %zu takes too long", q);
		}
		printf("yields %zu %llu\n", q, (unsigned long long)yields);
	}
	return 0;
}
