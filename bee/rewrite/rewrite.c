/* SPDX-License-Identifier: MIT */
/*
 * Pass 2: decides for each site where the jump to its stub is.
 *
 * Owns the choice of patches. It runs twice with the same marks: first it only
 * plans, so that a failure changes no byte of the text; then it writes. Both
 * runs read only bytes that no patch has changed, so they decide alike.
 *
 * A jump needs five bytes. If the instruction is shorter, adjacent instructions
 * move into the stub, but never one that is a branch target. These are tried in
 * this order: following instructions; preceding ones; a following call, which
 * goes through the stub; a short jump to padding nearby; a short jump to bytes
 * that are freed by moving other instructions.
 */
#include "bee/rewrite/internal.h"

#define JMP_LEN 5
#define SHORT_LEN 2
#define GROUP_MAX 48
#define BACK_MAX 4

struct plan {
	struct bee_rewrite *rw;
	struct bee_scan scan;
	int commit;
	/* the text that is being rewritten */
	struct bee_text *text;
	u8 *marks;
};

int bee_refuse(struct bee_rewrite *rw, u64 addr, const char *why)
{
	static const char hex[] = "0123456789abcdef";
	u32 n = 0;

	for (; why[n] && n < sizeof(rw->why) - 24; n++)
		rw->why[n] = why[n];
	for (const char *s = " at 0x"; *s; s++)
		rw->why[n++] = *s;
	for (int shift = 60, seen = 0; shift >= 0; shift -= 4) {
		seen |= addr >> shift & 15 || !shift;
		if (seen)
			rw->why[n++] = hex[addr >> shift & 15];
	}
	rw->why[n] = 0;
	rw->bad_addr = addr;
	return -LINUX_ENOEXEC;
}

static u64 addr_of(const struct plan *p, u64 off)
{
	return p->text->addr + off;
}

static int decode_at(const struct plan *p, u64 off, struct bee_insn *insn)
{
	return bee_decode(p->text->bytes + off, p->text->len - off, insn);
}

/* Returns the start of the instruction that ends at `off`. */
static int step_back(const struct plan *p, u64 off, u64 *prev)
{
	struct bee_insn insn;

	for (u64 n = 1; n <= 15 && n <= off; n++) {
		u8 mark = p->marks[off - n];

		if (mark & MARK_TAKEN)
			return 0;
		if (!(mark & MARK_START))
			continue;
		*prev = off - n;
		return decode_at(p, *prev, &insn) == (int)n;
	}
	return 0;
}

/* Writing ------------------------------------------------------------- */

static void mark_taken(struct plan *p, u64 from, u64 to)
{
	for (; from < to; from++)
		p->marks[from] |= MARK_TAKEN;
}

static void put_text(struct plan *p, u64 off, const u8 *bytes, u32 n)
{
	if (p->commit)
		for (u32 i = 0; i < n; i++)
			p->text->bytes[off + i] = bytes[i];
}

static void fill_text(struct plan *p, u64 from, u64 to, u8 byte)
{
	if (p->commit)
		for (; from < to; from++)
			p->text->bytes[from] = byte;
}

/* Writes opcode and rel32 at off: e9 is jmp, e8 is call. */
static int put_branch(struct plan *p, u64 off, u8 opcode, u64 target)
{
	s64 rel = (s64)(target - addr_of(p, off + JMP_LEN));
	u8 bytes[JMP_LEN] = {opcode};

	if (rel != (s32)rel)
		return bee_refuse(p->rw, addr_of(p, off),
				  "the stubs are out of reach");
	bee_put_u32(bytes + 1, (u32)rel);
	put_text(p, off, bytes, JMP_LEN);
	return 0;
}

static void put_short_jmp(struct plan *p, u64 off, u64 target)
{
	u8 bytes[SHORT_LEN] = {0xeb, (u8)(target - (off + SHORT_LEN))};

	put_text(p, off, bytes, SHORT_LEN);
}

static struct bee_site *add_site(struct plan *p, u64 off, u8 kind, u8 form)
{
	struct bee_rewrite *rw = p->rw;
	struct bee_site *site;

	if (rw->sites >= rw->sites_max)
		return 0;
	site = &rw->site[rw->sites++];
	*site = (struct bee_site){
		.addr = addr_of(p, off), .kind = kind, .form = form};
	rw->patched[kind]++;
	rw->forms[form]++;
	return site;
}

/* A patch: `stub` replaces [start, end) of the text. */
struct patch {
	u64 start, end;
	u8 form;
	u8 moved; /* contains no site, and only frees bytes */
	u64 stub, cave;
};

