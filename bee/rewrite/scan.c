/* SPDX-License-Identifier: MIT */
/*
 * Pass 1: where instructions start, where control may arrive, what is code.
 *
 * Owns bee_rewrite.marks while it runs. Known functions (and, when none are
 * known, all of the text) are decoded from their start; between them lie gaps:
 * hand-written code without unwind data, or tables. A gap that decodes without
 * one invalid byte is code. Of any other gap only what known code branches to
 * is code; the rest is data and stays as it is.
 */
#include "bee/rewrite/inside.h"

u8 *bee_scan_mark(struct bee_scan *s, u64 addr)
{
	struct bee_rewrite *rw = s->rw;

	for (u32 i = 0; i < rw->texts; i++)
		if (addr - rw->text[i].addr < rw->text[i].len)
			return rw->marks + s->mark_base[i] +
			       (addr - rw->text[i].addr);
	return 0;
}

static int mark_target(struct bee_scan *s, u64 addr)
{
	u8 *mark = bee_scan_mark(s, addr);

	if (mark)
		*mark |= MARK_TARGET;
	return mark != 0;
}

static const struct bee_data *find_data(const struct bee_rewrite *rw, u64 addr)
{
	for (u32 i = 0; i < rw->datas; i++)
		if (addr - rw->data[i].addr < rw->data[i].len)
			return &rw->data[i];
	return 0;
}

/*
 * `lea table(%rip)` may name a jump table of 32-bit offsets from its own
 * start. Every entry up to the first that does not lead into the text counts.
 */
static void scan_table(struct bee_scan *s, u64 table)
{
	const struct bee_data *data = find_data(s->rw, table);
	u64 at;

	if (!data)
		return;
	for (at = table - data->addr; data->len - at >= 4; at += 4) {
		s64 entry = bee_get_s32(data->bytes + at);

		if (!mark_target(s, table + (u64)entry))
			return;
		if (!s->budget--) {
			s->error = bee_refuse(s->rw, table,
					      "jump tables without end");
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
		mark_target(s, next + (u64)insn->target);
	else if (insn->imm_len == 4)
		mark_target(s, (u64)(s64)bee_get_s32(p + insn->imm_at));
	else if (insn->imm_len == 8)
		mark_target(s, bee_get_u64(p + insn->imm_at));
	if (insn->branch == BEE_BRANCH_CALL ||
	    (insn->branch == BEE_BRANCH_INDIRECT && (insn->modrm >> 3 & 7) < 4))
		mark_target(s, next);
	if (insn->rip_relative) {
		u64 to = next + (u64)(s64)bee_get_s32(p + insn->disp_at);

		if (!mark_target(s, to) && !insn->map && insn->opcode == 0x8d)
			scan_table(s, to);
	}
	if (is_endbr64(p, insn))
		mark_target(s, addr);
}

/* Aligned words that point into the text; with the bias, before relocation. */
void bee_scan_data(struct bee_scan *s)
{
	struct bee_rewrite *rw = s->rw;

	for (u32 i = 0; i < rw->datas; i++) {
		const struct bee_data *d = &rw->data[i];
		u64 at = -d->addr & 7;

		for (; at + 8 <= d->len && at + 8 > at; at += 8) {
			u64 word = bee_get_u64(d->bytes + at);

			if (!word)
				continue;
			mark_target(s, word);
			if (rw->bias)
				mark_target(s, word + rw->bias);
		}
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

/* Decode [from, to) of one text; invalid bytes are stepped over. */
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

/* Follow known branches into a gap that is partly data. */
static int scan_reached(struct bee_scan *s, u32 t, u64 from, u64 to, int *more)
{
	u8 *marks = s->rw->marks + s->mark_base[t];
	struct bee_insn insn;

	for (u64 at = from; at < to; at++) {
		u64 off = at;

		if ((marks[at] & (MARK_TARGET | MARK_START)) != MARK_TARGET)
			continue;
		while (off < to && !(marks[off] & MARK_START)) {
			if (bee_decode(s->rw->text[t].bytes + off, to - off,
				       &insn) < 0)
				break;
			if (found_insn(s, t, off, &insn))
				return -BEE_ENOEXEC;
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
	if (from >= to)
		return 0;
	if (is_clean(&s->rw->text[t], from, to))
		return how == GAP_CLEAN ? scan_code(s, t, from, to) : 0;
	if (how == GAP_REACHED)
		return scan_reached(s, t, from, to, more);
	if (how == GAP_COUNT)
		count_skipped(s, t, from, to);
	return 0;
}

/* Visit the gaps between known functions of one text. */
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
		    scan_gap(s, t, at - start, to - start, how, more))
			return -BEE_ENOEXEC;
		at = r->end < end ? r->end : end;
	}
	return scan_gap(s, t, at - start, end - start, how, more);
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
			return -BEE_ENOEXEC;
	}
	return 0;
}

static int scan_known(struct bee_scan *s)
{
	int more = 0, rounds = 0;
	u32 t;

	for (t = 0; t < s->rw->texts; t++)
		if (scan_functions(s, t) || scan_gaps(s, t, GAP_CLEAN, &more))
			return -BEE_ENOEXEC;
	do {
		more = 0;
		for (t = 0; t < s->rw->texts; t++)
			if (scan_gaps(s, t, GAP_REACHED, &more))
				return -BEE_ENOEXEC;
		if (++rounds > 64)
			return bee_refuse(s->rw, s->rw->text[0].addr,
					  "code between functions that "
					  "branches without end");
	} while (more);
	for (t = 0; t < s->rw->texts; t++)
		scan_gaps(s, t, GAP_COUNT, &more);
	return 0;
}

static u64 later(u64 at, u64 start, u64 len, u64 limit)
{
	return start <= limit && len <= limit - start && start + len > at
		       ? start + len
		       : at;
}

/*
 * A text segment may begin with the file's own headers and notes (Go, older
 * linkers): those before the entry point are not code.
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
	at = later(at, bee_get_u64(p + 40),
		   (u64)SHDR * (bee_get_u32(p + 60) & 0xffff), limit);
	if (later(0, phdrs, (u64)PHDR * n, limit) == 0)
		return at;
	at = later(at, phdrs, (u64)PHDR * n, limit);
	for (p += phdrs; n--; p += PHDR)
		if (bee_get_u32(p) == PT_NOTE || bee_get_u32(p) == PT_INTERP)
			at = later(at, bee_get_u64(p + 8), bee_get_u64(p + 32),
				   limit);
	return at;
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
	mark_target(s, rw->entry);
	bee_scan_data(s);
	if (rw->codes)
		return scan_known(s);
	for (u32 t = 0; t < rw->texts; t++)
		if (scan_code(s, t, s->first[t], rw->text[t].len))
			return -BEE_ENOEXEC;
	return 0;
}
