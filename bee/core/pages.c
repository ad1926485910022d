/* SPDX-License-Identifier: MIT */
/*
 * The pages of a snapshot. While the program runs, rounds send its pages, and a
 * digest of each is kept; when it is at rest, only pages with another digest
 * are sent. Owns the table of digests, which one thread at a time uses.
 */
#include "abi/include/page.h"
#include "bee/core/core.h"
#include "bee/core/snapshot.h"

#define PAGE ((u64)SKEP_PAGE_SIZE)
#define BUF (BEE_SNAP_PAGES * PAGE)
#define GROUP 512u /* pages whose digests lie together */
#define GROUP_BYTES (GROUP * PAGE)
#define SLOTS 1024u /* at first; a power of two */
#define ROUNDS 8u
#define ENOUGH (2u << 20)     /* if less is left, rounds end */
#define PAUSE_NS 100000000ull /* also if it can be sent in this time */

/* Digests of the pages of one group. All 0: the page was not sent, or as
 * zeros. */
struct group {
	u64 number;
	struct bee_page_digest *digest; /* NULL: the slot is free */
};

struct bee_early {
	struct group *slot;
	u64 slots, used;
};

/* The table ---------------------------------------------------------------- */

static struct group *find_slot(struct group *slot, u64 slots, u64 number)
{
	u64 i = number * 0x9e3779b97f4a7c15ull >> 32;

	for (i &= slots - 1; slot[i].digest && slot[i].number != number;
	     i = (i + 1) & (slots - 1))
		;
	return &slot[i];
}

/* At most half of the slots are in use. */
static int make_room(struct bee_early *e)
{
	u64 i, slots = e->slots * 2;
	struct group *slot;

	if (e->used * 2 < e->slots)
		return 0;
	slot = bee_os_alloc(slots * sizeof(*slot));
	if (!slot)
		return -1;
	for (i = 0; i < e->slots; i++)
		if (e->slot[i].digest)
			*find_slot(slot, slots, e->slot[i].number) = e->slot[i];
	bee_os_free(e->slot, e->slots * sizeof(*slot));
	e->slot = slot;
	e->slots = slots;
	return 0;
}

/* NULL: there is none yet; if it is to be made, too little memory. */
static struct bee_page_digest *find_digest(struct bee_early *e, u64 addr,
					   int make)
{
	u64 number = addr / GROUP_BYTES;
	struct group *g = find_slot(e->slot, e->slots, number);

	if (!g->digest && make && !make_room(e)) {
		g = find_slot(e->slot, e->slots, number);
		g->digest = bee_os_alloc(GROUP * sizeof(*g->digest));
		g->number = number;
		e->used += g->digest != 0;
	}
	return g->digest ? &g->digest[addr / PAGE % GROUP] : 0;
}

/* The first page from addr on that was sent with a content; or end. */
static u64 next_sent(struct bee_early *e, u64 addr, u64 end)
{
	const struct bee_page_digest *d;

	while (addr < end) {
		d = find_digest(e, addr, 0);
		if (d && d->word[0])
			return addr;
		addr = d ? addr + PAGE : (addr / GROUP_BYTES + 1) * GROUP_BYTES;
	}
	return end;
}

struct bee_early *bee_early_new(void)
{
	struct bee_early *e = bee_os_alloc(sizeof(*e));

	if (!e)
		return 0;
	e->slots = SLOTS;
	e->slot = bee_os_alloc(SLOTS * sizeof(*e->slot));
	if (e->slot)
		return e;
	bee_os_free(e, sizeof(*e));
	return 0;
}

void bee_early_free(struct bee_early *e)
{
	u64 i;

	for (i = 0; i < e->slots; i++)
		if (e->slot[i].digest)
			bee_os_free(e->slot[i].digest,
				    GROUP * sizeof(*e->slot[i].digest));
	bee_os_free(e->slot, e->slots * sizeof(*e->slot));
	bee_os_free(e, sizeof(*e));
}

/* Pages -------------------------------------------------------------------- */

/* Whether the page is other than what the target has, which is zeros before it
 * has been sent. */
static int is_news(struct bee_save *s, u64 addr, const u8 *page)
{
	int zero = abi_page_is_zero(page);
	struct bee_page_digest now = {{0, 0}}, *had;

	if (!s->early)
		return !zero;
	had = find_digest(s->early, addr, !zero);
	if (!had && !zero)
		bee_save_fail(s, "there is too little memory", "", "");
	if (!had)
		return 0;
	if (!zero)
		s->digest(s, page, &now);
	if (now.word[0] == had->word[0] && now.word[1] == had->word[1])
		return 0;
	*had = now;
	return 1;
}

static void put_run(struct bee_save *s, u64 addr, const u8 *bytes, u64 len)
{
	bee_save_section(s, s->live ? BEE_SNAP_EARLY : BEE_SNAP_PAGE, 8 + len);
	bee_save_bytes(s, &addr, 8);
	bee_save_bytes(s, bytes, len);
}

/* Writes the runs of pages in the buffer that the target lacks. */
static void put_news(struct bee_save *s, u64 addr, u64 len)
{
	u64 at, n;

	for (at = 0; at < len; at += n ? n : PAGE) {
		for (n = 0; at + n < len &&
			    is_news(s, addr + at + n, s->buf + at + n);)
			n += PAGE;
		if (n)
			put_run(s, addr + at, s->buf + at, n);
	}
}

/* Pages that were sent and are untouched now: zeros again. Returns where to go
 * on. */
static u64 put_zeros(struct bee_save *s, u64 addr, u64 end)
{
	u64 n = end - addr < BUF ? end - addr : BUF;

	abi_memset(s->buf, 0, n);
	put_news(s, addr, n);
	return addr + n;
}