static int add_group_sites(struct plan *p, const struct patch *patch, u64 end)
{
	struct bee_insn insn;
	struct bee_class class;
	u64 off = patch->start;

	for (; off < end; off += insn.len) {
		struct bee_site *site;

		if (decode_at(p, off, &insn) < 0)
			return -LINUX_ENOEXEC;
		bee_classify(p->text->bytes + off, &insn, &class);
		if (class.need == BEE_NEED_NOTHING &&
		    !(patch->moved && off == patch->start))
			continue;
		site = add_site(p, off,
				patch->moved ? BEE_SITE_MOVED : class.kind,
				patch->form);
		if (!site)
			return -LINUX_ENOMEM;
		site->patch = addr_of(p, patch->start);
		site->patch_len = (u8)(patch->end - patch->start);
		site->stub = patch->stub;
		site->cave = patch->cave;
		site->stub_len = (u16)(p->rw->stubs_addr + p->rw->stubs_used -
				       patch->stub);
	}
	return 0;
}

/*
 * Writes the stub for [start, end), and then a jump to `resume`, unless control
 * never reaches it.
 */
static int emit_group(struct plan *p, u64 start, u64 end, u64 resume, u8 pushed)
{
	struct bee_emitter e = {.rw = p->rw, .pushed = pushed};
	struct bee_insn insn = {0};
	int ends = 0;

	for (u64 off = start; off < end && !ends; off += insn.len) {
		if (decode_at(p, off, &insn) < 0)
			return -LINUX_ENOEXEC;
		bee_emit_insn(&e, p->text->bytes + off, &insn, addr_of(p, off));
		ends = p->marks[off] & MARK_ENDS;
	}
	if (!ends) {
		bee_emit_note(&e, pushed ? addr_of(p, end) : resume);
		bee_emit_jmp(&e, resume);
	}
	if (e.error == -LINUX_ENOEXEC)
		return bee_refuse(p->rw, addr_of(p, start),
				  "an instruction whose operand is out of "
				  "reach of its stub");
	return e.error;
}

static u64 next_stub(const struct plan *p)
{
	return p->rw->stubs_addr + p->rw->stubs_used;
}

static int apply_jmp(struct plan *p, u64 start, u64 end, u8 moved)
{
	struct patch patch = {start, end, BEE_FORM_JMP, moved, next_stub(p), 0};
	int rc = emit_group(p, start, end, addr_of(p, end), 0);

	if (!rc)
		rc = add_group_sites(p, &patch, end);
	if (!rc)
		rc = put_branch(p, start, 0xe9, patch.stub);
	if (rc)
		return rc;
	/* int3, so that a jump into these bytes traps */
	fill_text(p, start + JMP_LEN, end, 0xcc);
	mark_taken(p, start, end);
	return 0;
}

/* Groups --------------------------------------------------------------- */

static int is_padding(const struct plan *p, u64 off, struct bee_insn *insn)
{
	const u8 *bytes = p->text->bytes + off;

	if (!(p->marks[off] & MARK_START) || p->marks[off] & MARK_TAKEN ||
	    decode_at(p, off, insn) < 0)
		return 0;
	if (!insn->map)
		return (insn->opcode == 0x90 && !insn->rex &&
			!(insn->prefixes & BEE_PREFIX_F3)) ||
		       insn->opcode == 0xcc;
	return insn->map == 1 && insn->opcode == 0x1f &&
	       bytes[insn->opcode_at] == 0x1f;
}

/*
 * Returns the end of a group of instructions that can move. The group starts at
 * `start`, has at least `want` bytes, and contains `must`. 0: there is none.
 */
static u64 group_end(const struct plan *p, u64 start, u64 must, u64 want)
{
	struct bee_insn insn;
	u64 off = start;
	int ends = 0;

	while (off - start < want || off <= must) {
		if (off >= p->text->len || off - start > GROUP_MAX)
			return 0;
		if (off != start && p->marks[off] & MARK_TARGET)
			return 0;
		if (ends && !is_padding(p, off, &insn))
			return 0;
		if (!(p->marks[off] & MARK_START) || p->marks[off] & MARK_TAKEN)
			return 0;
		if (decode_at(p, off, &insn) < 0 ||
		    (!ends && !bee_can_move(&insn)))
			return 0;
		ends |= p->marks[off] & MARK_ENDS;
		off += insn.len;
	}
	return off;
}

