/* SPDX-License-Identifier: MIT */
/*
 * Loads a program: maps, digests, rewrites and protects it, and passes it to
 * abi. Runs once, before guest threads exist, and owns bee.image until then.
 * The file is hostile: abi_elf_plan checks every field used here, and none of
 * its code runs before the rewriter has accepted it.
 */
#include "base/errno.h"
#include "abi/include/exec.h"
#include "bee/core/core.h"
#include "bee/core/image.h"
#include "bee/core/snapshot.h"

#define HEAD_MAX 0x10000u
#define S_IFMT 0170000u
#define S_IFDIR 0040000u

/* The loader's data on one file; freed at the end, while the image remains. */
struct load {
	const struct bee_options *options;
	const struct abi_host *os;
	struct bee_image *image;
	const char *name; /* for messages */
	struct abi_elf_use use;
	const u8 *file;
	u64 file_len;
};

static void *guest_pointer(u64 addr)
{
	return (void *)(__UINTPTR_TYPE__)addr;
}

static u64 page_up(u64 addr)
{
	return (addr + SKEP_PAGE_SIZE - 1) & ~(u64)(SKEP_PAGE_SIZE - 1);
}

static u64 page_down(u64 addr)
{
	return addr & ~(u64)(SKEP_PAGE_SIZE - 1);
}

static int refuse_program(const struct load *l, const char *why)
{
	char line[300];
	struct abi_text text;

	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, "refused to load ");
	abi_text_str(&text, l->name);
	abi_text_str(&text, ": ");
	abi_text_str(&text, why);
	bee_os_message(line);
	return BEE_EXIT_REFUSED;
}

/* Shells search PATH for a name without a slash; bee does not, and says so. */
static int report_missing(const char *program)
{
	const char *p = program;

	while (*p && *p != '/' && *p != '\\')
		p++;
	bee_say("no such program: ", program,
		*p || !*program ? ""
				: "; bee does not search PATH: give a path");
	return BEE_EXIT_NOT_FOUND;
}

static int open_file(struct load *l)
{
	switch (bee_os_file_read(l->options->program, &l->file, &l->file_len)) {
	case 0:
		return 0;
	case -LINUX_ENOENT:
	case -LINUX_ENOTDIR:
		return report_missing(l->options->program);
	case -LINUX_EISDIR:
		return refuse_program(
			l, "This is a folder: give a program in it.");
	case -LINUX_EACCES:
		return refuse_program(l, "You may not read this file, and bee "
					 "reads a program before it runs it.");
	default:
		return refuse_program(l, "The file cannot be read.");
	}
}

/*
 * Segments can share a page (their ends need not be aligned), so pages are
 * walked as runs of equal protection: the union of the segments on them.
 */
static u32 page_prot(const struct abi_elf_plan *plan, u64 page)
{
	u32 i, prot = 0;

	for (i = 0; i < plan->segments; i++)
		if (page >= page_down(plan->segment[i].addr) &&
		    page < page_up(plan->segment[i].addr +
				   plan->segment[i].memsz))
			prot |= plan->segment[i].prot | 8;
	return prot;
}

/* The next page at which the result of page_prot may change. */
static u64 page_next(const struct abi_elf_plan *plan, u64 page)
{
	u64 next = plan->end, edge[2];
	u32 i, j;

	for (i = 0; i < plan->segments; i++) {
		edge[0] = page_down(plan->segment[i].addr);
		edge[1] =
			page_up(plan->segment[i].addr + plan->segment[i].memsz);
		for (j = 0; j < 2; j++)
			if (edge[j] > page && edge[j] < next)
				next = edge[j];
	}
	return next;
}

/* final: sets the pages' final protection; otherwise commits them writable. */
static int for_runs(struct load *l, int final)
{
	const struct abi_elf_plan *plan = &l->image->plan;
	u64 page, next;
	u32 prot;
	s64 err;

	for (page = plan->start; page < plan->end; page = next) {
		next = page_next(plan, page);
		prot = page_prot(plan, page);
		if (!prot)
			continue;
		prot &= 7;
		if ((prot & ABI_PROT_WRITE) && (prot & ABI_PROT_EXEC))
			return refuse_program(
				l, "it has pages that are writable and "
				   "executable at once; link it with -z "
				   "separate-code");
		if (final)
			err = l->os->mem_protect(page, next - page, prot);
		else
			err = l->os->mem_commit(page, next - page,
						ABI_PROT_READ | ABI_PROT_WRITE);
		if (err)
			return refuse_program(
				l, final ? "its pages cannot be protected"
					 : "not enough memory for its "
					   "segments");
	}
	return 0;
}

/* What --memory leaves after the segments; negative: too little. */
static s64 memory_left(const struct load *l)
{
	const struct abi_elf_plan *plan = &l->image->plan;
	u64 need = 0;
	u32 i;

	for (i = 0; i < plan->segments; i++)
		need += plan->segment[i].memsz;
	return l->options->memory ? (s64)(l->options->memory - need)
				  : (s64)(~0ull >> 1);
}

