/* SPDX-License-Identifier: MIT */
/*
 * Parses a snapshot file. Pure: no call leaves here, and all bytes may be
 * hostile. What the fields of records mean is checked by abi's restore.c.
 */
#include "bee/core/snapshot.h"
#include "bee/core/core.h"

#define VEC_MIN 576u
#define HEAD sizeof(struct bee_snap_section)

/* What parsing remembers of the sections before. */
struct parse {
	struct bee_snapshot *s;
	u32 type; /* of the last section */
	u32 ended;
	u64 next_page; /* pages come in order, */
	u64 area_end;  /* and lie in the last area */
	/* the last REMOVED */
	const struct bee_snap_removed *removed;
	u32 members;
	u64 ended_members; /* bit by number */
	u32 part;	   /* number of the last one */
	u32 shares;
};

static u64 round_up(u64 n)
{
	return (n + 7) & ~7ull;
}

/* The size of sections that have always the same; 0: others. */
static u64 fixed_size(u32 type)
{
	static const u64 size[] = {
		[BEE_SNAP_FILE] = sizeof(struct bee_snap_file),
		[BEE_SNAP_CPU] = sizeof(struct bee_snap_cpu),
		[BEE_SNAP_PROGRAM] = sizeof(struct bee_snap_program),
		[BEE_SNAP_PROCESS] = sizeof(struct abi_snap_process),
		[BEE_SNAP_LIBRARY] = sizeof(struct bee_snap_library),
		[BEE_SNAP_AREA] = sizeof(struct abi_snap_area),
		[BEE_SNAP_REMOVED] = sizeof(struct bee_snap_removed),
		[BEE_SNAP_DESC] = sizeof(struct abi_snap_desc),
		[BEE_SNAP_NUMBER] = sizeof(struct abi_snap_number),
		[BEE_SNAP_WATCH] = sizeof(struct abi_snap_watch),
		[BEE_SNAP_SIGNAL] = sizeof(struct abi_snap_signal),
		[BEE_SNAP_MEMBER] = sizeof(struct bee_snap_member),
		[BEE_SNAP_SHARED] = sizeof(struct bee_snap_shared),
	};

	return type < sizeof(size) / sizeof(size[0]) ? size[type] : 0;
}

static int order_wrong(const struct parse *p, u32 type)
{
	if (type < BEE_SNAP_FILE || type > BEE_SNAP_END || p->ended)
		return 1;
	if (type <= BEE_SNAP_EARLY)
		return type < p->type;
	if (type == BEE_SNAP_CPU)
		return p->type > BEE_SNAP_EARLY;
	if (type <= BEE_SNAP_PROCESS) /* exactly one of each, first */
		return type != p->type + 1;
	if (p->type < BEE_SNAP_PROCESS)
		return 1;
	/* each of these is followed by its contents, */
	if (type == BEE_SNAP_AREA || type == BEE_SNAP_REMOVED)
		return p->type > type + 1;
	/* of which there may be none */
	if (type == BEE_SNAP_PAGE || type == BEE_SNAP_CONTENT)
		return p->type != type - 1 && p->type != type;
	return type < p->type;
}

static int area_wrong(struct parse *p, const struct abi_snap_area *a)
{
	p->next_page = a->start;
	p->area_end = a->end;
	if (!(a->bits & ABI_SNAP_COMMITTED) || a->prot & ABI_PROT_EXEC)
		p->area_end = 0; /* has no pages */
	return a->start > a->end;
}

int bee_snap_file_wrong(const struct bee_snap_file *file)
{
	return (*file->path && *file->path != '/') ||
	       !abi_is_string(file->path, sizeof(file->path));
}

int bee_snap_pages_wrong(u64 addr, u64 bytes)
{
	return !bytes || bytes % SKEP_PAGE_SIZE ||
	       bytes > BEE_SNAP_PAGES * (u64)SKEP_PAGE_SIZE ||
	       addr % SKEP_PAGE_SIZE || addr > ~0ull - bytes;
}

/* 1, or the address of the pages. */
static u64 pages_at(const u8 *payload, u64 len)
{
	u64 addr;

	if (len < 8)
		return 1;
	abi_memcpy(&addr, payload, 8);
	return bee_snap_pages_wrong(addr, len - 8) ? 1 : addr;
}

static int pages_wrong(struct parse *p, const u8 *payload, u64 len)
{
	u64 addr = pages_at(payload, len), bytes = len - 8;

	if (addr == 1 || addr < p->next_page || addr > p->area_end ||
	    bytes > p->area_end - addr)
		return 1;
	p->next_page = addr + bytes;
	return 0;
}

static int thread_wrong(const struct parse *p, const u8 *payload, u64 len)
{
	const struct abi_snap_thread *t = (const void *)payload;

	if (len < sizeof(*t))
		return 1;
	return len - sizeof(*t) != (t->tid ? p->s->cpu->xsave_size : 0);
}

static int content_wrong(const struct parse *p, const u8 *payload, u64 len)
{
	const struct bee_snap_content *c = (const void *)payload;
	u64 bytes = len - sizeof(*c);

	return len <= sizeof(*c) || bytes > BEE_SNAP_CONTENT_MAX ||
	       c->number != p->removed->number ||
	       c->offset > p->removed->size ||
	       bytes > p->removed->size - c->offset;
}