static int try_group(struct plan *p, u64 off, int *rc)
{
	u64 start = off, end = group_end(p, off, off, JMP_LEN);

	for (int i = 0; !end && i < BACK_MAX; i++) {
		if (p->marks[start] & MARK_TARGET ||
		    !step_back(p, start, &start) || p->marks[start] & MARK_ENDS)
			return 0;
		end = group_end(p, start, off, JMP_LEN);
	}
	if (!end)
		return 0;
	*rc = apply_jmp(p, start, end, 0);
	return 1;
}

/*
 * The site is the instruction before a call. The call goes to the stub, which
 * runs the instruction and jumps to the callee. The return address stays the
 * same.
 */
static int try_call(struct plan *p, u64 off, u32 len, int *rc)
{
	u64 call = off + len, end = call + JMP_LEN;
	struct patch patch = {off, end, BEE_FORM_CALL, 0, next_stub(p), 0};
	struct bee_insn insn, branch;
	struct bee_class class;

	if (end > p->text->len || !(p->marks[call] & MARK_START) ||
	    p->marks[call] & (MARK_TARGET | MARK_TAKEN))
		return 0;
	if (decode_at(p, off, &insn) < 0 || bee_uses_rsp(&insn) ||
	    decode_at(p, call, &branch) != JMP_LEN ||
	    branch.branch != BEE_BRANCH_CALL)
		return 0;
	bee_classify(p->text->bytes + off, &insn, &class);
	if (class.need != BEE_NEED_FS || insn.branch != BEE_BRANCH_NONE)
		return 0;
	*rc = emit_group(p, off, call, addr_of(p, end) + (u64)branch.target, 1);
	if (!*rc)
		*rc = add_group_sites(p, &patch, call);
	if (!*rc)
		*rc = put_branch(p, call, 0xe8, patch.stub);
	fill_text(p, off, call, 0x90);
	mark_taken(p, off, end);
	return 1;
}

/* Caves ---------------------------------------------------------------- */

static int short_reaches(u64 off, u64 to)
{
	s64 rel = (s64)(to - (off + SHORT_LEN));

	return rel == (s8)rel;
}

/* Writes the stub for one short site whose jump goes through `cave`. */
static int apply_cave(struct plan *p, u64 off, u32 len, u64 cave)
{
	struct patch patch = {off, off + len,	 BEE_FORM_CAVE,
			      0,   next_stub(p), addr_of(p, cave)};
	int rc = emit_group(p, off, off + len, addr_of(p, off + len), 0);

	if (!rc)
		rc = add_group_sites(p, &patch, off + len);
	if (!rc)
		rc = put_branch(p, cave, 0xe9, patch.stub);
	if (rc)
		return rc;
	put_short_jmp(p, off, cave);
	fill_text(p, off + SHORT_LEN, off + len, 0xcc);
	mark_taken(p, off, off + len);
	mark_taken(p, cave, cave + JMP_LEN);
	return 0;
}

/* Returns the length of the run of padding from `off` on; 0: there is none. */
static u64 padding_run(const struct plan *p, u64 off)
{
	struct bee_insn insn;
	u64 end = off;

	while (end < p->text->len && is_padding(p, end, &insn)) {
		if (end != off && p->marks[end] & MARK_TARGET)
			break;
		end += insn.len;
	}
	return end - off;
}

static int is_dead(const struct plan *p, u64 off)
{
	u64 prev;

	if (p->marks[off] & MARK_TARGET || !step_back(p, off, &prev))
		return 0;
	return p->marks[prev] & MARK_ENDS;
}

/*
 * If control may enter the padding, a short jump at its start skips the cave.
 */
static int use_padding(struct plan *p, u64 off, u32 len, u64 pad, u64 run,
		       int *rc)
{
	u64 cave = pad;

	if (!is_dead(p, pad)) {
		cave += SHORT_LEN;
		if (run < SHORT_LEN + JMP_LEN || run > 127)
			return 0;
	}
	if (run < JMP_LEN || !short_reaches(off, cave))
		return 0;
	if (cave != pad) {
		put_short_jmp(p, pad, pad + run);
		mark_taken(p, pad, pad + run);
	}
	*rc = apply_cave(p, off, len, cave);
	return 1;
}

static void cave_window(const struct plan *p, u64 off, u64 *from, u64 *to)
{
	*from = off > 126 ? off - 126 : 0;
	*to = p->text->len - off > 130 ? off + 130 : p->text->len;
}

