// SPDX-License-Identifier: MIT
/*
 * Loads the program that the boot message names. The message is copied once.
 * The program's file is read through the proxy; its contents are hostile input.
 */
#include "abi/include/page.h"
#include "abi/include/user.h"
#include "kernel.h"

#define HEAD_MAX 0x10000u
#define WORDS_MAX 0x8000u
#define S_IFMT 0170000u
#define S_IFREG 0100000u
#define NR_DUP2 33
#define EXIT_REFUSED 126
#define EXIT_NOT_FOUND 127

static struct mail_boot *boot; /* our copy */
static struct abi_elf_plan plan;
static s32 file;

static void refuse_program(const char *why, u32 code)
{
	struct abi_text text;
	char line[512];

	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, "refused to load ");
	abi_text_str(&text, boot->path);
	abi_text_str(&text, ": ");
	abi_text_str(&text, why);
	sms_forward_log(line);
	sms_forward_exit(code << 8);
}

static void copy_boot(const struct mail_boot *from)
{
	boot = sms_page_reserve(sizeof(*boot));
	if (!boot)
		sms_panic("no memory for the boot message", 0, 0);
	abi_memcpy(boot, from, sizeof(*boot));
	boot->path[sizeof(boot->path) - 1] = 0;
	boot->cwd[sizeof(boot->cwd) - 1] = 0;
	boot->node[sizeof(boot->node) - 1] = 0;
	boot->machine[sizeof(boot->machine) - 1] = 0;
	boot->text[sizeof(boot->text) - 1] = 0;
	if (boot->magic != MAIL_MAGIC || boot->revision != MAIL_REVISION ||
	    boot->path[0] != '/' || boot->cwd[0] != '/')
		refuse_program(
			"the proxy is of another build: use both from one",
			EXIT_REFUSED);
}

/* The words of the text as argv, NULL, envp, NULL. */
static const char **make_words(void)
{
	u32 want = boot->argc + boot->envc, n = 0, at = 0;
	const char **words;

	if (boot->argc < 1 || boot->argc > WORDS_MAX ||
	    boot->envc > WORDS_MAX || boot->bytes >= sizeof(boot->text))
		return 0;
	words = sms_page_reserve((want + 2) * sizeof(*words));
	for (; words && n < want && at < boot->bytes; n++) {
		words[n + (n >= boot->argc)] = boot->text + at;
		at += (u32)abi_strlen(boot->text + at) + 1;
	}
	return n == want ? words : 0;
}

static void open_program(void)
{
	struct abi_open open = {.path = boot->path};
	s64 err = sms_forward_open(&open);

	if (err == -LINUX_ENOENT || err == -LINUX_ENOTDIR)
		refuse_program("there is no such program", EXIT_NOT_FOUND);
	if (err || open.type != S_IFREG)
		refuse_program("the file cannot be read", EXIT_REFUSED);
	file = open.handle;
}

static void plan_program(void)
{
	static const struct abi_elf_use use = {.role = ABI_ELF_STATIC};
	struct abi_file_op op = {.verb = ABI_FILE_STAT};
	struct abi_io io = {.len = HEAD_MAX};
	struct abi_stat st = {0};
	s64 n;

	op.stat = &st;
	io.buf = sms_page_reserve(HEAD_MAX);
	if (!io.buf || sms_forward_file(file, &op))
		refuse_program("the file cannot be read", EXIT_REFUSED);
	n = sms_forward_read(file, &io);
	if (n < 0)
		refuse_program("the file cannot be read", EXIT_REFUSED);
	if (abi_elf_plan(&use, io.buf, (u64)n, st.size, &plan))
		refuse_program(plan.why ? plan.why
					: "it is not a Linux program",
			       EXIT_REFUSED);
}

static u64 segment_end(const struct abi_elf_segment *s)
{
	return ABI_PAGE_UP(s->addr + s->memsz);
}

/* Segments are in ascending order; the first page of one may be the last page
 * of another. */
static void commit_segments(void)
{
	u64 start, end = 0;
	u32 i;

	for (i = 0; i < plan.segments; i++) {
		start = ABI_PAGE_DOWN(plan.segment[i].addr);
		start = start > end ? start : end;
		end = segment_end(&plan.segment[i]);
		if (start < end &&
		    sms_memory_commit(start, end - start,
				      ABI_PROT_READ | ABI_PROT_WRITE))
			refuse_program("not enough memory for its segments",
				       EXIT_REFUSED);
	}
}

static void read_segments(void)
{
	const struct abi_elf_segment *s;
	struct abi_io io;
	u32 i;

	for (i = 0; i < plan.segments; i++) {
		s = &plan.segment[i];
		io.buf = abi_user_ptr(s->addr);
		io.len = s->filesz;
		io.offset = (s64)s->offset;
		if (s->filesz && sms_forward_read(file, &io) != (s64)s->filesz)
			refuse_program("the file ends before its segments do",
				       EXIT_REFUSED);
	}
}

