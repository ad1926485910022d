// SPDX-License-Identifier: MIT
/*
 * What the front of an MPI job reads from one of its ranks. The other ranks say
 * what is right. The first byte says which rank it is, how often the session
 * has another frame than RETURN, and whether the rank's hello is among its
 * bytes.
 */
#include <errno.h>
#include <grid/core/marshal.h>
#include <stdlib.h>
#include <string.h>

#include "ranks_stub.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define RESULT_MAX 64

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return stub_open();
}

static void check_that(int ok)
{
	if (!ok)
		abort();
}

/* A call has at most one callback at a time, and RETURN is always taken. */
static void check_result(int err, const struct job_result *r)
{
	check_that(!err || err == -EPIPE);
	check_that(memchr(r->text, 0, sizeof(r->text)) != NULL);
	check_that(!(err || r->code) || !r->bytes);
	check_that(!r->bytes || r->length <= RESULT_MAX);
	check_that(stub.asks == stub.returns);
	check_that(!stub.asks || stub.head.length <= SKEP_CALLBACK_MAX);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct job_result r;
	static const struct ranks_answer right;
	struct job_call call = {
		STUB_RANKS, {RANKS_CALL, 0, 0, RESULT_MAX}, data, 1, &stub_way};
	u32 i, wild;
	int err;

	if (!size)
		return 0;
	wild = data[0] % STUB_RANKS;
	stub_reset();
	stub.silent = data[0] >> 2 & 3;
	for (i = 0; i < STUB_RANKS; i++) {
		if (i != wild)
			stub_say(i, &right, sizeof(right));
	}
	if (data[0] & 0x80 && size > sizeof(stub.hello[0])) {
		memcpy(&stub.hello[wild], data + 1, sizeof(stub.hello[0]));
		data += sizeof(stub.hello[0]);
		size -= sizeof(stub.hello[0]);
	}
	stub_say(wild, data + 1, size - 1);
	err = job_call(&call, &r);
	check_result(err, &r);
	if (r.bytes)
		grid_memory_heap.free(&grid_memory_heap, r.bytes, r.length);
	job_end(1);
	stub_close();
	return 0;
}
