/* SPDX-License-Identifier: MIT */
/*
 * The table of images and the mapping of libraries, without a guest: which
 * image contains an address, who waits for readers, and what is left allocated
 * after a library was refused. The ELF reader and the rewriter are made up
 * here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/errno.h"
#include "bee/core/core.h"
#include "bee/core/image.h"
#include "tests/tap.h"

#define TEXT 0x10000ull
#define PAGE 0x1000ull
#define LIBRARY 0x2000u /* bytes of the library's file */

struct bee bee;

/* Memory and messages ------------------------------------------------------ */

static u64 allocated;
static char said[512];

void *bee_os_alloc(u64 len)
{
	allocated += len;
	return calloc(1, len);
}

void bee_os_free(void *p, u64 len)
{
	allocated -= p ? len : 0;
	free(p);
}

void bee_os_message(const char *line)
{
	snprintf(said, sizeof(said), "%s", line);
}

/* The library -------------------------------------------------------------- */

static u32 segments = 1;
static s64 read_error;
static int plan_error;
static const char *rewrite_says;
static int rewrite_error;
static u8 text[PAGE] __attribute__((aligned(PAGE)));

s64 bee_image_read(const struct abi_host *os, s32 handle, u8 **bytes, u64 *len,
		   struct bee_file_id *id)
{
	(void)os, (void)handle, (void)id;
	if (read_error)
		return read_error;
	*len = LIBRARY;
	*bytes = bee_os_alloc(*len);
	memset(*bytes, 'c', *len);
	return 0;
}

int abi_elf_plan(const struct abi_elf_use *use, const void *head, u64 head_len,
		 u64 len, struct abi_elf_plan *plan)
{
	u32 i;

	(void)use, (void)head, (void)head_len, (void)len;
	plan->segments = segments;
	for (i = 0; i < segments; i++) {
		plan->segment[i].prot = ABI_PROT_READ | ABI_PROT_EXEC;
		plan->segment[i].addr = (u64)(__UINTPTR_TYPE__)text;
		plan->segment[i].filesz = 100;
	}
	plan->start = TEXT;
	plan->end = TEXT + PAGE;
	return plan_error ? -LINUX_ENOEXEC : 0;
}

int bee_image_rewrite(struct bee_work *w)
{
	if (rewrite_says)
		snprintf(w->why, sizeof(w->why), "%s", rewrite_says);
	w->need = 3 * PAGE;
	w->image->stubs = 0x50000;
	w->image->stubs_end = 0x51000;
	return rewrite_error;
}

static u32 freed;

void bee_image_free(struct bee_image *image)
{
	freed += image != NULL;
}

static const char *magic = "\177ELF";

static s64 file_read(s32 handle, const struct abi_io *io)
{
	(void)handle;
	memcpy(io->buf, magic, io->len);
	return (s64)io->len;
}

static u64 released;

static s64 mem_release(u64 addr, u64 len)
{
	released = addr + len;
	return 0;
}

static u32 yields;

/* The reader ends while another thread waits for it. */
static s64 thread_yield(void)
{
	if (++yields == 3)
		bee_images_put();
	if (yields > 100) {
		tap_ok(0, "a wait without readers");
		exit(1);
	}
	return 0;
}

static const struct abi_host host = {.file_read = file_read,
				     .mem_release = mem_release,
				     .thread_yield = thread_yield};

static struct abi_text_file op = {.verb = ABI_TEXT_MAP, .len = PAGE};

static s64 map_text(void)
{
	*said = 0;
	op.verb = ABI_TEXT_MAP;
	op.addr = (u64)(__UINTPTR_TYPE__)text;
	op.len = PAGE;
	op.name = "/lib/a.so";
	return bee_text_file(&op);
}

static s64 reap_text(void)
{
	op.verb = ABI_TEXT_REAP;
	return bee_text_file(&op);
}

static s64 unmap_text(u64 addr, u64 len)
{
	op.verb = ABI_TEXT_DROP;
	op.addr = addr;
	op.len = len;
	return bee_text_file(&op);
}

/* Checks ------------------------------------------------------------------- */