static int check_memory(struct load *l)
{
	if (memory_left(l) < 0)
		return refuse_program(
			l, "its segments alone need more than --memory "
			   "allows");
	return 0;
}

static void copy_segments(struct load *l)
{
	const struct abi_elf_plan *plan = &l->image->plan;
	const struct abi_elf_segment *s;
	u32 i;

	for (i = 0; i < plan->segments; i++) {
		s = &plan->segment[i];
		abi_memcpy(guest_pointer(s->addr), l->file + s->offset,
			   s->filesz);
	}
}

static int map_file(struct load *l)
{
	struct abi_elf_plan *plan = &l->image->plan;
	u64 head = l->file_len < HEAD_MAX ? l->file_len : HEAD_MAX;
	int err;

	err = abi_elf_plan(&l->use, l->file, head, l->file_len, plan);
	if (err)
		return refuse_program(l, plan->why ? plan->why
						   : "not an ELF program");
	err = check_memory(l);
	if (!err)
		err = for_runs(l, 0);
	if (!err)
		copy_segments(l);
	return err;
}

static int rewrite_image(struct load *l)
{
	struct bee_work w = {.image = l->image,
			     .os = l->os,
			     .file = l->file,
			     .file_len = l->file_len,
			     .most = (u64)memory_left(l),
			     .cache = l->options->cache};
	int err = bee_image_rewrite(&w);

	if (err && !*w.why && w.need > w.most)
		return refuse_program(l, "its rewritten code needs more than "
					 "--memory leaves");
	if (err)
		return refuse_program(l, *w.why ? w.why
						: "not enough memory to "
						  "rewrite it");
	l->image->text_left = ~0ull;
	return bee_images_add(l->image) ? BEE_EXIT_REFUSED : 0;
}

/* Handing over -------------------------------------------------------- */

#define NR_DUP2 33

/* Descriptors that share an open file description outside share one here too,
 * with its flags. */
static int share_stream(u32 fd)
{
	struct abi_regs regs = {.rax = NR_DUP2, .rsi = fd};

	if (!bee.std_same[fd])
		return 0;
	regs.rdi = bee.std_same[fd] - 1;
	abi_syscall(bee.proc, 0, &regs);
	return regs.rax == fd;
}

static int attach_streams(const struct load *l)
{
	u32 fd, type, flags;
	s64 handle;
	int err;

	for (fd = 0; fd < 3; fd++) {
		handle = bee_os_std(fd, &type, &flags);
		if (handle < 0 || share_stream(fd))
			continue;
		err = abi_fd_attach(bee.proc, fd, (s32)handle, type & S_IFMT,
				    flags);
		if (err)
			return refuse_program(
				l, "a standard stream cannot be attached");
	}
	return 0;
}

/* One that cannot be passed on is named, since the program cannot know. */
static int attach_inherited(const struct load *l)
{
	struct abi_right r;
	struct abi_text t;
	char line[128];
	s64 end = bee_os_inherited_end();
	u32 fd;

	if (end < 0)
		return refuse_program(
			l, "the inherited descriptors cannot be listed");
	for (fd = 3; fd < end; fd++) {
		if (bee_os_inherited(fd, &r))
			continue;
		if (r.type && !abi_fd_adopt(bee.proc, fd, &r))
			continue;
		abi_text_init(&t, line, sizeof(line));
		abi_text_str(&t, "inherited descriptor ");
		abi_text_dec(&t, fd);
		abi_text_str(&t, r.type ? " is closed: it is above ulimit -n, "
					  "or a folder outside of the root"
					: " is closed: it is no file, pipe, "
					  "device or socket");
		bee_os_message(line);
	}
	return 0;
}

#define STREAM_FD 3

static int attach_stream(const struct load *l)
{
	u32 type, flags;
	s64 handle;

	if (l->options->control)
		return 0;
	if (!l->options->stream)
		return attach_inherited(l);
	handle = bee_os_stream(l->options->stream, &type, &flags);
	if (handle < 0)
		return refuse_program(
			l, "--stream is not an inherited two-way stream");
	if (abi_fd_attach(bee.proc, STREAM_FD, (s32)handle, type & S_IFMT,
			  flags))
		return refuse_program(l, "its stream cannot be attached");
	return 0;
}

/* A requested directory must exist; otherwise bee's own is used. */
static int choose_cwd(const struct load *l, char *cwd, u64 len)
{
	const char *want = l->options->cwd;
	struct abi_stat st;
	struct abi_path_op op = {
		.verb = ABI_PATH_STAT, .path = cwd, .stat = &st};
	u64 n;

	if (bee.snapshot) /* it has its own */
		return 0;
	if (bee.resume) {
		abi_strcpy(cwd, abi_exec_cwd(bee.resume), len);
		return 0;
	}
	if (!want)
		return bee_os_guest_cwd(cwd, len) ? -1 : 0;
	n = abi_strlen(want);
	if (*want != '/' || n >= len)
		return -1;
	while (n > 1 && want[n - 1] == '/')
		n--;
	abi_memcpy(cwd, want, n);
	cwd[n] = '\0';
	if (l->os->path(&op) < 0 || (st.mode & S_IFMT) != S_IFDIR)
		return -1;
	return 0;
}

