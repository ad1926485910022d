/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes what the program writes to the area, while the engine reads it: the
 * core is compiled with unsteady.h, so that any word may change before any
 * read of it.
 */
#include "stand.h"
#include "unsteady.h"

static int busy;

static void write_word(void)
{
	u32 *words = (u32 *)stand.area;
	u32 at = stand_word() % (u32)(stand.core->ring.outbox / 4);

	words[at] = stand_word();
}

static void submit_entry(void)
{
	struct o2g_sqe *ring =
		(struct o2g_sqe *)((u8 *)stand.area + sizeof(*stand.area));
	struct o2g_sqe *sqe = &ring[stand_byte() & 15];

	*sqe = (struct o2g_sqe){
		.op = stand_byte() & 15,
		.flags = stand_byte() & 0x7f,
		.peer = stand_byte() & 3,
		.tag = stand_byte() & 3,
		.ignore = stand_byte() & 3,
		.addr = stand_byte() & 3 ? 4096 : stand_long(),
		.length = stand_byte() & 3 ? stand_byte() : stand_long(),
		.data = stand_byte() & 3 ? stand_byte() : stand_long(),
		.cookie = stand_byte() & 7,
	};
	if (sqe->op == O2G_OP_ATOMIC && stand_byte() & 7) {
		sqe->context = stand_byte() % (O2G_ATOMIC_OPERATIONS + 1) |
			       (stand_byte() % (O2G_ATOMIC_TYPES + 1)) << 8 |
			       (stand_byte() & 1) << 16;
		sqe->length = 8u * (stand_byte() & 63);
	}
	if (sqe->peer == 3)
		sqe->peer = O2G_ANY_PEER;
}

void change_area(void)
{
	if (busy || !stand.left || !stand.core || stand_byte() & 0xf)
		return;
	busy = 1;
	switch (stand_byte() & 7) {
	case 0:
		if (stand_byte() < 20)
			write_word();
		break;
	case 1:
		stand.area->cq.head += stand_byte() & 15;
		break;
	case 2:
		stand.area->sq.flags = stand_byte();
		break;
	case 3:
		stand.area->cq.flags = stand_byte();
		break;
	default:
		submit_entry();
	}
	busy = 0;
}

static void run_action(u8 what)
{
	switch (what >> 1 & 7) {
	case 0:
	case 1:
	case 2:
		submit_entry();
		stand.area->sq.tail += stand_byte() & 3;
		o2g_core_consume(stand.core);
		break;
	case 3:
		stand.area->cq.head = stand.area->cq.tail;
		o2g_core_consume(stand.core);
		break;
	case 4:
		stand_copies();
		break;
	case 5:
		stand_drain(what & 1);
		break;
	case 6:
		o2g_core_wakes(stand.core);
		break;
	default:
		stand_frame(what & 1);
	}
}

int LLVMFuzzerTestOneInput(const u8 *input, __SIZE_TYPE__ length);

int LLVMFuzzerTestOneInput(const u8 *input, __SIZE_TYPE__ length)
{
	stand_open(input, length);
	while (stand.left) {
		run_action(stand_byte());
		stand_check();
	}
	stand_close();
	return 0;
}
