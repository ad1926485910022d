/* SPDX-License-Identifier: MIT */
/*
 * Pass 1: finds where instructions start, where control may arrive, and which
 * bytes are code.
 *
 * Owns bee_rewrite.marks while it runs. Known functions are decoded from their
 * starts; if none are known, all of the text is decoded. Between known
 * functions are gaps: assembly code without unwind data, or tables. A gap that
 * decodes without an invalid byte is code. In any other gap, code is what known
 * code branches to, and what a pointer leads to if it decodes as code up to its
 * end. The rest is data and remains unchanged.
 */
#include "bee/rewrite/internal.h"

u8 *bee_scan_mark(struct bee_scan *s, u64 addr)
{
	struct bee_rewrite *rw = s->rw;

	for (u32 i = 0; i < rw->texts; i++)
		if (addr - rw->text[i].addr < rw->text[i].len)
			return rw->marks + s->mark_base[i] +
			       (addr - rw->text[i].addr);
	return 0;
}

static int mark_as(struct bee_scan *s, u64 addr, u8 what)
{
	u8 *mark = bee_scan_mark(s, addr);

	if (mark)
		*mark |= what;
	return mark != 0;
}

static int mark_target(struct bee_scan *s, u64 addr)
{
	return mark_as(s, addr, MARK_TARGET);
}

static int mark_pointer(struct bee_scan *s, u64 addr)
{
	return mark_as(s, addr, MARK_TARGET | MARK_POINTER);
}

static const struct bee_data *find_data(const struct bee_rewrite *rw, u64 addr)
{
	for (u32 i = 0; i < rw->datas; i++)
		if (addr - rw->data[i].addr < rw->data[i].len)
			return &rw->data[i];
	return 0;
}

/*
 * `lea table(%rip)` may load the address of a jump table, whose entries are
 * 32-bit offsets from its start. All entries before the first that does not
 * lead into the text are used.
 */
static void scan_table(struct bee_scan *s, u64 table)
{
	const struct bee_data *data = find_data(s->rw, table);
	u64 *seen = &s->table[table / 4 % BEE_TABLES], at;

	/* Thousands of instructions may refer to one large table. */
	if (!data || *seen == table)
		return;
	*seen = table;
	for (at = table - data->addr; data->len - at >= 4; at += 4) {
		s64 entry = bee_get_s32(data->bytes + at);

		if (!mark_pointer(s, table + (u64)entry))
			return;
		if (!s->budget--) {
			s->error = bee_refuse(s->rw, table,
					      "unbounded jump tables");
			return;
		}
	}
}

static int is_endbr64(const u8 *p, const struct bee_insn *insn)
{
	return insn->len == 4 && bee_get_u32(p) == 0xfa1e0ff3;
}

void bee_scan_targets(struct bee_scan *s, const u8 *p,
		      const struct bee_insn *insn, u64 addr)
{
	u64 next = addr + insn->len;

	if (insn->branch == BEE_BRANCH_JMP || insn->branch == BEE_BRANCH_JCC ||
	    insn->branch == BEE_BRANCH_CALL)
		mark_as(s, next + (u64)insn->target, MARK_TARGET | MARK_BRANCH);
	else if (insn->imm_len == 4)
		mark_pointer(s, (u64)(s64)bee_get_s32(p + insn->imm_at));
	else if (insn->imm_len == 8)
		mark_pointer(s, bee_get_u64(p + insn->imm_at));
	if (insn->branch == BEE_BRANCH_CALL ||
	    (insn->branch == BEE_BRANCH_INDIRECT && (insn->modrm >> 3 & 7) < 4))
		mark_target(s, next);
	if (insn->rip_relative) {
		u64 to = next + (u64)(s64)bee_get_s32(p + insn->disp_at);

		if (insn->map || insn->opcode != 0x8d)
			mark_target(s, to);
		else if (!mark_pointer(s, to))
			scan_table(s, to);
	}
	if (is_endbr64(p, insn))
		mark_target(s, addr);
}

/*
 * Finds aligned words in `range` that point into the text. The bias is added,
 * because they are not relocated yet.
 */
