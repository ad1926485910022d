/* SPDX-License-Identifier: MIT */
/*
 * Checks code that was made at run time. It is allowed only if no byte offset
 * of it holds an instruction that bee would have to rewrite. Pure; no state, no
 * lock.
 */
#include "bee/rewrite/internal.h"

static int refuse_code(u64 at, const char *what, u64 *bad, char *why)
{
	static const char before[] = "run-time generated code contains ";
	u32 n = 0;

	for (const char *s = before; *s; s++)
		why[n++] = *s;
	for (; *what && n < 159; what++)
		why[n++] = *what;
	why[n] = 0;
	*bad = at;
	return -LINUX_EACCES;
}

static const char *name_of(const struct bee_class *class,
			   const struct bee_insn *insn)
{
	switch (class->need) {
	case BEE_NEED_NOTHING:
		return 0;
	case BEE_NEED_ENTRY:
		return "syscall";
	case BEE_NEED_CPU:
		return "cpuid or xgetbv";
	case BEE_NEED_REFUSAL:
		return class->why;
	default:
		return insn->memory ? "an access through fs:" : "rdfsbase";
	}
}

static int may_begin(u8 byte)
{
	return byte == 0x0f || byte == 0x64 || byte == 0x65 || byte == 0xcd ||
	       byte == 0xf3 || byte == 0x8c || byte == 0x8e;
}

/*
 * Bytes that follow later may complete an instruction that the end cuts off, so
 * the worst case is assumed.
 */
int bee_text_check(const u8 *bytes, u64 len, u64 *bad, char *why)
{
	for (u64 at = 0; at < len; at++) {
		struct bee_class class;
		struct bee_insn insn;
		const char *what;
		int rc;

		if (!may_begin(bytes[at]))
			continue;
		rc = bee_decode(bytes + at, len - at, &insn);
		if (rc == -LINUX_EFAULT && len - at < 15)
			return refuse_code(at,
					   "an instruction cut off at its end",
					   bad, why);
		if (rc < 0)
			continue;
		bee_classify(bytes + at, &insn, &class);
		what = name_of(&class, &insn);
		if (what)
			return refuse_code(at, what, bad, why);
	}
	return 0;
}
