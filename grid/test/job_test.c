// SPDX-License-Identifier: MIT
/*
 * What the front of an MPI job takes from its ranks, and callbacks of rank 0:
 * with ranks that say anything (ranks_stub.h).
 */
#include <errno.h>
#include <grid/core/marshal.h>
#include <stdlib.h>
#include <string.h>

#include "ranks_stub.h"
#include "tests/tap.h"

static struct job_result result;

/* The program of three ranks with two bytes of arguments and 8 of result. */
static int run_call(void)
{
	const struct job_call call = {STUB_RANKS,
				      {RANKS_CALL, 5, 2, 8},
				      (const u8 *)"ab",
				      77,
				      &stub_way};

	return job_call(&call, &result);
}

static void end_run(void)
{
	if (result.bytes)
		grid_memory_heap.free(&grid_memory_heap, result.bytes,
				      result.length);
	job_end(1);
	stub_close();
}

static void say_answer(u32 rank, u32 code, u64 length, const char *bytes)
{
	const struct ranks_answer a = {code, 0, length, 1000 + rank};

	stub_say(rank, &a, sizeof(a));
	stub_say(rank, bytes, strlen(bytes));
}

/* As long as `length` says; the head has `inner`. */
static void say_callback(u32 rank, u64 length, u32 inner, const char *bytes)
{
	const struct ranks_answer a = {0, 1, length, 0};
	const struct skep_callback head = {3, inner, 9};

	stub_say(rank, &a, sizeof(a));
	stub_say(rank, &head, sizeof(head));
	stub_say(rank, bytes, strlen(bytes));
}

static void say_rest(void)
{
	u32 i;

	for (i = 1; i < STUB_RANKS; i++)
		say_answer(i, 0, 0, "");
}

/* The call was refused with these words, and its job is gone. */
static void check_refusal(u32 code, const char *want, const char *name)
{
	int err = run_call();

	tap_ok(!err && result.code == code && strstr(result.text, want) &&
		       !result.bytes,
	       "%s: %d, code %u, %s", name, err, result.code, result.text);
	end_run();
}

/* Answers ----------------------------------------------------------------- */

static void test_results(void)
{
	struct stub_text heard;
	struct ranks_order o;
	u32 i;
	int err;

	stub_reset();
	say_answer(0, 0, 8, "resultof");
	say_rest();
	err = run_call();
	tap_ok(!err && !result.code && result.length == 8 &&
		       !memcmp(result.bytes, "resultof", 8) &&
		       result.exec_ns == 1000,
	       "rank 0 has the result and the time: %d, %u, %s", err,
	       result.code, result.text);
	for (i = 0; i < STUB_RANKS; i++) {
		stub_heard(i, &heard);
		memcpy(&o, heard.bytes, sizeof(o));
		tap_ok(heard.length == sizeof(o) + 2 && o.kind == RANKS_CALL &&
			       o.function == 5 && o.length == 2 &&
			       o.most == 8 &&
			       !memcmp(heard.bytes + sizeof(o), "ab", 2),
		       "rank %u gets the order and the arguments", i);
	}
	end_run();
}