static void scan_words(struct bee_scan *s, const struct bee_data *d,
		       const struct bee_range *range)
{
	u64 bias = s->rw->bias, end = d->len, at = 0, word;

	if (range->start > d->addr)
		at = range->start - d->addr;
	if (range->end - d->addr < end)
		end = range->end - d->addr;
	if (range->end <= d->addr || at >= end)
		return;
	for (at += -(d->addr + at) & 7; at < end && end - at >= 8; at += 8) {
		word = bee_get_u64(d->bytes + at);
		if (!word)
			continue;
		mark_pointer(s, word);
		if (bias)
			mark_pointer(s, word + bias);
	}
}

void bee_scan_data(struct bee_scan *s)
{
	static const struct bee_range all = {0, ~0ull};
	const struct bee_rewrite *rw = s->rw;

	for (u32 i = 0; i < rw->datas; i++) {
		const struct bee_data *d = &rw->data[i];

		if (!d->constant)
			scan_words(s, d, &all);
		for (u32 j = 0; d->constant && j < rw->pointers; j++)
			scan_words(s, d, &rw->pointer[j]);
	}
}

static int ends_here(const struct bee_insn *insn, const u8 *p)
{
	if (insn->branch == BEE_BRANCH_JMP || insn->branch == BEE_BRANCH_RET)
		return 1;
	if (insn->branch == BEE_BRANCH_INDIRECT)
		return (insn->modrm >> 3 & 7) >= 4;
	/* ud2, hlt */
	return (insn->map == 1 && insn->opcode == 0x0b) ||
	       (insn->map == 0 && p[insn->opcode_at] == 0xf4);
}

static int found_insn(struct bee_scan *s, u32 t, u64 off,
		      const struct bee_insn *insn)
{
	struct bee_rewrite *rw = s->rw;
	const u8 *p = rw->text[t].bytes + off;
	u8 *mark = rw->marks + s->mark_base[t] + off;
	u64 addr = rw->text[t].addr + off;
	struct bee_class class;

	*mark |= MARK_START;
	if (ends_here(insn, p))
		*mark |= MARK_ENDS;
	rw->insns++;
	bee_scan_targets(s, p, insn, addr);
	bee_classify(p, insn, &class);
	if (class.need == BEE_NEED_REFUSAL)
		return bee_refuse(rw, addr, class.why);
	if (class.need != BEE_NEED_NOTHING) {
		*mark |= MARK_SITE;
		rw->found[class.kind]++;
	}
	return s->error;
}

/* Decodes [from, to) of one text, and skips invalid bytes. */
static int scan_code(struct bee_scan *s, u32 t, u64 from, u64 to)
{
	const u8 *bytes = s->rw->text[t].bytes;
	struct bee_insn insn;

	while (from < to) {
		int rc = bee_decode(bytes + from, to - from, &insn);

		if (rc < 0) {
			s->rw->skipped++;
			from++;
			continue;
		}
		rc = found_insn(s, t, from, &insn);
		if (rc)
			return rc;
		from += insn.len;
	}
	return 0;
}

static int is_clean(const struct bee_text *text, u64 from, u64 to)
{
	struct bee_insn insn;

	while (from < to) {
		if (bee_decode(text->bytes + from, to - from, &insn) < 0)
			return 0;
		from += insn.len;
	}
	return 1;
}

/*
 * Something points here, but it may be a table. It is code if it decodes as
 * code until control leaves it, and every branch on the way stays in the text.
 */
static int is_block(struct bee_scan *s, u32 t, u64 off, u64 to)
{
	const struct bee_text *text = &s->rw->text[t];
	struct bee_class class;
	struct bee_insn insn;
	u64 next;

	for (; off < to; off += insn.len) {
		if (bee_decode(text->bytes + off, to - off, &insn) < 0)
			return 0;
		bee_classify(text->bytes + off, &insn, &class);
		if (class.need == BEE_NEED_REFUSAL)
			return 0;
		next = text->addr + off + insn.len;
		if ((insn.branch == BEE_BRANCH_JMP ||
		     insn.branch == BEE_BRANCH_JCC ||
		     insn.branch == BEE_BRANCH_CALL) &&
		    !bee_scan_mark(s, next + (u64)insn.target))
			return 0;
		if (ends_here(&insn, text->bytes + off))
			return 1;
	}
	return 0;
}