static int try_cave(struct plan *p, u64 off, u32 len, int *rc)
{
	u64 at, to, run;

	for (cave_window(p, off, &at, &to); at < to; at += run ? run : 1) {
		run = padding_run(p, at);
		if (run >= JMP_LEN && use_padding(p, off, len, at, run, rc))
			return 1;
	}
	return 0;
}

/*
 * Moves ten bytes of other instructions into a stub of their own: five for the
 * jump to that stub, and five for this site's jump.
 */
static int try_eviction(struct plan *p, u64 off, u32 len, int *rc)
{
	u64 at, to, end;

	for (cave_window(p, off, &at, &to); at < to; at++) {
		if (!(p->marks[at] & MARK_START) ||
		    p->marks[at] & (MARK_TAKEN | MARK_SITE) ||
		    !short_reaches(off, at + JMP_LEN))
			continue;
		end = group_end(p, at, at, 2 * JMP_LEN);
		if (!end || (at < off + len && end > off))
			continue;
		for (u64 i = at; i < end; i++)
			if (p->marks[i] & MARK_SITE)
				end = 0;
		if (!end)
			continue;
		*rc = apply_jmp(p, at, end, 1);
		if (!*rc)
			*rc = apply_cave(p, off, len, at + JMP_LEN);
		return 1;
	}
	return 0;
}

/* Sites ---------------------------------------------------------------- */

static int apply_slot(struct plan *p, u64 off, const struct bee_insn *insn,
		      const struct bee_class *class)
{
	struct bee_site *site = add_site(p, off, class->kind, BEE_FORM_INPLACE);
	const u8 *bytes = p->text->bytes + off;
	u8 disp[4], gs = 0x65;
	u32 at = 0;

	if (!site)
		return -LINUX_ENOMEM;
	while (bytes[at] != 0x64)
		at++;
	site->patch = site->addr;
	site->patch_len = insn->len;
	bee_put_u32(disp, (u32)p->rw->slot[class->slot]);
	put_text(p, off + insn->disp_at, disp, 4);
	put_text(p, off + at, &gs, 1);
	mark_taken(p, off, off + insn->len);
	return 0;
}

static int do_site(struct plan *p, u64 off)
{
	struct bee_insn insn;
	struct bee_class class;
	int rc = decode_at(p, off, &insn);

	if (rc < 0)
		return bee_refuse(p->rw, addr_of(p, off), "overlapping code");
	bee_classify(p->text->bytes + off, &insn, &class);
	if (class.need == BEE_NEED_SLOT)
		return apply_slot(p, off, &insn, &class);
	if (try_group(p, off, &rc) || try_call(p, off, insn.len, &rc) ||
	    try_cave(p, off, insn.len, &rc) ||
	    try_eviction(p, off, insn.len, &rc))
		return rc;
	return bee_refuse(p->rw, addr_of(p, off),
			  "no space for a jump to a stub");
}

static int do_text(struct plan *p, u32 t)
{
	const u64 sites = 0x0101010101010101ull * MARK_SITE;

	p->text = &p->rw->text[t];
	p->marks = p->rw->marks + p->scan.mark_base[t];
	for (u64 off = 0; off < p->text->len; off++) {
		int rc;

		while (p->text->len - off >= 8 &&
		       !(bee_get_u64(p->marks + off) & sites))
			off += 8;
		if (off == p->text->len)
			break;
		if ((p->marks[off] & (MARK_SITE | MARK_TAKEN)) != MARK_SITE)
			continue;
		rc = do_site(p, off);
		if (rc)
			return rc;
	}
	return 0;
}

static void begin_plan(struct plan *p)
{
	struct bee_rewrite *rw = p->rw;

	rw->sites = rw->pcs = 0;
	rw->stubs_used = 0;
	for (u32 i = 0; i < BEE_SITE_KINDS; i++)
		rw->patched[i] = 0;
	for (u32 i = 0; i < 4; i++)
		rw->forms[i] = 0;
}

static int run_plan(struct plan *p)
{
	int rc = 0;

	begin_plan(p);
	for (u32 t = 0; t < p->rw->texts && !rc; t++)
		rc = do_text(p, t);
	return rc;
}

/*
 * The sites are nearly sorted: only patches that freed bytes nearby are out of
 * order.
 */
static void sort_sites(struct bee_rewrite *rw)
{
	for (u32 i = 1; i < rw->sites; i++) {
		struct bee_site site = rw->site[i];
		u32 at = i;

		for (; at && rw->site[at - 1].addr > site.addr; at--)
			rw->site[at] = rw->site[at - 1];
		rw->site[at] = site;
	}
}

