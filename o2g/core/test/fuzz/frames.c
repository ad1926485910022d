/* SPDX-License-Identifier: MIT */
/* Fuzzes what peers say, beside a program that keeps the rules. */
#include "stand.h"

#define BUFFERS 0x100000u
#define BUFFERS_END 0x900000u
#define REGION 0x800000u

static void submit_entry(struct o2g_sqe sqe)
{
	sqe.peer = stand_byte() & 3;
	if (sqe.peer == 3)
		sqe.peer = sqe.op == O2G_OP_SEND ? 1 : O2G_ANY_PEER;
	sqe.context = stand_byte() & 1;
	sqe.tag = stand_byte() & 3;
	sqe.cookie = stand_byte() & 31;
	sqe.addr = BUFFERS + (stand_word() & 0xffff);
	sqe.length = (u64)stand_byte() << (stand_byte() % 13);
	if (sqe.op == O2G_OP_SEND && sqe.flags & O2G_SQE_AREA) {
		sqe.addr = stand.area->outbox;
		sqe.length &= 4095;
	}
	if (o2g_ring_submit(stand.area, &sqe) &&
	    (stand_byte() & 1 || o2g_ring_kicks(stand.area)))
		o2g_core_consume(stand.core);
}

/* Regions come and go inside the program's buffers; accesses of its own. */
static void change_access(u8 what)
{
	const struct o2g_region_options options = {
		.key = what & 1,
		.address = REGION + (what & 1) * 0x10000u,
		.length = 0x10000,
		.first = what & 2 ? REGION : 0,
		.rights = what >> 2 & 7,
	};
	struct o2g_sqe sqe = {
		.op = what & 1 ? O2G_OP_WRITE : O2G_OP_READ,
		.peer = stand_byte() & 3,
		.tag = stand_byte() & 1,
		.ignore = stand_byte(),
		.addr = BUFFERS + (stand_word() & 0xffff),
		.length = (u64)stand_byte() << (stand_byte() % 13),
	};

	if (stand_byte() & 1) {
		sqe.op = O2G_OP_ATOMIC;
		sqe.context = (1 + stand_byte() % O2G_ATOMIC_MSWAP) |
			      (1 + stand_byte() % O2G_ATOMIC_F64) << 8 |
			      (stand_byte() & 1) << 16;
		sqe.ignore &= 0xf8;
		sqe.length = 8u * (1 + (stand_byte() & 63));
		sqe.data = BUFFERS + (stand_word() & 0xffff);
	}
	if (what & 0x80)
		o2g_region_remove(stand.core, what & 1);
	else if (what & 0x40)
		o2g_region_add(stand.core, &options);
	else if (o2g_ring_submit(stand.area, &sqe))
		o2g_core_consume(stand.core);
}

static void run_program(u8 what)
{
	struct o2g_sqe sqe = {.op = O2G_OP_RECV};

	switch (what & 7) {
	case 0:
		sqe.flags = O2G_SQE_MULTI;
		sqe.data = stand_byte();
		break;
	case 1:
		sqe.ignore = ~0ull;
		break;
	case 2:
		sqe.ignore = stand_byte();
		break;
	case 3:
		sqe.op = O2G_OP_SEND;
		sqe.flags = stand_byte() & (O2G_SQE_AREA | O2G_SQE_QUIET);
		break;
	case 4:
		sqe.op = O2G_OP_PEEK;
		sqe.flags = stand_byte() & O2G_SQE_CLAIM;
		break;
	case 5:
		sqe.op = O2G_OP_CANCEL;
		break;
	case 6:
		sqe.op = O2G_OP_DISCARD;
		sqe.data = (u64)(stand_byte() & 3) << 32 | (stand_byte() & 7);
		break;
	}
	submit_entry(sqe);
}

static void run_action(u8 what)
{
	const u32 conn = what & 1;

	switch (what >> 1 & 15) {
	case 0:
		stand_feed(conn, stand_byte());
		break;
	case 1:
		stand_copies();
		break;
	case 2:
		stand_drain(conn);
		break;
	case 3:
		stand_take(stand_byte());
		break;
	case 4:
		if (stand.conn[conn])
			o2g_conn_name(stand.conn[conn], conn + 1);
		break;
	case 5:
		if (stand_byte() < 10 && stand.conn[conn])
			o2g_conn_bye(stand.conn[conn]);
		break;
	case 6:
		if (stand_byte() < 3)
			stand_end(conn, 0);
		break;
	case 7:
		stand_attach(conn);
		break;
	case 8:
	case 9:
	case 10:
		run_program(stand_byte());
		break;
	case 11:
		change_access(stand_byte());
		break;
	default:
		stand_frame(conn);
	}
}

int LLVMFuzzerTestOneInput(const u8 *input, __SIZE_TYPE__ length);

int LLVMFuzzerTestOneInput(const u8 *input, __SIZE_TYPE__ length)
{
	stand_open(input, length);
	stand.program = BUFFERS;
	stand.program_end = BUFFERS_END;
	while (stand.left) {
		run_action(stand_byte());
		stand_check();
	}
	stand_close();
	return 0;
}