static void protect_segments(void)
{
	const struct abi_elf_segment *s;
	u64 start, end = 0, first;
	u32 i, prot = 0;

	for (i = 0; i < plan.segments; i++) {
		s = &plan.segment[i];
		first = ABI_PAGE_DOWN(s->addr);
		start = first > end ? first : end;
		if (first < end)
			sms_memory_protect(first, PAGE, prot | s->prot);
		prot = first < end ? prot | s->prot : s->prot;
		end = segment_end(s);
		if (start < end &&
		    sms_memory_protect(start, end - start, s->prot))
			refuse_program("its pages cannot be protected",
				       EXIT_REFUSED);
		prot = s->prot;
	}
}

s64 sms_load_info(struct abi_host_info *info)
{
	abi_memset(info, 0, sizeof(*info));
	info->cpus = sms_partition->cores;
	info->pid = boot->pid > 1 ? boot->pid : 2;
	info->uid = boot->uid;
	info->gid = boot->gid;
	info->umask = boot->umask & 0777;
	info->spawns = ABI_SPAWNS_HELPERS;
	info->mem_total = sms_pool_bytes();
	info->mem_limit =
		SKEP_ARENA_SIZE; /* memory is allocated on first touch */
	info->mem_free = sms_pool_free_bytes();
	info->xsave_size = sms_cpu_vec_size();
	info->xsave_mask = sms_cpu_vec_mask();
	abi_strcpy(info->node, boot->node, sizeof(info->node));
	abi_strcpy(info->machine, boot->machine, sizeof(info->machine));
	return 0;
}

/* Descriptors that share an open file description in Linux share one here too,
 * with its flags. */
static int share_stream(u32 fd)
{
	struct abi_regs regs = {.rax = NR_DUP2, .rsi = fd};

	if (!boot->stream[fd].same || boot->stream[fd].same > fd)
		return 0;
	regs.rdi = boot->stream[fd].same - 1;
	abi_syscall(sms_proc, 0, &regs);
	return regs.rax == fd;
}

static void attach_streams(void)
{
	struct mail_stream *s;
	u32 fd;

	for (fd = 0; fd < 3; fd++) {
		s = &boot->stream[fd];
		if (s->handle < 0 || share_stream(fd))
			continue;
		if (abi_fd_attach(sms_proc, fd, s->handle, s->type & S_IFMT,
				  s->flags))
			refuse_program("a standard stream cannot be attached",
				       EXIT_REFUSED);
	}
}

static u64 vdso_size(void)
{
	return (u64)(sms_vdso_end - sms_vdso);
}

/*
 * Maps the vDSO outside of the program's mappings, so that the program can
 * neither move nor free its pages. 0: there is no vDSO, and clocks are read by
 * system calls.
 */
static u64 map_vdso(void)
{
	u64 bytes = vdso_size(), at, offset;
	u64 frames = sms_page_frames(bytes);

	if (!frames || sms_page_map(AT_CLOCK, sms_partition->mail_start,
				    SMS_PAGE_USER | SMS_PAGE_NX, 0))
		return 0;
	abi_memcpy((void *)frames, sms_vdso, bytes);
	at = frames - AT_KERNEL + sms_partition->kernel_start;
	for (offset = 0; offset < bytes; offset += PAGE)
		if (sms_page_map(AT_VDSO + offset, at + offset, SMS_PAGE_USER,
				 0))
			return 0;
	return AT_VDSO;
}

void sms_load(const struct mail_boot *message)
{
	struct abi_exec exec = {.plan = &plan};
	int err;

	copy_boot(message);
	exec.argv = make_words();
	if (!exec.argv)
		refuse_program("its arguments do not fit", EXIT_REFUSED);
	exec.envp = exec.argv + boot->argc + 1;
	exec.path = boot->path;
	exec.cwd = boot->cwd;
	exec.stack_size = boot->stack;
	exec.hwcap = sms_cpu_hwcap();
	exec.vdso = map_vdso();
	exec.vdso_end = exec.vdso ? exec.vdso + vdso_size() : 0;
	open_program();
	plan_program();
	commit_segments();
	read_segments();
	protect_segments();
	sms_forward_close(file);
	exec.image_end = plan.end;
	err = abi_proc_init(sms_proc, &sms_host);
	err = err ? err : abi_exec(sms_proc, &exec);
	if (err)
		refuse_program(err == -LINUX_ENOMEM
				       ? "its addresses leave no space for a "
					 "stack of this size: see ulimit -s"
				       : "the process cannot be set up",
			       EXIT_REFUSED);
	attach_streams();
	sms_events_begin();
}
