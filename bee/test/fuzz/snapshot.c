/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: arbitrary bytes as sections of a snapshot with a right head
 * and digest, in a buffer of its exact size. What the parser accepts must be
 * readable section by section.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bee/core/core.h"
#include "bee/core/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len);

void bee_sha256_init(struct skep_sha256 *s)
{
	skep_sha256_init(s);
}

/* Each byte of each section is read. */
static u64 read_sections(const struct bee_snapshot *s)
{
	const u8 *p;
	u64 at, n, i, sum = 0;
	u32 type;

	for (type = BEE_SNAP_EARLY; type <= BEE_SNAP_END; type++)
		for (at = 0; (p = bee_snap_next(s, &at, type, &n));)
			for (i = 0; i < n; i++)
				sum += p[i];
	return sum + s->process->exe[ABI_PATH_MAX - 1] + s->cpu->xsave_size +
	       s->program->cpu_ns;
}

static void parse_copy(const u8 *bytes, u64 len)
{
	static volatile u64 sum;
	struct bee_snapshot s;
	u8 *copy = malloc(len ? len : 1);

	memcpy(copy, bytes, len);
	if (!bee_snap_parse(&s, copy, len))
		sum = read_sections(&s);
	free(copy);
}

/* The fixed records are large: a byte says how many sections of which type and
 * size come next, and zeros fill them. */
static u64 build_sections(u8 *to, u64 size, const uint8_t *in, size_t len)
{
	struct bee_snap_section head = {0};
	u64 at = sizeof(struct bee_snap_head), n;
	static const u32 lens[] = {
		[BEE_SNAP_FILE] = sizeof(struct bee_snap_file),
		[BEE_SNAP_EARLY] = 8 + SKEP_PAGE_SIZE,
		[BEE_SNAP_CPU] = sizeof(struct bee_snap_cpu),
		[BEE_SNAP_PROGRAM] = sizeof(struct bee_snap_program),
		[BEE_SNAP_PROCESS] = sizeof(struct abi_snap_process),
		[BEE_SNAP_LIBRARY] = sizeof(struct bee_snap_library),
		[BEE_SNAP_AREA] = sizeof(struct abi_snap_area),
		[BEE_SNAP_PAGE] = 8 + SKEP_PAGE_SIZE,
		[BEE_SNAP_THREAD] = sizeof(struct abi_snap_thread),
		[BEE_SNAP_PIPE] = sizeof(struct bee_snap_pipe),
		[BEE_SNAP_REMOVED] = sizeof(struct bee_snap_removed),
		[BEE_SNAP_CONTENT] = sizeof(struct bee_snap_content) + 8,
		[BEE_SNAP_DESC] = sizeof(struct abi_snap_desc),
		[BEE_SNAP_NUMBER] = sizeof(struct abi_snap_number),
		[BEE_SNAP_WATCH] = sizeof(struct abi_snap_watch),
		[BEE_SNAP_SIGNAL] = sizeof(struct abi_snap_signal),
		[BEE_SNAP_MEMBER] = sizeof(struct bee_snap_member),
		[BEE_SNAP_SHARED] = sizeof(struct bee_snap_shared),
		[BEE_SNAP_PART] = sizeof(struct bee_snap_part) + 8,
		[BEE_SNAP_END] = 0};

	while (len >= 4) {
		head.type = in[0] % (BEE_SNAP_END + 2);
		head.len = head.type <= BEE_SNAP_END ? lens[head.type] : 5;
		head.len += in[1] & 0x80 ? in[1] & 0x7f : 0;
		n = in[2] < len - 3 ? in[2] : len - 3;
		if (at + sizeof(head) + head.len + 8 > size)
			break;
		memcpy(to + at, &head, sizeof(head));
		at += sizeof(head);
		memset(to + at, 0, head.len + 8);
		memcpy(to + at, in + 3, n < head.len ? n : head.len);
		if (head.type == BEE_SNAP_CPU)
			((struct bee_snap_cpu *)(to + at))->xsave_size += 576;
		if (head.type == BEE_SNAP_PROCESS)
			((struct abi_snap_process *)(to + at))->exe[0] = '/';
		at += (head.len + 7) & ~7ull;
		in += 3 + n;
		len -= 3 + n;
	}
	return at;
}

static void finish_file(u8 *bytes, u64 len)
{
	struct bee_snap_head head = {.version = BEE_SNAP_VERSION};
	struct skep_sha256 sha;

	memcpy(head.magic, BEE_SNAP_MAGIC, sizeof(head.magic));
	memcpy(bytes, &head, sizeof(head));
	skep_sha256_init(&sha);
	skep_sha256_update(&sha, bytes, len);
	skep_sha256_final(&sha, bytes + len);
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len)
{
	static _Alignas(8) u8 bytes[1 << 17];
	u64 n;

	if (len > 4096)
		return 0;
	parse_copy(in, len);
	memcpy(bytes + sizeof(struct bee_snap_head), in, len);
	finish_file(bytes, sizeof(struct bee_snap_head) + len);
	parse_copy(bytes, sizeof(struct bee_snap_head) + len + BEE_SNAP_DIGEST);
	n = build_sections(bytes, sizeof(bytes) - BEE_SNAP_DIGEST, in, len);
	finish_file(bytes, n);
	parse_copy(bytes, n + BEE_SNAP_DIGEST);
	return 0;
}
