/* SPDX-License-Identifier: MIT */
/*
 * Text that the guest maps from a file: host->text_file. abi calls it under its
 * lock of the address map, through the gate. The file is hostile, and may
 * change: it is read once, and only what was read is used. And text of a
 * snapshot, which is made again from its file.
 */
#include "abi/include/page.h"
#include "base/errno.h"
#include "bee/core/core.h"
#include "bee/core/image.h"
#include "bee/core/snapshot.h"

#define HEAD_MAX 0x10000u

struct library {
	struct abi_text_file *op;
	const struct abi_host *os;
	struct bee_image *image;
	u8 *file;
	u64 len;
	u32 exact; /* stubs of a snapshot */
};

static s64 refuse_library(const struct library *l, const char *why)
{
	struct abi_text text;
	char line[512];

	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, "text of ");
	abi_text_str(&text, l->op->name ? l->op->name : "a file");
	abi_text_str(&text, " refused (EACCES): ");
	abi_text_str(&text, why);
	bee_os_message(line);
	return -LINUX_EACCES;
}

/* Checks the file's first bytes, because most mappings are not of libraries. */
static int is_elf(const struct library *l)
{
	u8 magic[4];
	struct abi_io io = {magic, sizeof(magic), 0};

	return l->os->file_read(l->op->handle, &io) == sizeof(magic) &&
	       !abi_memcmp(magic, "\177ELF", 4);
}

/* The only segment with code; NULL: there are several. */
static const struct abi_elf_segment *find_text(const struct abi_elf_plan *plan)
{
	const struct abi_elf_segment *text = 0;
	u32 i;

	for (i = 0; i < plan->segments; i++) {
		if (!(plan->segment[i].prot & ABI_PROT_EXEC))
			continue;
		if (text)
			return 0;
		text = &plan->segment[i];
	}
	return text;
}

/* Fills the text from the file; the mapping may end before its segment does. */
static s64 fill_text(struct library *l)
{
	const struct abi_elf_use use = {.role = ABI_ELF_LIBRARY,
					.addr = l->op->addr,
					.offset = l->op->offset};
	struct bee_image *image = l->image;
	u64 head = l->len < HEAD_MAX ? l->len : HEAD_MAX;
	const struct abi_elf_segment *text;

	if (abi_elf_plan(&use, l->file, head, l->len, &image->plan))
		return -LINUX_ENOEXEC;
	text = find_text(&image->plan);
	if (!text)
		return refuse_library(l, "it has several segments with code");
	image->text = l->op->addr;
	image->offset = l->op->offset;
	image->text_end = ABI_PAGE_UP(text->addr + text->filesz);
	image->text_left = image->text_end - image->text;
	if (image->text_left > l->op->len)
		return -LINUX_ENOEXEC;
	abi_memcpy((void *)(__UINTPTR_TYPE__)text->addr, l->file + text->offset,
		   text->filesz);
	return 0;
}

static s64 rewrite_text(struct library *l)
{
	const struct bee_options *o = bee.options;
	struct bee_work w = {.image = l->image,
			     .os = l->os,
			     .file = l->file,
			     .file_len = l->len,
			     .room = l->op->room,
			     .room_end = l->op->room_end,
			     .exact = l->exact,
			     .most = l->op->most,
			     .cache = o->cache,
			     .no_digest =
				     !o->cache && !o->report && !o->control};
	int err = bee_image_rewrite(&w);

	if (*w.why)
		return refuse_library(l, w.why);
	if (l->exact && err == -LINUX_ENOMEM &&
	    l->image->rw.stubs_used == l->image->rw.stubs_len)
		return -LINUX_ENOEXEC; /* it had less */
	if (err == -LINUX_ENOMEM &&
	    (w.need > w.room_end - w.room || w.need > w.most))
		l->op->need = w.need;
	return err;
}

static s64 map_library(struct library *l)
{
	struct abi_text_file *op = l->op;
	s64 err = bee_image_read(l->os, op->handle, &l->file, &l->len,
				 &l->image->id);

	if (!err)
		err = fill_text(l);
	if (!err)
		err = rewrite_text(l);
	if (err)
		return err;
	if (op->name)
		abi_strcpy(l->image->path, op->name, sizeof(l->image->path));
	op->len = l->image->text_left;
	op->stubs = l->image->stubs;
	op->stubs_len = l->image->stubs_end - l->image->stubs;
	err = bee_images_add(l->image);
	if (err) {
		bee_image_free(l->image);
		if (op->stubs_len)
			l->os->mem_release(op->stubs, op->stubs_len);
		return refuse_library(l, "there are 2,048 images already");
	}
	return 0;
}

static s64 begin_map(struct library *l)
{
	s64 err;

	l->op->need = l->op->stubs = l->op->stubs_len = 0;
	if (!is_elf(l))
		return -LINUX_ENOEXEC;
	l->image = bee_os_alloc(sizeof(*l->image));
	err = l->image ? map_library(l) : -LINUX_ENOMEM;
	if (err && l->image)
		bee_os_free(l->image, sizeof(*l->image));
	if (l->file)
		bee_os_free(l->file, l->len);
	return err;
}

/* Whether text and stubs are as long as they were, where they were. */
static int is_as_before(const struct bee_snap_library *s,
			const struct abi_text_file *op)
{
	return op->len == s->text_end - s->text &&
	       op->stubs_len == s->stubs_end - s->stubs &&
	       (!op->stubs_len || op->stubs == s->stubs);
}

s64 bee_library_load(const struct bee_snap_library *s,
		     const struct bee_image **image)
{
	struct abi_text_file op = {.addr = s->text,
				   .len = s->text_end - s->text,
				   .offset = s->offset,
				   .room = s->stubs,
				   .room_end = s->stubs_end,
				   .most = ~0ull,
				   .name = s->path};
	struct library l = {.op = &op, .os = bee.os, .exact = 1};
	struct abi_open open = {.path = s->path};
	s64 err = bee.os->file_open(&open);

	if (err)
		return err;
	op.handle = open.handle;
	err = bee.os->mem_commit(op.addr, op.len,
				 ABI_PROT_READ | ABI_PROT_WRITE);
	if (!err)
		err = begin_map(&l);
	bee.os->file_close(open.handle);
	if (!err && !is_as_before(s, &op))
		err = -LINUX_ENOEXEC;
	*image = l.image;
	return err ? err
		   : bee.os->mem_protect(op.addr, op.len,
					 ABI_PROT_READ | ABI_PROT_EXEC);
}

static s64 reap_library(struct abi_text_file *op)
{
	struct bee_image *image = bee_images_take();

	if (!image)
		return 0;
	op->stubs = image->stubs;
	op->stubs_len = image->stubs_end - image->stubs;
	bee_image_free(image);
	bee_os_free(image, sizeof(*image));
	return 1;
}

s64 bee_text_file(struct abi_text_file *op)
{
	struct library l = {.op = op, .os = bee.os};

	switch (op->verb) {
	case ABI_TEXT_MAP:
		return begin_map(&l);
	case ABI_TEXT_DROP:
		bee_images_drop(op->addr, op->addr + op->len);
		return 0;
	case ABI_TEXT_REAP:
		return reap_library(op);
	}
	return -LINUX_EINVAL;
}
