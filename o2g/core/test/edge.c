/* SPDX-License-Identifier: MIT */
/* Limits and counts, each at the place where it just holds. */
#include "pair.h"
#include "suite.h"

#define TRUE(condition) check(!!(condition), #condition)

static struct pair p;
static u8 body[100];
static check_fn *check;

/* Parts begin at pages, and no page lies between them. */
static void area_layout(void)
{
	const u64 rings =
		sizeof(struct o2g_area) +
		16 * (sizeof(struct o2g_sqe) + sizeof(struct o2g_cqe));
	const u64 first = (rings + 4095) / 4096 * 4096;
	struct o2g_area area;
	u64 size = 0;

	TRUE(o2g_area_size(16, 16, 4096, 8192, &size) == 0);
	TRUE(o2g_area_format(&area, 16, 16, 4096, 8192) == 0);
	check(area.outbox == first && area.slab == first + 4096 &&
		      area.size == first + 4096 + 8192 && size == area.size,
	      "an area has no page more than its parts");
	TRUE(o2g_area_size(16, 16, 1, 1, &size) == 0 && size == first + 8192);
	check(o2g_area_size(16, 16, O2G_AREA_PART, O2G_AREA_PART, &size) == 0 &&
		      o2g_area_size(16, 16, O2G_AREA_PART + 1, 0, &size) ==
			      -LINUX_EINVAL &&
		      o2g_area_size(16, 16, 0, O2G_AREA_PART + 1, &size) ==
			      -LINUX_EINVAL,
	      "a part of the area is as large as its limit at most");
}

/* Gathered twice, it may still go out once only. */
static void test_gathered(void)
{
	struct o2g_piece piece[4];
	const u64 all = O2G_FRAME_SIZE + 100;

	pair_open(&p, &pair_plain, 0x10000);
	bed_send(&p.bed[0], 1, 1, body, 100, 1);
	TRUE(o2g_tx_gather(p.end[0].conn, piece, 4) == 2);
	TRUE(o2g_tx_gather(p.end[0].conn, piece, 4) == 2 &&
	     piece[0].length + piece[1].length == all);
	check(o2g_tx_done(p.end[0].conn, all + 1) == -LINUX_EPROTO,
	      "no more goes out than was gathered");
	TRUE(o2g_tx_done(p.end[0].conn, all) == 0 && pair_took(&p, 0, 1, 0));
	check(o2g_tx_done(p.end[0].conn, 1) == -LINUX_EPROTO,
	      "what went out does not go out again");
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_close(&p));
}

/* Frames are planned for the room that a call gives, and no further. */
static void test_planned(void)
{
	struct o2g_piece piece[16];

	pair_open(&p, &pair_plain, 0x10000);
	for (u32 i = 0; i < 8; i++)
		bed_send(&p.bed[0], 1, 1, body, 10, i);
	check(o2g_tx_gather(p.end[0].conn, piece, 4) == 4 &&
		      p.end[0].conn->slots == 2,
	      "four pieces are of two frames");
	check(o2g_tx_gather(p.end[0].conn, piece, 16) == 16 &&
		      p.end[0].conn->slots == 8,
	      "sixteen of eight");
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_close(&p));
}

/* Borrowed is what no one else has, the largest block first. */
static void test_borrowed(void)
{
	struct o2g_slab slab = {0}, tiny = {0};
	u64 length, first, second, third;

	pair_open(&p, &pair_plain, 0x10000);
	TRUE(!o2g_slab_make(&slab, &p.bed[0].host, 0x1000, 0x3000));
	first = o2g_slab_borrow(&slab, 256, &length);
	TRUE(first && length == 0x2000);
	second = o2g_slab_borrow(&slab, 256, &length);
	check(second && length == 0x1000 && second != first,
	      "a borrowed block is borrowed once, the largest first");
	check(!o2g_slab_borrow(&slab, 256, &length) &&
		      !o2g_slab_take(&slab, 256),
	      "and then there is none");
	check(o2g_slab_release(&slab, first) == -LINUX_ENOENT,
	      "what was not lent is not released");
	o2g_slab_lend(&slab, first);
	TRUE(!o2g_slab_release(&slab, first));
	check(!o2g_slab_borrow(&slab, 0x2001, &length),
	      "nothing that is too small is borrowed");
	third = o2g_slab_borrow(&slab, 0x2000, &length);
	check(third == first && length == 0x2000, "what came back is");
	o2g_slab_give(&slab, second);
	o2g_slab_give(&slab, third);
	o2g_slab_free(&slab);
	TRUE(!o2g_slab_make(&tiny, &p.bed[0].host, 0x1000, O2G_SLAB_UNIT));
	check(o2g_slab_borrow(&tiny, 1, &length) && length == O2G_SLAB_UNIT,
	      "the smallest block is borrowed too");
	o2g_slab_give(&tiny, 0x1000);
	o2g_slab_free(&tiny);
	TRUE(pair_close(&p));
}