static void test_reasons(void)
{
	static char longest[RANKS_TEXT_MAX + 1];

	memset(longest, 'x', RANKS_TEXT_MAX);
	stub_reset();
	say_answer(0, SKEP_E_ARGUMENTS, RANKS_TEXT_MAX, longest);
	say_rest();
	check_refusal(SKEP_E_WORKER, "rank 0 of 3 ended in the middle",
		      "a reason that is too long");
	stub_reset();
	say_answer(0, SKEP_E_ARGUMENTS, RANKS_TEXT_MAX - 1, longest);
	say_rest();
	check_refusal(SKEP_E_ARGUMENTS, "rank 0 of 3: xxxx",
		      "the longest reason");
	stub_reset();
	say_answer(0, SKEP_E_ARGUMENTS, 4, "this");
	say_rest();
	check_refusal(SKEP_E_ARGUMENTS, "rank 0 of 3: this", "a short one");
	tap_ok(!strcmp(result.text, "rank 0 of 3: this"),
	       "it has nothing of the one before");
}
static void test_refusals(void)
{
	stub_reset();
	say_answer(0, 0, 9, "resultof9");
	say_rest();
	check_refusal(SKEP_E_WORKER,
		      "rank 0 of 3 returned bytes that nobody asked for",
		      "a result that is too long");
	stub_reset();
	say_answer(0, 0, 0, "");
	say_answer(1, 0, 1, "x");
	say_answer(2, 0, 0, "");
	check_refusal(SKEP_E_WORKER,
		      "rank 1 of 3 returned bytes that nobody asked for",
		      "a result of another rank");
	stub_reset();
	say_answer(0, 0, 0, "");
	say_answer(1, 0, 0, "");
	say_answer(2, SKEP_E_ARGUMENTS, 4, "this");
	check_refusal(SKEP_E_ARGUMENTS, "rank 2 of 3: this", "a refusal");
	stub_reset();
	say_answer(0, 0, 0, "");
	say_answer(2, 0, 0, "");
	check_refusal(SKEP_E_WORKER,
		      "rank 1 of 3 ended in the middle of the function",
		      "an end without a word");
	stub_reset();
	say_answer(2, SKEP_E_ARGUMENTS, 4, "this");
	check_refusal(SKEP_E_ARGUMENTS, "rank 2 of 3: this",
		      "a reason counts more than ends without a word");
}

static void test_hellos(void)
{
	stub_reset();
	stub.hello[1].magic++;
	check_refusal(SKEP_E_WORKER, "a rank did not say which one it is",
		      "a hello of something else");
	stub_reset();
	stub.hello[1].size = 2;
	check_refusal(SKEP_E_WORKER, "rank 1 says that the job has 2 ranks",
		      "another number of ranks");
	stub_reset();
	stub.hello[1].rank = 0;
	check_refusal(SKEP_E_WORKER, "two ranks say that they are rank 0",
		      "two are the same rank");
	stub_reset();
	stub.hello[2].rank = STUB_RANKS;
	check_refusal(SKEP_E_WORKER, "a rank says that it is rank 3, which",
		      "a rank beyond the last one");
}

/* Callbacks --------------------------------------------------------------- */

/* A callback, and the end of the function after RETURN with so many bytes. */
static void test_callback(u32 returned)
{
	const struct ranks_answer end = {0, 0, 8, 1000};
	struct stub_text heard;
	struct ranks_order back;
	u64 order = sizeof(back) + 2;
	int err;

	stub_reset();
	stub.silent = 2;
	stub.stays = 1;
	stub.returned = returned;
	say_callback(0, sizeof(stub.head) + 5, 5, "hello");
	say_rest();
	memcpy(stub.later.bytes, &end, sizeof(end));
	memcpy(stub.later.bytes + sizeof(end), "resultof", 8);
	stub.later.length = sizeof(end) + 8;
	err = run_call();
	tap_ok(!err && !result.code && result.length == 8,
	       "a call with a callback ends well: %d, %u, %s", err, result.code,
	       result.text);
	tap_ok(stub.asks == 1 && stub.call == 77 && stub.head.param == 3 &&
		       stub.head.number == 9 && stub.head.length == 5 &&
		       !memcmp(stub.arguments, "hello", 5),
	       "the master is asked with the call's number and the arguments");
	tap_ok(stub.takes == 3 && stub.returns == 1,
	       "other frames of the session are passed over");
	stub_heard(0, &heard);
	memcpy(&back, heard.bytes + order, sizeof(back));
	tap_ok(heard.length == order + sizeof(back) + returned &&
		       back.kind == RANKS_RETURN && back.function == 3 &&
		       back.length == returned && !back.most,
	       "rank 0 gets RETURN with %u bytes", returned);
	tap_ok(!returned || !memcmp(heard.bytes + order + sizeof(back), "rrrr",
				    returned),
	       "they are the master's");
	stub_heard(1, &heard);
	tap_ok(heard.length == order, "the other ranks hear nothing of it");
	end_run();
}