static int restore_process(const struct load *l)
{
	char why[400], line[512];
	struct abi_text text;

	if (!bee_restore(l->os, why, sizeof(why)))
		return 0;
	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, "refused to restore ");
	abi_text_str(&text, l->options->restore);
	abi_text_str(&text, ": ");
	abi_text_str(&text, why);
	bee_os_message(line);
	return BEE_EXIT_REFUSED;
}

static int make_process(const struct load *l, const char *const *envp)
{
	static char path[4096], cwd[4096];
	struct abi_exec exec = {
		.plan = &l->image->plan,
		.image_end = l->image->stubs_end,
		.loader = bee.loader.plan.segments ? &bee.loader.plan : 0,
		.loader_end = bee.loader.stubs_end,
		.argv = (const char *const *)l->options->argv,
		.envp = envp,
		.path = path,
		.cwd = cwd,
		.hwcap = bee_cpu_hwcap(),
	};
	s64 err;

	if (!bee.snapshot &&
	    bee_os_guest_path(l->options->program, path, sizeof(path)))
		return refuse_program(l,
				      "its path does not lie under the root");
	if (choose_cwd(l, cwd, sizeof(cwd)))
		return refuse_program(
			l, l->options->cwd
				   ? "--cwd names no directory under the root "
				     "by its absolute path"
				   : "bee's working directory does not lie "
				     "under the root");
	bee.proc = bee_os_alloc(abi_proc_size());
	if (!bee.proc || abi_proc_init(bee.proc, &bee_gated))
		return refuse_program(l, "the process state cannot be set up");
	abi_proof_set(bee.proc, l->options->nonce);
	if (bee.snapshot)
		return restore_process(l);
	err = abi_exec(bee.proc, &exec);
	if (err == -LINUX_ENOMEM)
		return refuse_program(
			l, "stack and arguments do not fit into memory");
	if (err)
		return refuse_program(l, "abi refused it");
	if (bee.resume)
		return abi_exec_resume(bee.proc, bee.resume, bee.resume_len)
			       ? refuse_program(l,
						"what execve left is damaged")
			       : 0;
	return attach_streams(l) ?: attach_stream(l);
}

/* Does everything from the file's bytes to protected text. */
static int load_image(struct load *l)
{
	int err = map_file(l);

	if (!err)
		err = rewrite_image(l);
	if (!err)
		err = for_runs(l, 1);
	return err;
}

/*
 * Loads the dynamic loader that the program names, by the guest's path.
 */
static int load_loader(struct load *program)
{
	const char *name = program->image->plan.interp;
	struct load l = {.options = program->options,
			 .os = program->os,
			 .image = &bee.loader,
			 .name = name,
			 .use = {.role = ABI_ELF_LOADER}};
	struct abi_open open = {.path = name};
	s64 err;

	if (!*name)
		return 0;
	err = l.os->file_open(&open);
	if (!err) {
		err = bee_image_read(l.os, open.handle, (u8 **)&l.file,
				     &l.file_len, &bee.loader.id);
		l.os->file_close(open.handle);
	}
	if (err)
		return refuse_program(&l, "the program is dynamic and its "
					  "loader cannot be read; is it below "
					  "--root?");
	abi_strcpy(bee.loader.path, name, sizeof(bee.loader.path));
	err = load_image(&l);
	bee_os_free((void *)(__UINTPTR_TYPE__)l.file, l.file_len);
	return (int)err;
}

static void begin_load(const struct bee_options *o, const struct abi_host *os)
{
	bee.options = o;
	bee.os = os;
	bee_cpu_init();
	bee_gate_init(os);
}

int bee_load_forked(const struct bee_options *o, const struct abi_host *os,
		    const u8 *images)
{
	begin_load(o, os);
	return bee_images_restore(images);
}

int bee_load(const struct bee_options *o, const struct abi_host *os,
	     const char *const *envp)
{
	struct load l = {.options = o,
			 .os = os,
			 .image = &bee.image,
			 .name = o->program,
			 .use = {.role = ABI_ELF_PROGRAM}};
	u64 start = (u64)os->clock(ABI_CLOCK_MONOTONIC);
	int err;

	begin_load(o, os);
	err = open_file(&l);
	if (err)
		return err;
	err = load_image(&l);
	bee_os_file_free(l.file, l.file_len);
	if (!err)
		err = load_loader(&l);
	bee.image.load_ns = (u64)os->clock(ABI_CLOCK_MONOTONIC) - start;
	return err ? err : make_process(&l, envp);
}