/* By this number an engine sees whether a stopped connection may go on. */
static void test_changes(void)
{
	u64 before;

	pair_open(&p, &pair_plain, 0x10000);
	before = o2g_core_changes(p.bed[1].core);
	bed_recv(&p.bed[1], 0, 1, 0, body, 10, 1);
	bed_recv(&p.bed[1], 0, 1, 0, body, 10, 2);
	check(o2g_core_changes(p.bed[1].core) == before + 2,
	      "each submission that was read is a change");
	TRUE(pair_close(&p));
}

/* Whoever ends an operation need not know whether a table still has it. */
static void table_removal(void)
{
	const struct o2g_key key = {.tag = 7, .context = 1};
	const u8 secret[16] = {1};
	struct o2g_knot first = {0}, second = {0};
	struct o2g_table table = {0};

	pair_open(&p, &pair_plain, 0x10000);
	TRUE(o2g_table_make(&table, &p.bed[0].host, secret) == 0);
	o2g_table_add(&table, &first, &key);
	o2g_table_add(&table, &second, &key);
	for (int i = 0; i < 2; i++)
		o2g_table_remove(&table, &second);
	check(table.keys == 1 && o2g_table_find(&table, &key) == &first &&
		      first.next == &first && first.prev == &first,
	      "what is in no table can be removed from it again");
	for (int i = 0; i < 2; i++)
		o2g_table_remove(&table, &first);
	TRUE(table.keys == 0 && !o2g_table_find(&table, &key));
	o2g_table_free(&table);
	TRUE(pair_close(&p));
}

/* A second core on the same area, which never comes to be. */
static void test_making(void)
{
	struct bed *bed = &p.bed[0];
	struct o2g_limits limits;
	struct o2g_core *core = bed->core;
	u64 before;

	pair_open(&p, &pair_slab, 0x10000);
	before = bed->allocated;
	limits = bed->limits;
	limits.postings = 0;
	check(o2g_core_make(&core, &bed->host, &limits, bed->area) ==
			      -LINUX_EINVAL &&
		      !core && bed->allocated == before,
	      "limits that cannot be are refused");
	for (u64 n = 1; n <= 4; n++) {
		bed->fail_after = n;
		check(o2g_core_make(&core, &bed->host, &bed->limits,
				    bed->area) == -LINUX_ENOMEM &&
			      (n == 1 || !core) && bed->allocated == before,
		      "a core without memory is not made");
	}
	bed->fail_after = 0;
	TRUE(pair_close(&p));
}

/* Peers: 1 has a connection, 2 is the endpoint itself, 3 is lost, 4 has none,
 * 5 was never named. */
static void name_peers(void)
{
	pair_open(&p, &pair_plain, 0x10000);
	TRUE(!o2g_core_peer(p.bed[0].core, 2, 1));
	TRUE(!o2g_core_peer(p.bed[0].core, 3, 0));
	TRUE(!o2g_core_peer(p.bed[0].core, 4, 0));
	o2g_core_lost(p.bed[0].core, 3, -110);
}

