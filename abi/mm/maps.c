/* SPDX-License-Identifier: MIT */
/* The text of /proc/self/maps (proc(5)). Runs under space.change. */
#include "map.h"
#include "space.h"
#include "abi/fs/fd.h"
#include "abi/include/mem.h"
#include "abi/state/proc.h"

#define LINE_MAX (ABI_PATH_MAX + 100)

/* Stubs of libraries have no name; the loader is where mmap begins. */
static const char *image_name(const struct abi_proc *p,
			      const struct abi_area *a)
{
	if (a->bits & ABI_AREA_TEXT)
		return 0;
	return a->start >= SKEP_MMAP_START ? p->interp : p->exe;
}

static const char *area_name(struct abi_proc *p, const struct abi_area *a)
{
	const char *name = 0;

	if (a->backing)
		name = abi_fd_pinned_path(p, p->space.backing[a->backing].file -
						     1);
	else if (a->bits & ABI_AREA_IMAGE)
		name = image_name(p, a);
	else if (a->bits & ABI_AREA_BRK)
		name = "[heap]";
	else if (a->bits & ABI_AREA_STACK)
		name = "[stack]";
	return name ? name : "";
}

static void line_append(struct abi_proc *p, struct abi_text *t,
			const struct abi_area *a)
{
	const char *name = area_name(p, a);
	u64 start = t->len;

	abi_text_hex(t, a->start, 8);
	abi_text_chr(t, '-');
	abi_text_hex(t, a->end, 8);
	abi_text_chr(t, ' ');
	abi_text_chr(t, a->prot & ABI_PROT_READ ? 'r' : '-');
	abi_text_chr(t, a->prot & ABI_PROT_WRITE ? 'w' : '-');
	abi_text_chr(t, a->prot & ABI_PROT_EXEC ? 'x' : '-');
	abi_text_chr(t, a->bits & ABI_AREA_SHARED ? 's' : 'p');
	abi_text_chr(t, ' ');
	abi_text_hex(t, a->offset, 8);
	abi_text_str(t, " 00:00 0 ");
	while (*name && t->len < start + 73)
		abi_text_chr(t, ' ');
	abi_text_str(t, name);
	abi_text_chr(t, '\n');
}

u64 abi_space_maps(struct abi_proc *p, char *buf, u64 size, u64 *from)
{
	struct abi_space *s = &p->space;
	struct abi_text t;
	u32 i;

	abi_text_init(&t, buf, size);
	abi_map_begin(p);
	i = abi_space_index(s, *from);
	for (; i < s->areas && size - t.len >= LINE_MAX; i++) {
		line_append(p, &t, &s->area[i]);
		*from = s->area[i].end;
	}
	abi_map_end(p);
	return t.len;
}