static int all_patched(struct bee_rewrite *rw)
{
	for (u32 i = 0; i < BEE_SITE_MOVED; i++)
		if (rw->found[i] != rw->patched[i])
			return 0;
	return 1;
}

static int check_input(struct bee_rewrite *rw)
{
	if (!rw->texts || rw->texts > BEE_TEXTS_MAX ||
	    rw->datas > BEE_DATAS_MAX)
		return bee_refuse(rw, 0, "no text, or too many ranges");
	for (u32 t = 0; t < rw->texts; t++) {
		const struct bee_text *text = &rw->text[t];

		if (text->addr + text->len < text->addr ||
		    (t && text->addr < text[-1].addr + text[-1].len))
			return bee_refuse(rw, text->addr,
					  "text ranges out of order");
	}
	for (u32 i = 1; i < rw->codes; i++)
		if (rw->code[i].start < rw->code[i - 1].end)
			return bee_refuse(rw, rw->code[i].start,
					  "function ranges out of order");
	return 0;
}

static void clear_taken(u8 *marks, u64 n)
{
	const u64 taken = 0x0101010101010101ull * MARK_TAKEN;
	u64 i = 0;

	for (; n - i >= 8; i++)
		if (bee_get_u64(marks + i) & taken)
			marks[i] &= ~MARK_TAKEN;
		else
			i += 7;
	for (; i < n; i++)
		marks[i] &= ~MARK_TAKEN;
}

int bee_rewrite(struct bee_rewrite *rw)
{
	struct plan p = {.rw = rw, .scan = {.rw = rw}};
	u64 total = 0;
	int rc = check_input(rw);

	rw->insns = rw->skipped = 0;
	for (u32 i = 0; i < BEE_SITE_KINDS; i++)
		rw->found[i] = 0;
	if (!rc)
		rc = bee_scan_all(&p.scan);
	if (!rc)
		rc = run_plan(&p);
	if (!rc && !all_patched(rw))
		rc = bee_refuse(rw, rw->text[0].addr, "overlapping code");
	if (rc)
		return rc;
	for (u32 t = 0; t < rw->texts; t++)
		total += rw->text[t].len;
	clear_taken(rw->marks, total);
	p.commit = 1;
	rc = run_plan(&p);
	sort_sites(rw);
	return rc;
}

/* Sizes ---------------------------------------------------------------- */

static int is_fs(const struct bee_text *text, u64 i)
{
	struct bee_class class;
	struct bee_insn insn;

	if (bee_decode(text->bytes + i, text->len - i, &insn) < 0)
		return 0;
	bee_classify(text->bytes + i, &insn, &class);
	return class.need != BEE_NEED_NOTHING;
}

/* syscall, cpuid, xgetbv and rdfsbase, with any prefixes. */
static int is_other(const struct bee_text *text, u64 i)
{
	const u8 *p = text->bytes + i;

	if (text->len - i < 2)
		return 0;
	if (p[1] == 0x05 || p[1] == 0xa2)
		return 1;
	return text->len - i > 2 && ((p[1] == 0x01 && p[2] == 0xd0) ||
				     (p[1] == 0xae && (p[2] & 0xf8) == 0xc0));
}

/*
 * Counts bytes, at any offset, that can begin a site. There are at most as many
 * sites.
 */
static u64 count_candidates(const struct bee_text *text)
{
	u64 n = 0, i = 0, word;

	while (i < text->len) {
		if (!(i & 7) && text->len - i >= 8) {
			word = bee_get_u64(text->bytes + i);
			if (!bee_has_byte(word, 0x0f) &&
			    !bee_has_byte(word, 0x64)) {
				i += 8;
				continue;
			}
		}
		if (text->bytes[i] == 0x0f)
			n += is_other(text, i);
		else if (text->bytes[i] == 0x64)
			n += is_fs(text, i);
		i++;
	}
	return n;
}

void bee_rewrite_sizes(const struct bee_rewrite *rw,
		       struct bee_rewrite_need *need)
{
	u64 n = 0;

	*need = (struct bee_rewrite_need){0};
	for (u32 t = 0; t < rw->texts; t++) {
		n += count_candidates(&rw->text[t]);
		need->marks_len += rw->text[t].len;
	}
	/*
	 * a site, its adjacent instructions, and sometimes the patch that freed
	 * its bytes
	 */
	need->sites = (u32)(2 * n + 16);
	need->pcs = (u32)(12 * n + 64);
	need->stubs_len =
		(n * 128 + 2 * SKEP_PAGE_SIZE - 1) & ~(u64)(SKEP_PAGE_SIZE - 1);
}