/* An engine says so once, of a peer that has no connection. */
static void test_lost(void)
{
	static const struct {
		u32 peer;
		int error;
	} none[] = {{1, -104}, {2, -104}, {4, 0},
		    {4, 104},  {5, -104}, {O2G_NO_PEER, -104}};

	name_peers();
	for (u32 i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		o2g_core_lost(p.bed[0].core, none[i].peer, none[i].error);
	TRUE(p.bed[0].core->lost_peers == 1);
	bed_recv(&p.bed[0], 4, 1, 0, body, 10, 4);
	bed_recv(&p.bed[0], 2, 1, 0, body, 10, 2);
	bed_recv(&p.bed[0], 1, 1, 0, body, 10, 1);
	check(pair_none(&p, 0), "who is not lost fails no receive");
	o2g_core_lost(p.bed[0].core, 4, -1);
	check(pair_took(&p, 0, 4, -1) && pair_none(&p, 0) &&
		      p.bed[0].core->lost_peers == 2,
	      "any negative number is an error");
	o2g_core_lost(p.bed[0].core, 4, -2);
	check(p.bed[0].core->lost_peers == 2, "a peer is lost once");
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_close(&p));
}

static int attach_peer(u32 peer, u32 out, u32 in)
{
	struct o2g_conn *conn = 0;
	const u64 before = p.bed[0].allocated;
	const int rc =
		o2g_conn_attach(p.bed[0].core, peer, out, in, &p.end[0], &conn);

	TRUE(!rc == !!conn && (!rc || p.bed[0].allocated == before));
	if (conn) {
		TRUE(o2g_conn_host(conn) == &p.end[0]);
		o2g_conn_end(conn, -104);
	}
	return rc;
}

static void test_attached(void)
{
	const u32 least = O2G_CREDIT_MIN, most = O2G_CREDIT_MAX;
	struct o2g_conn *conn;

	name_peers();
	check(attach_peer(1, least, least) == -LINUX_EEXIST &&
		      attach_peer(2, least, least) == -LINUX_EEXIST &&
		      attach_peer(3, least, least) == -110 &&
		      attach_peer(5, least, least) == -LINUX_EHOSTUNREACH,
	      "a peer that cannot have a connection gets none");
	check(attach_peer(4, least - 1, least) == -LINUX_EINVAL &&
		      attach_peer(4, least, least - 1) == -LINUX_EINVAL &&
		      attach_peer(4, most + 1, most) == -LINUX_EINVAL &&
		      attach_peer(4, most, most + 1) == -LINUX_EINVAL,
	      "impossible credit is refused");
	p.bed[0].fail_after = 1;
	check(attach_peer(O2G_NO_PEER, least, most) == -LINUX_ENOMEM,
	      "a connection without memory is refused");
	p.bed[0].fail_after = 0;
	TRUE(attach_peer(O2G_NO_PEER, least, most) == 0);
	TRUE(!o2g_conn_attach(p.bed[0].core, O2G_NO_PEER, most, least,
			      &p.end[0], &conn));
	check(o2g_conn_name(conn, 1) == -LINUX_EEXIST &&
		      o2g_conn_name(conn, 2) == -LINUX_EEXIST &&
		      o2g_conn_name(conn, 3) == -110 &&
		      o2g_conn_name(conn, 5) == -LINUX_EHOSTUNREACH,
	      "nor does one get such a name");
	check(o2g_conn_name(conn, 4) == 0 &&
		      o2g_conn_name(conn, 4) == -LINUX_EEXIST,
	      "a connection gets one name");
	o2g_conn_end(conn, -104);
	check(attach_peer(4, least, least) == -LINUX_ECONNRESET,
	      "a peer whose connection ended stays lost");
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_close(&p));
}

/* A peer's number has a limit; up to it the table grows. */
static void test_numbers(void)
{
	struct bed_options options = pair_plain;

	options.peers = 40;
	pair_open(&p, &options, 0x10000);
	check(o2g_core_peer(p.bed[0].core, 40, 0) == -LINUX_ENOSPC &&
		      o2g_core_peer(p.bed[0].core, ~0u, 0) == -LINUX_ENOSPC,
	      "a number above the limit is refused");
	p.bed[0].fail_after = 1;
	check(o2g_core_peer(p.bed[0].core, 39, 0) == -LINUX_ENOMEM,
	      "a number for which there is no memory is refused");
	p.bed[0].fail_after = 0;
	for (u32 i = 2; i < 40; i++)
		TRUE(!o2g_core_peer(p.bed[0].core, i, 0));
	check(o2g_core_peer(p.bed[0].core, 39, 1) == -LINUX_EEXIST &&
		      p.bed[0].core->peers_made == 40,
	      "a name is given once");
	bed_send(&p.bed[0], 1, 1, body, 10, 1);
	TRUE(pair_run(&p) == 0 && pair_took(&p, 0, 1, 0));
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_close(&p));
}