/* One after another, and one more when the first one's RETURN is there. */
static void test_two_callbacks(void)
{
	const struct ranks_answer again = {0, 1, sizeof(stub.head), 0};
	const struct skep_callback head = {4, 0, 10};

	stub_reset();
	stub.stays = 1;
	say_callback(0, sizeof(head) + 1, 1, "x");
	say_rest();
	memcpy(stub.later.bytes, &again, sizeof(again));
	memcpy(stub.later.bytes + sizeof(again), &head, sizeof(head));
	stub.later.length = sizeof(again) + sizeof(head);
	stub.last = 2;
	check_refusal(SKEP_E_WORKER, "cannot be passed on: Cannot allocate",
		      "the second of two has an error of its own");
	tap_ok(stub.asks == 2 && stub.head.param == 4 && stub.returns == 1,
	       "both are asked: %u, %u", stub.asks, stub.returns);
}

/* Each is a callback that cannot be passed on. */
static void test_wrong_callbacks(void)
{
	static const char want[] = "a callback of rank 0 of 3 cannot be passed "
				   "on: Protocol error";
	const u64 head = sizeof(stub.head);

	stub_reset();
	say_callback(0, head - 1, 0, "");
	say_rest();
	check_refusal(SKEP_E_WORKER, want, "shorter than its head");
	tap_ok(!stub.asks, "the master does not hear of it");
	stub_reset();
	say_callback(0, head + SKEP_CALLBACK_MAX + 1, SKEP_CALLBACK_MAX + 1,
		     "");
	say_rest();
	check_refusal(SKEP_E_WORKER, want, "longer than a frame");
	stub_reset();
	say_callback(0, head + SKEP_CALLBACK_MAX, SKEP_CALLBACK_MAX, "");
	say_rest();
	check_refusal(SKEP_E_WORKER, "rank 0 of 3 ended in the middle",
		      "the longest one is read");
	stub_reset();
	say_callback(0, head + 4, 5, "hello");
	say_rest();
	check_refusal(SKEP_E_WORKER, want, "the head says another length");
	tap_ok(!stub.asks, "the master does not hear of this either");
	stub_reset();
	say_callback(0, head, 5, "hello");
	say_rest();
	check_refusal(SKEP_E_WORKER, want, "the head says more than there is");
	stub_reset();
	say_callback(0, head + 5, 5, "hell");
	say_rest();
	stub.stays = 0;
	check_refusal(SKEP_E_WORKER, "rank 0 of 3 ended in the middle",
		      "the end comes before the arguments");
	tap_ok(!stub.asks, "half a callback is none");
	stub_reset();
	say_answer(0, 0, 0, "");
	say_callback(1, head, 0, "");
	say_answer(2, 0, 0, "");
	check_refusal(SKEP_E_WORKER, "rank 1 of 3 returned bytes",
		      "a callback of another rank");
	tap_ok(!stub.asks, "only rank 0 asks the master");
}

/* The function ends before the callback has returned, so RETURN is dropped. */
static void test_ends(void)
{
	const u64 head = sizeof(stub.head);

	stub_reset();
	stub.silent = 3;
	say_callback(0, head + 2, 2, "hi");
	say_callback(0, head + 2, 2, "hi");
	say_rest();
	check_refusal(SKEP_E_WORKER,
		      "a callback of rank 0 of 3 cannot be passed on",
		      "a second callback before RETURN");
	tap_ok(stub.asks == 1 && stub.returns == 1,
	       "the agent's RETURN is taken before the call ends: %u, %u",
	       stub.asks, stub.returns);
	stub_reset();
	stub.silent = 4;
	say_callback(0, head + 2, 2, "hi");
	say_answer(0, 0, 0, "");
	say_rest();
	check_refusal(SKEP_E_WORKER,
		      "rank 0 of 3 ended the function while the master "
		      "answered it",
		      "an end before RETURN");
	tap_ok(stub.returns == 1, "its RETURN is taken too");
	tap_ok(stub.left, "the job ends before RETURN comes");
	stub_reset();
	stub.silent = 4;
	say_callback(0, head + 2, 2, "hi");
	say_answer(0, SKEP_E_ARGUMENTS, 3, "why");
	say_rest();
	check_refusal(SKEP_E_ARGUMENTS, "rank 0 of 3: why",
		      "the reason of the end counts more");
	stub_reset();
	stub.take_error = -ENOMEM;
	stub.stays = 1;
	say_callback(0, head + 2, 2, "hi");
	check_refusal(SKEP_E_WORKER,
		      "a callback of rank 0 of 3 cannot be passed on: Cannot "
		      "allocate memory",
		      "no memory for what came back");
	stub_reset();
	say_callback(0, head + 2, 2, "hi");
	say_rest();
	check_refusal(SKEP_E_WORKER, "rank 0 of 3 ended",
		      "rank 0 is gone after it has asked");
}