/* While the program runs, memory may vanish: the next look will see that. What
 * is left of it is read page by page. */
static void put_read(struct bee_save *s, u64 addr, u64 len)
{
	u64 at;

	s->looked += len / PAGE;
	if (!s->read_memory(s, addr, s->buf, len))
		put_news(s, addr, len);
	else if (len > PAGE)
		for (at = 0; at < len; at += PAGE)
			put_read(s, addr + at, PAGE);
	else if (!s->live)
		bee_save_fail(s, "a mapping reaches beyond the end of its file",
			      "", "");
}

/* Pages that are alike for the host. */
static void put_alike(struct bee_save *s, u64 addr, u64 len, u8 look)
{
	if (look == BEE_LOOK_WRITTEN)
		put_read(s, addr, len);
	else if (look == BEE_LOOK_NONE)
		put_zeros(s, addr, addr + len);
}

static void put_touched(struct bee_save *s, u64 addr, u64 len, u32 is_file)
{
	u8 look[BEE_SNAP_PAGES];
	u64 pages = len / PAGE, at, n;

	if (!s->early || is_file) {
		put_read(s, addr, len);
		return;
	}
	s->look(s, addr, pages, look, s->live);
	for (at = 0; at < pages; at += n) {
		for (n = 1; at + n < pages && look[at + n] == look[at];)
			n++;
		put_alike(s, addr + at * PAGE, n * PAGE, look[at]);
	}
}

/* Text comes from its file. */
static int is_saved(const struct abi_snap_area *a)
{
	return a->bits & ABI_SNAP_COMMITTED && !(a->prot & ABI_PROT_EXEC);
}

int bee_save_is_loading(struct bee_save *s)
{
	struct abi_snap_area a;
	u32 is_file;
	u64 at;
	u8 byte;

	for (at = 0; abi_snap_area(bee.proc, at, &a, &is_file); at = a.end)
		if (is_file && is_saved(&a) &&
		    s->read_memory(s, a.end - PAGE, &byte, 1))
			return 1;
	return 0;
}

void bee_save_pages(struct bee_save *s, const struct abi_snap_area *a,
		    u32 is_file)
{
	u64 at = a->start, touched, sent, n;

	if (!is_saved(a))
		return;
	if (s->live && !is_file)
		s->watch(s, a->start, a->end);
	while (at < a->end && !s->failed &&
	       !(s->live && (s->hurry || s->written + BUF > s->most))) {
		touched = is_file ? at : s->next_touched(s, at, a->end);
		sent = s->early ? next_sent(s->early, at, touched) : touched;
		if (sent < touched) {
			at = put_zeros(s, sent, touched);
			continue;
		}
		n = a->end - touched < BUF ? a->end - touched : BUF;
		if (n)
			put_touched(s, touched, n, is_file);
		at = touched + n;
	}
}

/* Rounds ------------------------------------------------------------------- */

static u64 run_round(struct bee_save *s)
{
	u64 before = s->written, at;
	struct abi_snap_area a;
	u32 is_file;

	for (at = 0; abi_snap_area(bee.proc, at, &a, &is_file); at = a.end)
		bee_save_pages(s, &a, is_file);
	return s->written - before;
}

static u64 count_area(struct bee_save *s, u64 at, u64 end)
{
	u8 look[BEE_SNAP_PAGES];
	u64 n, i, bytes = 0;

	while ((at = s->next_touched(s, at, end)) < end) {
		n = end - at < BUF ? end - at : BUF;
		s->look(s, at, n / PAGE, look, 0);
		for (i = 0; i < n / PAGE; i++)
			bytes += look[i] == BEE_LOOK_WRITTEN ? PAGE : 0;
		at += n;
	}
	return bytes;
}

/* What the program has written and was not sent, in bytes of pages. */
static u64 count_left(struct bee_save *s)
{
	struct abi_snap_area a;
	u64 at, bytes = 0;
	u32 is_file;

	for (at = 0; abi_snap_area(bee.proc, at, &a, &is_file); at = a.end)
		if (!is_file && is_saved(&a))
			bytes += count_area(s, a.start, a.end);
	return bytes;
}

/*
 * Whether the program should stand still now: if what is left can be sent soon,
 * or if another round could send more than the program may have sent again.
 */
static int is_enough(struct bee_save *s, u64 sent, u64 ns, u32 round)
{
	u64 left = s->watches ? count_left(s) : sent; /* as much as last time */

	if (!s->watches && round == 1)
		return sent <= ENOUGH;
	return left <= ENOUGH || s->written + left > s->most ||
	       (s->watches &&
		(left >> 10) * (ns >> 10) <= (PAUSE_NS >> 10) * (sent >> 10));
}

static u64 time_now(void)
{
	return (u64)bee.os->clock(ABI_CLOCK_MONOTONIC);
}

/* Each round sends what was written during the one before, so rounds get
 * shorter if the way is faster than the program. If it is not, a third of the
 * memory is sent once more at most, so that with what is sent at rest it is
 * not half of it, unless the program writes to more than a fifth. */
void bee_save_rounds(struct bee_save *s)
{
	u64 sent, start = time_now(), now;
	u32 i;

	s->live = 1;
	s->most = ~0ull;
	sent = run_round(s);
	s->most = s->written + sent / 10 * 3;
	for (i = 1; i < ROUNDS && !s->failed && !s->hurry; i++) {
		now = time_now();
		if (is_enough(s, sent, now - start, i))
			break;
		start = now;
		sent = run_round(s);
	}
	s->live = 0;
	s->early_bytes = s->written;
	s->looked = 0;
}
