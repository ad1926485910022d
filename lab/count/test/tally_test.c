// SPDX-License-Identifier: MIT
/* The tally alone, fed with instructions that are not executed. */
#include <string.h>
#include "../tally.h"
#include "tests/tap.h"

#define KERNEL 0xffffffff81000000

static const struct tally_kind plain = {.point = -1};

static void add_mark(struct tally *t, bool end, unsigned int n)
{
	struct tally_kind kind = {
		.point = -1, .mark = true, .end = end, .interval = n};

	count_tally_step(t, 0x400000 + n + 0x100 * end, &kind);
}

static void run_block(struct tally *t, uint64_t address, unsigned int length)
{
	for (unsigned int i = 0; i < length; i++)
		count_tally_step(t, address + i, &plain);
}

static void test_only_between_marks(void)
{
	struct tally t = {0};

	run_block(&t, 0x1000, 5);
	run_block(&t, KERNEL, 5);
	add_mark(&t, false, 3);
	run_block(&t, 0x1000, 7);
	add_mark(&t, true, 3);
	run_block(&t, 0x1000, 9);
	run_block(&t, KERNEL, 5);
	TAP(t.sum[3].user == 7);
	TAP(t.sum[3].kernel == 0 && t.sum[3].entries == 0);
	TAP(t.times[3] == 1 && t.lost == 0 && t.open == 0);
	TAP(t.sum[2].user == 0 && t.times[2] == 0);
}

static void test_intervals_add_up_nest_and_overlap(void)
{
	struct tally t = {0};

	add_mark(&t, false, 0);
	run_block(&t, 0x1000, 10);
	add_mark(&t, false, 15);
	run_block(&t, 0x2000, 100);
	add_mark(&t, true, 0);
	run_block(&t, 0x3000, 1000);
	add_mark(&t, true, 15);
	add_mark(&t, false, 0);
	run_block(&t, 0x1000, 1);
	add_mark(&t, true, 0);
	TAP(t.sum[0].user == 111 && t.times[0] == 2);
	TAP(t.sum[15].user == 1100 && t.times[15] == 1);
}

static void test_entries_by_first_address(void)
{
	struct tally t = {0};

	add_mark(&t, false, 1);
	run_block(&t, KERNEL, 20);
	for (int i = 0; i < 3; i++) {
		run_block(&t, 0x1000, 2);
		run_block(&t, KERNEL + 0x40, 4);
	}
	add_mark(&t, true, 1);
	TAP(t.sum[1].entries == 4);
	TAP(t.entry_count == 2 && t.entry_address[0] == KERNEL &&
	    t.sum[1].entry[0] == 1);
	TAP(t.entry_address[1] == KERNEL + 0x40 && t.sum[1].entry[1] == 3);
	TAP(t.sum[1].kernel == 32 && t.sum[1].user == 6);
}

static void test_more_entries_than_the_table_holds(void)
{
	struct tally t = {0};

	add_mark(&t, false, 1);
	for (unsigned int i = 0; i < TALLY_ENTRIES + 5; i++) {
		run_block(&t, 0x1000, 1);
		run_block(&t, KERNEL + 16 * i, 1);
	}
	add_mark(&t, true, 1);
	TAP(t.sum[1].entries == TALLY_ENTRIES + 5);
	TAP(t.sum[1].entries_other == 5);
	TAP(t.sum[1].entry[TALLY_ENTRIES - 1] == 1);
}

static void test_marks_that_do_not_fit_are_lost(void)
{
	struct tally t = {0};

	add_mark(&t, true, 2);
	add_mark(&t, false, 2);
	run_block(&t, 0x1000, 3);
	add_mark(&t, false, 2);
	run_block(&t, 0x2000, 4);
	add_mark(&t, true, 2);
	TAP(t.lost == 2);
	TAP(t.sum[2].user == 7 && t.times[2] == 1);
}

static void test_repeated_instruction_is_one(void)
{
	struct tally t = {0};
	struct tally_kind branch = {.point = -1, .self_branch = true};

	add_mark(&t, false, 0);
	for (int i = 0; i < 50; i++)
		count_tally_step(&t, 0x1000, &plain);
	for (int i = 0; i < 50; i++)
		count_tally_step(&t, 0x1002, &branch);
	add_mark(&t, true, 0);
	TAP(t.sum[0].user == 51);
}

static void test_restart_after_a_fault(void)
{
	struct tally t = {0};
	struct tally_kind within = {.ranges = 2, .point = -1};

	add_mark(&t, false, 0);
	run_block(&t, 0x1000, 3);
	run_block(&t, KERNEL, 9);
	run_block(&t, 0x1002, 3);
	run_block(&t, KERNEL, 9);
	run_block(&t, 0x1005, 1);
	add_mark(&t, true, 0);
	TAP(t.sum[0].user == 7);
	TAP(t.sum[0].restarts == 1);

	add_mark(&t, false, 1);
	count_tally_step(&t, 0x2000, &within);
	run_block(&t, KERNEL, 9);
	count_tally_step(&t, 0x2000, &within);
	run_block(&t, KERNEL, 9);
	count_tally_step(&t, 0x2001, &within);
	run_block(&t, 0x1000, 1);
	run_block(&t, KERNEL, 9);
	run_block(&t, 0x1000, 1);
	add_mark(&t, true, 1);
	TAP(t.sum[1].range[1] == 3 && t.sum[1].range_restarts[1] == 1);
	TAP(t.sum[1].restarts == 2 && t.sum[1].range_restarts[0] == 0);
}

