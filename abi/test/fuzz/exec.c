// SPDX-License-Identifier: MIT
/*
 * The record of execve against its reader: libFuzzer chooses bytes of a good
 * record to replace, and where it ends. The copy ends where the memory does.
 */
#include "abi/test/record.h"

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ size);

static void walk_view(const struct abi_exec_view *v)
{
	const char *text = v->strings;
	struct abi_exec_number n;
	u64 cur, max, all;
	u32 i;

	all = strlen(v->cwd);
	for (i = 0; i < v->argc + v->envc; i++)
		text += strlen(text) + 1;
	for (i = 0; i < v->numbers; i++) {
		abi_exec_view_number(v, i, &n);
		if (n.path)
			all += strlen(n.path);
		if (n.fd >= ABI_FD_MAX)
			abort();
	}
	for (i = 0; i < ABI_RLIMITS; i++)
		abi_exec_view_limit(v, i, &cur, &max);
	if (all > (ABI_FD_MAX + 1) * 4096ull)
		abort();
}

static struct record make_record(void)
{
	struct record r = record_new("/");

	record_number(&r, 0, ABI_DESC_STREAM, 0);
	strcpy(record_number(&r, 1, ABI_DESC_NULL, 0)->path, "/dev/null");
	record_string(&r, "sh", 1);
	record_string(&r, "-c", 1);
	record_string(&r, "A=b", 0);
	return r;
}

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ size)
{
	struct record r = make_record();
	struct abi_exec_view view;
	u64 i, len = r.len;
	void *copy;

	/* the last bytes change the length; the head is chosen more often */
	if (size % 3 == 2)
		len = (u64)(data[size - 1] << 8 | data[size - 2]) % (len + 1);
	for (i = 0; i + 2 < size; i += 3) {
		u64 at = (u64)(data[i] << 8 | data[i + 1]) % r.len;

		((u8 *)r.state)[data[i] & 0x80 ? at % 64 : at] = data[i + 2];
	}
	copy = malloc(len);
	memcpy(copy, r.state, len);
	if (!abi_exec_read(copy, len, &view))
		walk_view(&view);
	free(copy);
	free(r.state);
	return 0;
}