/* RETURN never comes, because of this. */
static void test_no_return(void)
{
	const u64 head = sizeof(stub.head);
	int err;

	stub_reset();
	stub.silent = 1;
	stub.take_error = -EPIPE;
	say_callback(0, head + 2, 2, "hi");
	say_answer(0, 0, 0, "");
	say_rest();
	err = run_call();
	tap_ok(err == -EPIPE && stub.takes == 2,
	       "the session ends in place of RETURN: %d, %u", err, stub.takes);
	end_run();
	stub_reset();
	stub.silent = 1;
	stub.take_error = -ENOMEM;
	say_callback(0, head + 2, 2, "hi");
	say_answer(0, 0, 0, "");
	say_rest();
	check_refusal(SKEP_E_WORKER, "rank 0 of 3 ended the function",
		      "there is no memory for RETURN");
}

/* The launcher ends before its ranks have answered. */
static void test_launcher(void)
{
	const struct ranks_answer why = {SKEP_E_ARGUMENTS, 0, 3, 0};

	stub_reset();
	stub.stays = 1;
	stub.ended = 1;
	check_refusal(SKEP_E_WORKER,
		      "the job of 3 ranks ended in the middle of the function",
		      "the launcher has ended");
	stub_reset();
	stub.stays = 1;
	stub.ended = 1;
	memcpy(stub.later.bytes, &why, sizeof(why));
	memcpy(stub.later.bytes + sizeof(why), "why", 3);
	stub.later.length = sizeof(why) + 3;
	check_refusal(SKEP_E_ARGUMENTS, "rank 0 of 3: why",
		      "what a rank said as it ended counts more");
	stub_reset();
	stub.stays = 1;
	stub.ended = 1;
	stub.later.length = sizeof(why); /* of zeroes: rank 0 has answered */
	check_refusal(SKEP_E_WORKER, "the job of 3 ranks ended in the middle",
		      "the others have not answered");
}

static void test_session(void)
{
	const u64 head = sizeof(stub.head);
	int err;

	stub_reset();
	stub.ask_error = -EPIPE;
	say_callback(0, head + 2, 2, "hi");
	say_rest();
	err = run_call();
	tap_ok(err == -EPIPE, "the session ends when the master is asked: %d",
	       err);
	end_run();
	stub_reset();
	stub.take_error = -EPIPE;
	stub.stays = 1;
	say_callback(0, head + 2, 2, "hi");
	err = run_call();
	tap_ok(err == -EPIPE && stub.takes == 1,
	       "the session ends before RETURN: %d", err);
	end_run();
	stub_reset();
	stub.stays = 1;
	stub_session_end();
	err = run_call();
	tap_ok(err == -EPIPE && !stub.asks, "the agent is gone: %d", err);
	end_run();
}

/* A callback and a result, as grid/test/job_fuzz.c takes them. */
static int write_seed(const char *path)
{
	FILE *file = fopen(path, "w");

	stub_reset();
	say_callback(0, sizeof(stub.head) + 5, 5, "hello");
	say_answer(0, 0, 8, "resultof");
	if (!file)
		return 1;
	fputc(0, file);
	fwrite(stub.says[0].bytes, stub.says[0].length, 1, file);
	return fclose(file) != 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return write_seed(argv[1]);
	if (stub_open())
		return 1;
	test_results();
	test_refusals();
	test_reasons();
	test_hellos();
	test_callback(4);
	test_callback(0);
	test_two_callbacks();
	test_wrong_callbacks();
	test_ends();
	test_no_return();
	test_launcher();
	test_session();
	return tap_done();
}