static void check_refused(void)
{
	magic = "#!/b";
	tap_ok(map_text() == -LINUX_ENOEXEC && !allocated,
	       "a file that is no ELF file is no library");
	magic = "\177ELF";
	read_error = -LINUX_EIO;
	tap_ok(map_text() == -LINUX_EIO && !allocated,
	       "an error of the file is passed on, and nothing stays");
	read_error = 0;
	plan_error = 1;
	tap_ok(map_text() == -LINUX_ENOEXEC && !allocated && !*said,
	       "a file without a plan is no library, and nothing stays");
	plan_error = 0;
	segments = 2;
	tap_ok(map_text() == -LINUX_EACCES && !allocated &&
		       !strcmp(said, "text of /lib/a.so refused (EACCES): it "
				     "has several segments with code"),
	       "two segments with code: %s", said);
	segments = 1;
	rewrite_says = "it is odd (at 0x10)";
	tap_ok(map_text() == -LINUX_EACCES && !allocated &&
		       !strcmp(said, "text of /lib/a.so refused (EACCES): it "
				     "is odd (at 0x10)"),
	       "refused by the rewriter: %s", said);
	rewrite_says = NULL;
	rewrite_error = -LINUX_ENOMEM;
	tap_ok(map_text() == -LINUX_ENOMEM && !allocated && op.need == 0x3000,
	       "stubs that do not fit: their length is said, and nothing "
	       "stays");
	rewrite_error = 0;
}

static int count_image(void *to, const struct bee_image *image)
{
	*(u32 *)to += image != 0;
	return 0;
}

static u32 count_images(void)
{
	u32 n = 0;

	bee_images_visit(count_image, &n);
	return n;
}

static int find_path(void *to, const struct bee_image *image)
{
	return !strcmp(image->path, to);
}

static void check_mapped(void)
{
	u64 addr = (u64)(__UINTPTR_TYPE__)text;

	tap_ok(!map_text() && allocated == sizeof(struct bee_image) &&
		       text[0] == 'c' && text[99] == 'c' && !text[100],
	       "a library's text is filled, and its file is freed");
	tap_ok(op.stubs == 0x50000 && op.stubs_len == 0x1000 && op.len == PAGE,
	       "its stubs are known");
	tap_ok(bee_images_visit(find_path, "/lib/a.so") == 1, "and its path");
	tap_ok(!unmap_text(addr, 100) && !reap_text(),
	       "with some of its text mapped it stays");
	tap_ok(!unmap_text(addr + 100, PAGE - 100) && reap_text() == 1 &&
		       op.stubs == 0x50000 && op.stubs_len == 0x1000 &&
		       !allocated && freed == 1,
	       "without text it goes, with all that it had");
	tap_ok(!reap_text(), "once");
}

static struct bee_image pair[2];

static void check_found(void)
{
	u32 i;

	for (i = 0; i < 2; i++) {
		pair[i].stubs = 0x1000 * (2 * i + 1);
		pair[i].stubs_end = pair[i].stubs + 0x1000;
		pair[i].plan.start = 0x100000 * (2 * i + 1);
		pair[i].plan.end = pair[i].plan.start + 0x100000;
		pair[i].text_left = 1;
		bee_images_add(&pair[i]);
	}
	for (i = 0; i < 2; i++) {
		u64 at = pair[i].stubs, from = pair[i].plan.start;
		int ok = bee_images_get_stub(at) == &pair[i] &&
			 bee_images_get_stub(at + 0xfff) == &pair[i] &&
			 !bee_images_get_stub(at - 1) &&
			 !bee_images_get_stub(at + 0x1000);

		tap_ok(ok && bee_images_get_text(from) == &pair[i] &&
			       bee_images_get_text(from + 0xfffff) ==
				       &pair[i] &&
			       !bee_images_get_text(from - 1) &&
			       !bee_images_get_text(from + 0x100000),
		       "image %u is found by its stubs and by its text", i);
	}
	for (i = 0; i < 16; i++)
		bee_images_put();
}