/* Leaders may come later, so who restores them looks for those. */
static int member_wrong(struct parse *p, const struct bee_snap_member *m)
{
	if (m->number != p->members || m->number == BEE_SNAP_MEMBERS ||
	    m->ended > 1 ||
	    (m->parent != BEE_SNAP_NONE && m->parent >= m->number))
		return 1;
	p->members++;
	p->ended_members |= (u64)m->ended << m->number;
	return !m->number && m->ended;
}

static int shared_wrong(struct parse *p, const struct bee_snap_shared *shared)
{
	return shared->number >= p->members || p->shares++ == BEE_SNAP_SHARES;
}

static int part_wrong(struct parse *p, const u8 *payload, u64 len)
{
	const struct bee_snap_part *part = (const void *)payload;

	if (len <= sizeof(*part) || len - sizeof(*part) > BEE_SNAP_PART_MAX ||
	    !part->number || part->number >= p->members ||
	    p->ended_members >> part->number & 1 || part->number < p->part)
		return 1;
	p->part = part->number;
	return 0;
}

static int cpu_wrong(const struct bee_snap_cpu *cpu)
{
	return cpu->xsave_size < VEC_MIN || cpu->xsave_size > BEE_VEC_SIZE;
}

static int payload_wrong(struct parse *p, u32 type, const u8 *payload, u64 len)
{
	if (fixed_size(type) && len != fixed_size(type))
		return 1;
	switch (type) {
	case BEE_SNAP_FILE:
		return bee_snap_file_wrong((const void *)payload);
	case BEE_SNAP_EARLY:
		return pages_at(payload, len) == 1;
	case BEE_SNAP_CPU:
		p->s->cpu = (const void *)payload;
		return cpu_wrong(p->s->cpu);
	case BEE_SNAP_PROGRAM:
		p->s->program = (const void *)payload;
		return 0;
	case BEE_SNAP_PROCESS:
		p->s->process = (const void *)payload;
		return p->s->process->exe[0] != '/' ||
		       p->s->process->exe[ABI_PATH_MAX - 1];
	case BEE_SNAP_AREA:
		return area_wrong(p, (const void *)payload);
	case BEE_SNAP_PAGE:
		return pages_wrong(p, payload, len);
	case BEE_SNAP_THREAD:
		return thread_wrong(p, payload, len);
	case BEE_SNAP_PIPE:
		return len < sizeof(struct bee_snap_pipe) ||
		       len - sizeof(struct bee_snap_pipe) > BEE_SNAP_PIPE_MAX;
	case BEE_SNAP_REMOVED:
		p->removed = (const void *)payload;
		return p->removed->size > ~0ull >> 1;
	case BEE_SNAP_CONTENT:
		return content_wrong(p, payload, len);
	case BEE_SNAP_MEMBER:
		return member_wrong(p, (const void *)payload);
	case BEE_SNAP_SHARED:
		return shared_wrong(p, (const void *)payload);
	case BEE_SNAP_PART:
		return part_wrong(p, payload, len);
	case BEE_SNAP_END:
		p->ended = 1;
		return len != 0;
	default:
		return 0;
	}
}

static int walk_sections(struct bee_snapshot *s)
{
	const struct bee_snap_section *head;
	struct parse p = {.s = s, .type = BEE_SNAP_FILE};
	u64 at = sizeof(struct bee_snap_head);

	while (at < s->len) {
		if (s->len - at < HEAD)
			return -1;
		head = (const void *)(s->bytes + at);
		at += HEAD;
		if (head->len > s->len - at ||
		    round_up(head->len) > s->len - at ||
		    order_wrong(&p, head->type) ||
		    payload_wrong(&p, head->type, s->bytes + at, head->len))
			return -1;
		p.type = head->type;
		at += round_up(head->len);
	}
	return p.ended ? 0 : -1;
}

const char *bee_snap_head_wrong(const u8 *bytes)
{
	const struct bee_snap_head *head = (const void *)bytes;

	if (abi_memcmp(head->magic, BEE_SNAP_MAGIC, sizeof(head->magic)))
		return "it is no snapshot of bee";
	if (head->version != BEE_SNAP_VERSION)
		return "it has another version of the format; restore it with "
		       "the bee that wrote it";
	return 0;
}

const char *bee_snap_walk(struct bee_snapshot *s, const u8 *bytes, u64 len)
{
	abi_memset(s, 0, sizeof(*s));
	s->bytes = bytes;
	s->len = len;
	return walk_sections(s) ? "its contents are not valid" : 0;
}

const char *bee_snap_parse(struct bee_snapshot *s, const u8 *bytes, u64 len)
{
	struct skep_sha256 sha;
	u8 digest[BEE_SNAP_DIGEST];
	const char *why;

	if (len < sizeof(struct bee_snap_head) + BEE_SNAP_DIGEST)
		return "it is no snapshot of bee";
	why = bee_snap_head_wrong(bytes);
	if (why)
		return why;
	len -= BEE_SNAP_DIGEST;
	bee_sha256_init(&sha);
	skep_sha256_update(&sha, bytes, len);
	skep_sha256_final(&sha, digest);
	if (abi_memcmp(digest, bytes + len, sizeof(digest)))
		return "it is damaged: its digest is wrong";
	return bee_snap_walk(s, bytes, len);
}

const void *bee_snap_next(const struct bee_snapshot *s, u64 *at, u32 type,
			  u64 *len)
{
	const struct bee_snap_section *head;

	if (!*at)
		*at = sizeof(struct bee_snap_head);
	while (*at < s->len) {
		head = (const void *)(s->bytes + *at);
		*at += HEAD + round_up(head->len);
		if (head->type != type)
			continue;
		*len = head->len;
		return head + 1;
	}
	return 0;
}