static void test_ranges_and_points(void)
{
	struct tally t = {0};
	struct tally_kind both = {.ranges = 5, .point = 31};
	struct tally_kind last = {.ranges = 1U << 15, .point = -1};

	add_mark(&t, false, 0);
	count_tally_step(&t, 0x1000, &both);
	run_block(&t, 0x1001, 4);
	count_tally_step(&t, 0x1000, &both);
	count_tally_step(&t, 0x2000, &last);
	add_mark(&t, true, 0);
	TAP(t.sum[0].range[0] == 2 && t.sum[0].range[2] == 2);
	TAP(t.sum[0].range[1] == 0 && t.sum[0].range[15] == 1);
	TAP(t.sum[0].point[31] == 2 && t.sum[0].point[0] == 0);
	TAP(t.sum[0].user == 7);
}

/* What another thread may read changes only where quiet says no. */
static void test_quiet_steps_leave_the_shared_part(void)
{
	struct tally t = {0}, before;
	struct tally_kind m = {.point = -1, .mark = true};
	size_t shared = offsetof(struct tally, open);

	TAP(count_tally_quiet(&t, KERNEL, &plain));
	TAP(!count_tally_quiet(&t, 0x1000, &m));
	add_mark(&t, false, 0);
	TAP(!count_tally_quiet(&t, KERNEL, &plain));
	run_block(&t, KERNEL, 1);
	run_block(&t, 0x1000, 1);
	TAP(count_tally_quiet(&t, KERNEL, &plain));
	before = t;
	run_block(&t, KERNEL, 1);
	run_block(&t, 0x1000, 20);
	TAP(!memcmp((char *)&t + shared, (char *)&before + shared,
		    sizeof(t) - shared));
}

static void test_self_branches(void)
{
	TAP(count_tally_self_branch((const uint8_t *)"\xeb\xfe", 2));
	TAP(count_tally_self_branch((const uint8_t *)"\x75\xfe", 2));
	TAP(count_tally_self_branch((const uint8_t *)"\xe2\xfe", 2));
	TAP(count_tally_self_branch((const uint8_t *)"\xe9\xfb\xff\xff\xff",
				    5));
	TAP(count_tally_self_branch((const uint8_t *)"\x0f\x85\xfa\xff\xff\xff",
				    6));
	TAP(!count_tally_self_branch((const uint8_t *)"\xeb\xfc", 2));
	TAP(!count_tally_self_branch((const uint8_t *)"\xf3\xa4", 2));
	TAP(!count_tally_self_branch((const uint8_t *)"\x90", 1));
}

/* The bytes of a real mark, as the compiler laid them out. */
__attribute__((noinline, used)) static void marked_code(void)
{
	SKEP_MARK_BEGIN(0);
	SKEP_MARK_END(15);
}

static unsigned int find_marks(struct tally_kind found[2])
{
	const uint8_t *code = (const uint8_t *)(uintptr_t)marked_code;
	unsigned int n = 0;

	for (int i = 0; i < 64 && n < 2; i++) {
		struct tally_kind kind = {.point = -1};

		count_tally_read_mark(&kind, code + i, 7);
		if (kind.mark)
			found[n++] = kind;
	}
	return n;
}

static void test_mark_bytes(void)
{
	struct tally_kind found[2] = {0}, kind = {0};

	TAP(find_marks(found) == 2);
	TAP(!found[0].end && found[0].interval == 0);
	TAP(found[1].end && found[1].interval == 15);
	count_tally_read_mark(&kind, (const uint8_t *)"\x0f\x1f\x80\0\0\0\0",
			      7);
	TAP(!kind.mark);
	count_tally_read_mark(&kind,
			      (const uint8_t *)"\x0f\x1f\x80\x20\0\x4b\x5b", 7);
	TAP(!kind.mark);
	count_tally_read_mark(&kind, (const uint8_t *)"\x0f\x1f\x80", 3);
	TAP(!kind.mark);
}

int main(void)
{
	test_only_between_marks();
	test_intervals_add_up_nest_and_overlap();
	test_entries_by_first_address();
	test_more_entries_than_the_table_holds();
	test_marks_that_do_not_fit_are_lost();
	test_repeated_instruction_is_one();
	test_restart_after_a_fault();
	test_ranges_and_points();
	test_quiet_steps_leave_the_shared_part();
	test_self_branches();
	test_mark_bytes();
	return tap_done();
}