/* Text at 0x10000 with stubs, a library's own text beside them. */
static void check_text(void)
{
	struct bee_image program = {.text = 0x10000,
				    .text_end = 0x12000,
				    .text_left = 0x2000,
				    .stubs = 0x12000,
				    .stubs_end = 0x13000};
	struct bee_image other = {.plan = {.segments = 2}, .text_left = 1};
	const struct {
		u64 at, end;
	} c[] = {{0xffff, 0xffff},   {0x10000, 0x12000}, {0x11fff, 0x12000},
		 {0x12000, 0x13000}, {0x13000, 0x13000}, {0x20000, 0x20000},
		 {0x21000, 0x23000}, {0x22fff, 0x23000}, {0x23000, 0x23000}};
	u32 i;

	other.plan.segment[0].addr = 0x20000;
	other.plan.segment[0].memsz = 0x1000;
	other.plan.segment[1].addr = 0x21010;
	other.plan.segment[1].memsz = 0x1000;
	other.plan.segment[1].prot = ABI_PROT_EXEC;
	bee_images_add(&program);
	bee_images_add(&other);
	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		tap_ok(bee_text_end(c[i].at) == c[i].end,
		       "text at %llx ends at %llx", c[i].at, c[i].end);
	tap_ok(!bee_text_meets(0xf000, 0x10000) &&
		       bee_text_meets(0xf000, 0x10001) &&
		       bee_text_meets(0x12fff, 0x13000) &&
		       !bee_text_meets(0x13000, 0x21000) &&
		       bee_text_meets(0x20000, 0x30000),
	       "a range meets text or it does not");
	program.text_left = other.text_left = 0;
	bee_images_take();
	bee_images_take();
	tap_ok(!bee_text_meets(0, ~0ull), "without images there is no text");
}

static void check_readers(void)
{
	const struct bee_image *(*const get[])(u64) = {bee_images_get_stub,
						       bee_images_get_text};
	u32 i;

	for (i = 0; i < 2; i++) {
		yields = 0;
		get[i](i ? pair[0].plan.start : pair[0].stubs);
		pair[0].text_left = 0;
		tap_ok(bee_images_take() == &pair[0] && yields == 3,
		       "an image is taken out after its reader has ended");
		pair[0].text_left = 1;
		bee_images_add(&pair[0]);
	}
	yields = 0;
	bee_images_get_stub(pair[0].stubs);
	bee_images_forked();
	pair[0].text_left = 0;
	tap_ok(bee_images_take() == &pair[0] && !yields,
	       "the child of a fork has no readers");
	tap_ok(!bee_images_take(), "an image with text is not taken out");
}

/* The table has one image left. A copy of it is another image with a map of its
 * own. */
static void check_saved(void)
{
	struct bee_site site[2] = {{.addr = 5}, {.addr = 6}};
	struct bee_stub_pc pc = {.stub = pair[1].stubs};
	const struct bee_image *copy;
	u8 *bytes;

	pair[1].map = (struct bee_map){site, &pc, 2, 1, pair[1].stubs, 16};
	pair[1].rw.sites_max = pair[1].rw.pcs_max = 100;
	bytes = malloc(bee_images_size());
	bee_images_save(bytes);
	pair[1].text_left = 0;
	tap_ok(bee_images_take() == &pair[1] && !count_images(),
	       "the only image is gone");
	tap_ok(!bee_images_restore(bytes) && count_images() == 1,
	       "one image is restored");
	copy = bee_images_get_stub(pair[1].stubs);
	tap_ok(copy && copy != &pair[1] && copy->text_left == 1 &&
		       copy->map.sites == 2 && copy->map.site != site &&
		       copy->map.site[1].addr == 6 && copy->map.pc != &pc &&
		       copy->map.pc[0].stub == pair[1].stubs,
	       "with its sites");
	/* bee_image_free frees as many as were allocated */
	tap_ok(copy && copy->rw.site == copy->map.site &&
		       copy->rw.sites_max == 2 && copy->rw.pc == copy->map.pc &&
		       copy->rw.pcs_max == 1,
	       "and memory for no more than these");
	bee_images_put();
	free(bytes);
	allocated = 0; /* the copy stays */
}

static void check_full(void)
{
	static struct bee_image many[2047];
	u32 i, added = 0;

	for (i = 0; i < 2047; i++) {
		many[i].text_left = 1;
		added += !bee_images_add(&many[i]);
	}
	freed = 0;
	tap_ok(added == 2047 && map_text() == -LINUX_EACCES && !allocated &&
		       freed == 1 && released == 0x51000 &&
		       !strcmp(said, "text of /lib/a.so refused (EACCES): "
				     "there are 2,048 images already"),
	       "no image beyond 2,048: %s", said);
}

int main(void)
{
	static struct bee_options options;

	bee.os = &host;
	bee.options = &options;
	check_refused();
	check_mapped();
	check_text();
	check_found();
	check_readers();
	check_saved();
	check_full();
	op.verb = 99;
	tap_ok(bee_text_file(&op) == -LINUX_EINVAL, "an unknown verb");
	return tap_done();
}
