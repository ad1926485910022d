/* SPDX-License-Identifier: MIT */
/*
 * The map of a rewritten image: it finds the guest's state for a PC, and has a
 * serialised form.
 *
 * The arrays belong to the caller. All bytes that are read are checked, because
 * a map from the cache or a snapshot may be wrong.
 */
#include "bee/rewrite/internal.h"

#define MAP_MAGIC 0x50414d45 /* "EMAP" */
#define HEADER_LEN 32
#define SITE_LEN 40
#define PC_LEN 24

void bee_map_from(struct bee_map *map, const struct bee_rewrite *rw)
{
	*map = (struct bee_map){.site = rw->site,
				.pc = rw->pc,
				.sites = rw->sites,
				.pcs = rw->pcs,
				.stubs_addr = rw->stubs_addr,
				.stubs_used = rw->stubs_used};
}

/* Finding ------------------------------------------------------------- */

static int find_stub(const struct bee_map *map, u64 pc,
		     struct bee_stub_pc *state)
{
	u32 low = 0, high = map->pcs;

	while (low < high) {
		u32 mid = low + (high - low) / 2;

		if (map->pc[mid].stub <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return 0;
	*state = map->pc[low - 1];
	return 1;
}

/*
 * The PCs inside the text that patches changed. A cave belongs to its site; the
 * nops and the call of BEE_FORM_CALL belong to the site before them.
 */
static int find_patch(const struct bee_map *map, u64 pc,
		      struct bee_stub_pc *state)
{
	for (u32 i = 0; i < map->sites; i++) {
		const struct bee_site *s = &map->site[i];
		u64 guest;

		if (s->cave && pc == s->cave)
			guest = s->addr;
		else if (s->form == BEE_FORM_CALL && pc > s->patch &&
			 pc < s->patch + s->patch_len)
			guest = s->patch;
		else
			continue;
		*state = (struct bee_stub_pc){.stub = pc, .guest = guest};
		return 1;
	}
	return 0;
}

int bee_map_find(const struct bee_map *map, u64 pc, struct bee_stub_pc *state)
{
	if (pc - map->stubs_addr < map->stubs_used)
		return find_stub(map, pc, state);
	return find_patch(map, pc, state);
}

u64 bee_map_guest_pc(const struct bee_map *map, u64 pc)
{
	struct bee_stub_pc state;

	return bee_map_find(map, pc, &state) ? state.guest : pc;
}

/* Bytes: little endian, as every machine that runs x86-64 guests ---------- */

static void put_u64(u8 *p, u64 v)
{
	bee_put_u32(p, (u32)v);
	bee_put_u32(p + 4, (u32)(v >> 32));
}

u64 bee_map_size(const struct bee_map *map)
{
	return HEADER_LEN + (u64)map->sites * SITE_LEN + (u64)map->pcs * PC_LEN;
}

static void write_site(u8 *p, const struct bee_site *s)
{
	put_u64(p, s->addr);
	put_u64(p + 8, s->patch);
	put_u64(p + 16, s->stub);
	put_u64(p + 24, s->cave);
	bee_put_u32(p + 32,
		    s->stub_len | (u32)s->patch_len << 16 | (u32)s->kind << 24);
	bee_put_u32(p + 36, s->form);
}

static void write_pc(u8 *p, const struct bee_stub_pc *pc)
{
	put_u64(p, pc->stub);
	put_u64(p + 8, pc->guest);
	bee_put_u32(p + 16, pc->scratch | (u32)pc->scratch2 << 8 |
				    (u32)pc->pushed << 16);
	bee_put_u32(p + 20, 0);
}

s64 bee_map_write(const struct bee_map *map, u8 *out, u64 len)
{
	u64 size = bee_map_size(map);

	if (len < size)
		return -LINUX_ENOMEM;
	bee_put_u32(out, MAP_MAGIC);
	bee_put_u32(out + 4, BEE_MAP_REVISION);
	bee_put_u32(out + 8, map->sites);
	bee_put_u32(out + 12, map->pcs);
	put_u64(out + 16, map->stubs_addr);
	put_u64(out + 24, map->stubs_used);
	out += HEADER_LEN;
	for (u32 i = 0; i < map->sites; i++, out += SITE_LEN)
		write_site(out, &map->site[i]);
	for (u32 i = 0; i < map->pcs; i++, out += PC_LEN)
		write_pc(out, &map->pc[i]);
	return (s64)size;
}

static int read_site(const struct bee_map *map, const u8 *p, struct bee_site *s)
{
	u32 word = bee_get_u32(p + 32), form = bee_get_u32(p + 36);

	*s = (struct bee_site){.addr = bee_get_u64(p),
			       .patch = bee_get_u64(p + 8),
			       .stub = bee_get_u64(p + 16),
			       .cave = bee_get_u64(p + 24),
			       .stub_len = (u16)word,
			       .patch_len = (u8)(word >> 16),
			       .kind = (u8)(word >> 24),
			       .form = (u8)form};
	if (s->kind >= BEE_SITE_KINDS || form > BEE_FORM_CAVE)
		return 0;
	if (s->addr - s->patch >= s->patch_len)
		return 0;
	if (form == BEE_FORM_INPLACE)
		return !s->stub && !s->stub_len;
	return s->stub - map->stubs_addr < map->stubs_used &&
	       s->stub_len <= map->stubs_addr + map->stubs_used - s->stub;
}

static int read_pc(const struct bee_map *map, const u8 *p,
		   struct bee_stub_pc *pc)
{
	u32 word = bee_get_u32(p + 16);

	*pc = (struct bee_stub_pc){.stub = bee_get_u64(p),
				   .guest = bee_get_u64(p + 8),
				   .scratch = (u8)word,
				   .scratch2 = (u8)(word >> 8),
				   .pushed = (u8)(word >> 16)};
	return !(word >> 24) && !bee_get_u32(p + 20) && pc->scratch <= 16 &&
	       pc->scratch2 <= 16 && pc->pushed <= 1 &&
	       pc->stub - map->stubs_addr <= map->stubs_used;
}

static int read_header(struct bee_map *map, const u8 *in, u64 len)
{
	if (len < HEADER_LEN || bee_get_u32(in) != MAP_MAGIC ||
	    bee_get_u32(in + 4) != BEE_MAP_REVISION)
		return 0;
	*map = (struct bee_map){.sites = bee_get_u32(in + 8),
				.pcs = bee_get_u32(in + 12),
				.stubs_addr = bee_get_u64(in + 16),
				.stubs_used = bee_get_u64(in + 24)};
	return bee_map_size(map) == len &&
	       map->stubs_addr + map->stubs_used >= map->stubs_addr;
}

int bee_map_read(struct bee_map *map, const u8 *in, u64 len,
		 struct bee_site *site, u32 sites_max, struct bee_stub_pc *pc,
		 u32 pcs_max)
{
	if (!read_header(map, in, len))
		return -LINUX_EINVAL;
	if (map->sites > sites_max || map->pcs > pcs_max)
		return -LINUX_ENOMEM;
	in += HEADER_LEN;
	for (u32 i = 0; i < map->sites; i++, in += SITE_LEN)
		if (!read_site(map, in, &site[i]) ||
		    (i && site[i].addr < site[i - 1].addr))
			return -LINUX_EINVAL;
	for (u32 i = 0; i < map->pcs; i++, in += PC_LEN)
		if (!read_pc(map, in, &pc[i]) ||
		    (i && pc[i].stub < pc[i - 1].stub))
			return -LINUX_EINVAL;
	map->site = site;
	map->pc = pc;
	return 0;
}