/* Follows branches of known code into a gap that is partly data. */
static int scan_reached(struct bee_scan *s, u32 t, u64 from, u64 to, int *more)
{
	u8 *marks = s->rw->marks + s->mark_base[t];
	struct bee_insn insn;

	for (u64 at = from; at < to; at++) {
		u64 off = at;

		if ((marks[at] & (MARK_TARGET | MARK_START)) != MARK_TARGET)
			continue;
		if (!(marks[at] & MARK_BRANCH) &&
		    (!(marks[at] & MARK_POINTER) || !is_block(s, t, at, to)))
			continue;
		while (off < to && !(marks[off] & MARK_START)) {
			if (bee_decode(s->rw->text[t].bytes + off, to - off,
				       &insn) < 0)
				break;
			if (found_insn(s, t, off, &insn))
				return -LINUX_ENOEXEC;
			*more = 1;
			if (marks[off] & MARK_ENDS)
				break;
			off += insn.len;
		}
	}
	return 0;
}

static void count_skipped(struct bee_scan *s, u32 t, u64 from, u64 to)
{
	const u8 *marks = s->rw->marks + s->mark_base[t];

	for (; from < to; from++)
		if (!(marks[from] & MARK_START))
			s->rw->skipped++;
}

enum { GAP_CLEAN, GAP_REACHED, GAP_COUNT };

static int scan_gap(struct bee_scan *s, u32 t, u64 from, u64 to, int how,
		    int *more)
{
	u8 *mark = s->rw->marks + s->mark_base[t] + from;

	if (how == GAP_CLEAN) {
		if (is_clean(&s->rw->text[t], from, to))
			return scan_code(s, t, from, to);
		*mark |= MARK_DIRTY;
		return 0;
	}
	if (!(*mark & MARK_DIRTY))
		return 0;
	if (how == GAP_REACHED)
		return scan_reached(s, t, from, to, more);
	count_skipped(s, t, from, to);
	return 0;
}

/* Handles one gap, in pieces that end at edges. */
static int scan_pieces(struct bee_scan *s, u32 t, u64 from, u64 to, int how,
		       int *more)
{
	const struct bee_rewrite *rw = s->rw;
	u64 start = rw->text[t].addr, end;
	u32 low = 0, high = rw->edges, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (rw->edge[mid] <= start + from)
			low = mid + 1;
		else
			high = mid;
	}
	for (; from < to; from = end) {
		end = to;
		if (low < rw->edges && rw->edge[low] < start + to)
			end = rw->edge[low++] - start;
		if (end > from && scan_gap(s, t, from, end, how, more))
			return -LINUX_ENOEXEC;
	}
	return 0;
}

/* Visits the gaps between known functions of one text. */
static int scan_gaps(struct bee_scan *s, u32 t, int how, int *more)
{
	const struct bee_rewrite *rw = s->rw;
	u64 start = rw->text[t].addr, end = start + rw->text[t].len;
	u64 at = start + s->first[t];

	for (u32 i = 0; i < rw->codes; i++) {
		const struct bee_range *r = &rw->code[i];
		u64 to = r->start < end ? r->start : end;

		if (r->end <= at || r->start >= end)
			continue;
		if (to > at &&
		    scan_pieces(s, t, at - start, to - start, how, more))
			return -LINUX_ENOEXEC;
		at = r->end < end ? r->end : end;
	}
	return scan_pieces(s, t, at - start, end - start, how, more);
}

static int scan_functions(struct bee_scan *s, u32 t)
{
	const struct bee_rewrite *rw = s->rw;
	u64 start = rw->text[t].addr, end = start + rw->text[t].len;

	for (u32 i = 0; i < rw->codes; i++) {
		u64 from = rw->code[i].start, to = rw->code[i].end;

		if (from < start)
			from = start;
		if (to > end)
			to = end;
		if (from >= to)
			continue;
		mark_target(s, from);
		if (scan_code(s, t, from - start, to - start))
			return -LINUX_ENOEXEC;
	}
	return 0;
}

