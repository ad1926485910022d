/* SPDX-License-Identifier: MIT */
/*
 * Function ranges from unwind tables (LSB core 10.6; DWARF 4, 6.4.1).
 *
 * Pure. The bytes are the guest's, so every length is checked, and the walk
 * ends at a record that cannot be read. No state, no lock.
 */
#include "bee/rewrite/internal.h"

enum { PE_PCREL = 0x10, PE_APPLICATION = 0x70, PE_INDIRECT = 0x80 };

/*
 * Bytes that are not read yet. `bad` is set at the first error and stays set.
 */
struct reader {
	const u8 *p;
	u64 at, end;
	u64 addr; /* address of p[0] */
	int bad;
};

static int can_read(struct reader *r, u64 n)
{
	if (r->bad || r->end - r->at < n)
		r->bad = 1;
	return !r->bad;
}

static u8 read_u8(struct reader *r)
{
	return can_read(r, 1) ? r->p[r->at++] : 0;
}

static u32 read_u32(struct reader *r)
{
	if (!can_read(r, 4))
		return 0;
	r->at += 4;
	return bee_get_u32(r->p + r->at - 4);
}

static u64 read_u64(struct reader *r)
{
	if (!can_read(r, 8))
		return 0;
	r->at += 8;
	return bee_get_u64(r->p + r->at - 8);
}

/* Skips a LEB128 number; its value is not needed. */
static void skip_leb(struct reader *r)
{
	for (u32 i = 0; i < 9; i++)
		if (!(read_u8(r) & 0x80))
			return;
	r->bad = 1;
}

/*
 * Reads a value in a DW_EH_PE_* format, without the base that it is relative
 * to.
 */
static u64 read_format(struct reader *r, u8 encoding)
{
	u64 v;

	switch (encoding & 15) {
	case 0x00:
	case 0x04:
	case 0x0c:
		return read_u64(r);
	case 0x03:
		return read_u32(r);
	case 0x0b:
		return (u64)(s64)(s32)read_u32(r);
	case 0x02:
		v = read_u8(r);
		return v | (u64)read_u8(r) << 8;
	case 0x0a:
		v = read_u8(r);
		return (u64)(s64)(s16)(v | (u64)read_u8(r) << 8);
	default:
		r->bad = 1;
		return 0;
	}
}

static u64 read_encoded(struct reader *r, u8 encoding)
{
	u64 from = r->addr + r->at;
	u64 v = read_format(r, encoding);

	if (encoding & PE_INDIRECT)
		r->bad = 1;
	if ((encoding & PE_APPLICATION) == PE_PCREL)
		return v + from;
	if (encoding & PE_APPLICATION)
		r->bad = 1;
	return v;
}

/* One CIE or FDE. The next one starts at `next`. */
struct record {
	u64 id_at, body, next;
	u32 id;
};

/* Returns 0 if there is none. */
static int read_record(struct reader *r, struct record *rec)
{
	u64 len = read_u32(r);

	if (len == 0xffffffff)
		len = read_u64(r);
	if (!can_read(r, len))
		return 0;
	rec->next = r->at + len;
	rec->id_at = r->at;
	rec->id = len >= 4 ? read_u32(r) : 0;
	rec->body = r->at;
	return 1;
}

/*
 * Returns the encoding of PCs in the FDEs of the CIE at `at`; 0xff if it is
 * unknown or cannot be relied on. The FDE of signal return code ('S') starts
 * one byte before the code, in padding; such code is left to the gap that
 * contains it.
 */
static u8 read_pc_encoding(struct reader *section, u64 at)
{
	struct reader r = {section->p, at, section->end, section->addr, 0};
	struct record rec;
	u64 letters;
	u8 version, encoding = 0;

	if (!read_record(&r, &rec) || rec.id)
		return 0xff;
	r.end = rec.next;
	version = read_u8(&r);
	letters = r.at;
	while (read_u8(&r))
		;
	if (version == 4)
		read_u8(&r), read_u8(&r);
	skip_leb(&r);
	skip_leb(&r);
	if (version == 1)
		read_u8(&r);
	else
		skip_leb(&r);
	if (r.bad || r.p[letters] != 'z')
		return r.bad ? 0xff : 0;
	skip_leb(&r);
	while (r.p[++letters]) {
		switch (r.p[letters]) {
		case 'R':
			encoding = read_u8(&r);
			break;
		case 'P':
			read_format(&r, read_u8(&r));
			break;
		case 'L':
			read_u8(&r);
			break;
		case 'S':
			return 0xff;
		}
	}
	return r.bad ? 0xff : encoding;
}

/* An encoding that cannot be read, such as 0xff, has no length. */
static int read_fde(struct reader *section, const struct record *rec,
		    u8 encoding, struct bee_range *range)
{
	struct reader r = {section->p, rec->body, rec->next, section->addr, 0};

	range->start = read_encoded(&r, encoding);
	range->end = range->start + read_format(&r, encoding & 15);
	return range->end > range->start;
}

static void sift_down(struct bee_range *range, u32 at, u32 n)
{
	struct bee_range top = range[at];

	for (u32 child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n &&
		    range[child + 1].start > range[child].start)
			child++;
		if (range[child].start <= top.start)
			break;
		range[at] = range[child];
	}
	range[at] = top;
}

/* A heap sort, which hostile input cannot make quadratic. */
static void sort_ranges(struct bee_range *range, u32 n)
{
	for (u32 i = n / 2; i--;)
		sift_down(range, i, n);
	while (n > 1) {
		struct bee_range last = range[--n];

		range[n] = range[0];
		range[0] = last;
		sift_down(range, 0, n);
	}
}

/*
 * Overlaps are cut. Adjacent ranges remain separate, because their starts are
 * branch targets.
 */
static u32 cut_overlaps(struct bee_range *range, u32 n)
{
	u32 kept = 0;

	for (u32 i = 0; i < n; i++) {
		struct bee_range r = range[i];

		if (kept && r.start < range[kept - 1].end)
			r.start = range[kept - 1].end;
		if (r.start < r.end)
			range[kept++] = r;
	}
	return kept;
}

u32 bee_eh_ranges(const u8 *eh_frame, u64 len, u64 addr,
		  struct bee_range *range, u32 max)
{
	struct reader r = {eh_frame, 0, len, addr, 0};
	u64 known_cie = ~0ULL;
	struct record rec;
	u8 encoding = 0xff;
	u32 n = 0;

	while (n < max && read_record(&r, &rec)) {
		if (rec.id && rec.id <= rec.id_at) {
			if (known_cie != rec.id_at - rec.id) {
				known_cie = rec.id_at - rec.id;
				encoding = read_pc_encoding(&r, known_cie);
			}
			n += read_fde(&r, &rec, encoding, &range[n]);
		}
		r.at = rec.next;
	}
	sort_ranges(range, n);
	return cut_overlaps(range, n);
}

int bee_eh_find(const u8 *hdr, u64 len, u64 addr, u64 *eh_frame)
{
	struct reader r = {hdr, 0, len, addr, 0};
	u8 version = read_u8(&r), encoding = read_u8(&r);

	if (!can_read(&r, 2))
		return -LINUX_ENOEXEC;
	r.at += 2;
	*eh_frame = read_encoded(&r, encoding);
	return r.bad || version != 1 ? -LINUX_ENOEXEC : 0;
}