/* Credit has its engine write what waits; another frame does not. */
static void test_returned(void)
{
	pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
	for (u32 i = 0; i <= O2G_CREDIT_MIN / O2G_MESSAGE_COST; i++)
		bed_send(&p.bed[0], 1, 1, body, 0, i);
	while (bed_write(&p.end[0], 1 << 20) > 0)
		;
	TRUE(!p.end[0].wants);
	bed_send(&p.bed[1], 0, 1, body, 0, 1);
	bed_write(&p.end[1], 1 << 20);
	bed_recv(&p.bed[0], 1, 1, 0, body, 0, 77);
	TRUE(bed_read(&p.end[0], 1 << 20) > 0);
	TRUE(p.end[0].conn->owed == O2G_MESSAGE_COST);
	check(!p.end[0].wants,
	      "neither a frame without credit nor a little owed asks for a "
	      "write");
	for (u32 i = 0; i <= O2G_CREDIT_MIN / O2G_MESSAGE_COST; i++)
		bed_recv(&p.bed[1], 0, 1, 0, body, 0, i);
	TRUE(pair_run(&p) == 0);
	check(p.bed[0].core->counts.sent ==
		      O2G_CREDIT_MIN / O2G_MESSAGE_COST + 1,
	      "returned credit does");
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_close(&p));
}

/* Completions of what went out find no room: the program is asked for it. */
static void test_room(void)
{
	struct bed_options options = pair_plain;

	options.cq = 16;
	pair_open(&p, &options, 0x10000);
	for (u32 i = 0; i < 20; i++)
		bed_send(&p.bed[0], 1, 1, body, 10, i);
	TRUE(!(p.bed[0].area->sq.flags & O2G_NEED_ROOM));
	while (bed_write(&p.end[0], 1 << 20) > 0)
		;
	check(p.bed[0].core->counts.sent == 20 &&
		      p.bed[0].area->sq.flags & O2G_NEED_ROOM,
	      "what went out asks for room of its completions");
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_close(&p));
}

/* Everything that is counted, of five messages and one access. */
static void test_counts(void)
{
	const struct o2g_sqe self = {
		.op = O2G_OP_SEND, .peer = 2, .addr = (u64)body, .length = 7};
	struct o2g_counts from, to;

	pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
	TRUE(!o2g_core_peer(p.bed[0].core, 2, 1));
	bed_recv(&p.bed[1], 0, 1, 0, body, 30, 1);
	bed_send(&p.bed[0], 1, 1, body, 30, 1);
	bed_send(&p.bed[0], 1, 2, body, 40, 2);
	TRUE(pair_run(&p) == 0);
	o2g_core_counts(p.bed[1].core, &to);
	check(to.expected == 1 && to.unexpected == 1 && to.unmatched == 1 &&
		      to.unmatched_bytes == sizeof(struct o2g_message) + 40 &&
		      to.posted == 0 && to.received == 1 &&
		      to.received_bytes == 30 && to.kicks == 1 &&
		      to.frames_in == 2 && to.sent == 0,
	      "what was received is counted");
	bed_recv(&p.bed[1], 0, 2, 0, body, 40, 2);
	bed_recv(&p.bed[1], 0, 3, 0, body, 40, 3);
	bed_submit(&p.bed[0], &self);
	TRUE(pair_run(&p) == 0);
	o2g_core_counts(p.bed[1].core, &to);
	o2g_core_counts(p.bed[0].core, &from);
	check(to.expected == 1 && to.received == 2 && to.received_bytes == 70 &&
		      !to.unmatched && !to.unmatched_bytes && to.posted == 1 &&
		      to.kicks == 3,
	      "and again when it was matched");
	check(from.sent == 3 && from.sent_bytes == 77 && from.self == 1 &&
		      from.kicks == 3 && from.frames_out == 2 &&
		      !from.requested && !from.waited && from.unmatched == 1,
	      "what was sent is counted");
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_close(&p));
}

void edge_run(check_fn *with)
{
	check = with;
	area_layout();
	test_gathered();
	test_planned();
	test_borrowed();
	test_changes();
	table_removal();
	test_making();
	test_lost();
	test_attached();
	test_numbers();
	test_counts();
	test_returned();
	test_room();
}