static int scan_known(struct bee_scan *s)
{
	int more = 0, rounds = 0;
	u32 t;

	for (t = 0; t < s->rw->texts; t++)
		if (scan_functions(s, t) || scan_gaps(s, t, GAP_CLEAN, &more))
			return -LINUX_ENOEXEC;
	do {
		more = 0;
		for (t = 0; t < s->rw->texts; t++)
			if (scan_gaps(s, t, GAP_REACHED, &more))
				return -LINUX_ENOEXEC;
		if (++rounds > 64)
			return bee_refuse(
				s->rw, s->rw->text[0].addr,
				"unbounded branches in code between functions");
	} while (more);
	for (t = 0; t < s->rw->texts; t++)
		scan_gaps(s, t, GAP_COUNT, &more);
	return 0;
}

static u64 later_end(u64 at, u64 start, u64 len, u64 limit)
{
	return start <= limit && len <= limit - start && start + len > at
		       ? start + len
		       : at;
}

/*
 * Skips notes that follow `at` and have no program header: Go's linker
 * describes its own note, but not the build id's after it.
 */
static u64 notes_end(const u8 *p, u64 at, u64 limit)
{
	enum { HEAD = 16, GNU = 0x00554e47 };

	for (at = (at + 3) & ~3ull; at <= limit && limit - at >= HEAD;) {
		u64 len = HEAD + ((bee_get_u32(p + at + 4) + 3ull) & ~3ull);

		if (bee_get_u32(p + at) != 4 ||
		    bee_get_u32(p + at + 12) != GNU || len > limit - at)
			break;
		at += len;
	}
	return at;
}

/*
 * A text segment may begin with the headers and notes of the file (Go, older
 * linkers). Those before the entry point are not code.
 */
static u64 headers_end(const struct bee_rewrite *rw, u32 t)
{
	enum { EHDR = 64, PHDR = 56, SHDR = 64, PT_INTERP = 3, PT_NOTE = 4 };
	const struct bee_text *text = &rw->text[t];
	const u8 *p = text->bytes;
	u64 limit = rw->entry - text->addr, phdrs, at = EHDR;
	u32 n;

	if (limit >= text->len || limit < EHDR || bee_get_u32(p) != 0x464c457f)
		return 0;
	phdrs = bee_get_u64(p + 32);
	n = bee_get_u32(p + 56) & 0xffff;
	at = later_end(at, bee_get_u64(p + 40),
		       (u64)SHDR * (bee_get_u32(p + 60) & 0xffff), limit);
	if (later_end(0, phdrs, (u64)PHDR * n, limit) == 0)
		return at;
	at = later_end(at, phdrs, (u64)PHDR * n, limit);
	for (p += phdrs; n--; p += PHDR)
		if (bee_get_u32(p) == PT_NOTE || bee_get_u32(p) == PT_INTERP)
			at = later_end(at, bee_get_u64(p + 8),
				       bee_get_u64(p + 32), limit);
	return notes_end(text->bytes, at, limit);
}

int bee_scan_all(struct bee_scan *s)
{
	struct bee_rewrite *rw = s->rw;
	u64 base = 0;

	for (u32 t = 0; t < rw->texts; t++) {
		s->mark_base[t] = base;
		s->first[t] = headers_end(rw, t);
		rw->skipped += s->first[t];
		base += rw->text[t].len;
		s->budget += 64 + rw->text[t].len;
	}
	for (u32 i = 0; i < rw->datas; i++)
		s->budget += 8 * rw->data[i].len;
	mark_as(s, rw->entry, MARK_TARGET | MARK_BRANCH);
	bee_scan_data(s);
	if (rw->codes)
		return scan_known(s);
	for (u32 t = 0; t < rw->texts; t++)
		if (scan_code(s, t, s->first[t], rw->text[t].len))
			return -LINUX_ENOEXEC;
	return 0;
}
