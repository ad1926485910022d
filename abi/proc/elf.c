/* SPDX-License-Identifier: MIT */
/*
 * Decides what to map of an ELF file, from its headers alone (elf(5), and the
 * System V ABI with its x86-64 supplement). No lock, no host. Every field is
 * treated as hostile; sums are checked for overflow before use.
 */
#include <skep/guest.h>

#include "abi/include/abi.h"
#include "abi/include/elf.h"
#include "base/errno.h"
#include "abi/include/host.h"
#include "abi/include/mem.h"

#define PAGE ((u64)SKEP_PAGE_SIZE)
#define TLS_MAX (1ull << 30)   /* more than any program needs */
#define STUBS_MIN (1ull << 20) /* minimum that is kept free for stubs */
#define LOADER_MAX (64ull << 20)

struct reading {
	const struct abi_elf_use *use;
	const u8 *head;
	u64 head_len, file_size;
	struct elf_header h;
	struct abi_elf_plan *plan;
	u64 low, high; /* range of the segments according to the file */
};

static int refuse_file(struct abi_elf_plan *plan, const char *why)
{
	plan->why = why;
	return -LINUX_ENOEXEC;
}

static int check_ident(struct reading *r)
{
	const u8 *id = r->head;

	if (r->head_len < 4 || id[0] != 0x7f || id[1] != 'E' || id[2] != 'L' ||
	    id[3] != 'F')
		return refuse_file(r->plan,
				   "This is not an ELF file: give a Linux "
				   "program, or start a script through a "
				   "static shell.");
	if (r->head_len < 5 || id[4] == 1)
		return refuse_file(r->plan,
				   "This is a 32-bit program: build it for "
				   "x86-64.");
	if (r->head_len < sizeof(r->h) || r->file_size < r->head_len)
		return refuse_file(r->plan,
				   "The file ends inside its ELF header: copy "
				   "it again, it is incomplete.");
	if (id[4] != 2 || id[5] != 1 || id[6] != 1)
		return refuse_file(r->plan,
				   "The ELF header is of an unknown class, "
				   "byte order or version: build the program "
				   "for x86-64 Linux.");
	abi_memcpy(&r->h, id, sizeof(r->h));
	return 0;
}

static int check_header(struct reading *r)
{
	const struct elf_header *h = &r->h;

	if (h->machine != ELF_MACHINE_X86_64)
		return refuse_file(r->plan,
				   "The program is for another processor: "
				   "build it for x86-64.");
	if (h->type == ELF_TYPE_REL)
		return refuse_file(r->plan,
				   "This is an object file: link it first, "
				   "with -static.");
	if (h->type != ELF_TYPE_EXEC && h->type != ELF_TYPE_DYN)
		return refuse_file(r->plan,
				   "This ELF file is not a program: give an "
				   "executable linked with -static.");
	if (h->phentsize != sizeof(struct elf_phdr) || !h->phnum ||
	    h->phnum > ELF_PHDRS_MAX)
		return refuse_file(r->plan,
				   "The table of program headers is missing or "
				   "of a wrong size: the file is damaged or "
				   "not a program.");
	if (h->phoff > r->head_len ||
	    (u64)h->phnum * sizeof(struct elf_phdr) > r->head_len - h->phoff)
		return refuse_file(r->plan,
				   "The program headers lie outside the start "
				   "of the file: the file is damaged, copy or "
				   "link it again.");
	return 0;
}

static void phdr_at(const struct reading *r, u32 i, struct elf_phdr *ph)
{
	abi_memcpy(ph, r->head + r->h.phoff + i * sizeof(*ph), sizeof(*ph));
}

static u32 prot_of(u32 flags)
{
	return (flags & ELF_FLAG_R ? ABI_PROT_READ : 0) |
	       (flags & ELF_FLAG_W ? ABI_PROT_WRITE : 0) |
	       (flags & ELF_FLAG_X ? ABI_PROT_EXEC : 0);
}

/* Checks sizes and offsets of one PT_LOAD, before its address is known. */
static int load_fields(struct reading *r, const struct elf_phdr *ph)
{
	u64 end;

	if (ph->filesz > ph->memsz)
		return refuse_file(r->plan,
				   "A segment has more bytes in the file than "
				   "in memory: the file is damaged.");
	if (ph->offset > r->file_size || ph->filesz > r->file_size - ph->offset)
		return refuse_file(r->plan,
				   "A segment lies outside the file: copy the "
				   "file again, it is incomplete.");
	if (__builtin_add_overflow(ph->vaddr, ph->memsz, &end) ||
	    __builtin_add_overflow(end, PAGE - 1, &end))
		return refuse_file(r->plan,
				   "The address of a segment overflows: the "
				   "file is damaged.");
	if ((ph->vaddr ^ ph->offset) & (PAGE - 1))
		return refuse_file(r->plan,
				   "A segment's address does not fit its place "
				   "in the file: link the program with pages "
				   "of 4096 bytes (-z max-page-size=4096).");
	if ((ph->flags & ELF_FLAG_W) && (ph->flags & ELF_FLAG_X))
		return refuse_file(r->plan,
				   "A segment is both writable and executable: "
				   "link the program without -N (omagic) and "
				   "-z execstack.");
	return 0;
}

static int plan_load(struct reading *r, const struct elf_phdr *ph)
{
	struct abi_elf_plan *plan = r->plan;
	struct abi_elf_segment *s = &plan->segment[plan->segments];
	u64 start = ph->vaddr & ~(PAGE - 1);
	int rc;

	if (!ph->memsz)
		return 0;
	rc = load_fields(r, ph);
	if (rc)
		return rc;
	if (plan->segments == ABI_ELF_SEGMENTS_MAX)
		return refuse_file(
			plan, "The program has more than 16 segments: link "
			      "it without a linker script of its own.");
	/* in ascending order, as the ABI requires, without a shared page */
	if (plan->segments && start < r->high)
		return refuse_file(plan,
				   "Segments overlap or share a page: link the "
				   "program with -z separate-code.");
	if (!plan->segments)
		r->low = start;
	r->high = (ph->vaddr + ph->memsz + PAGE - 1) & ~(PAGE - 1);
	s->addr = ph->vaddr;
	s->filesz = ph->filesz;
	s->memsz = ph->memsz;
	s->offset = ph->offset;
	s->prot = prot_of(ph->flags);
	plan->segments++;
	return 0;
}

static int check_stack(struct reading *r, const struct elf_phdr *ph)
{
	/* a library's loader calls mprotect for it, which refuses */
	if (ph->flags & ELF_FLAG_X && r->use->role != ABI_ELF_LIBRARY)
		return refuse_file(r->plan,
				   "The program asks for an executable stack: "
				   "link it with -z noexecstack.");
	r->plan->stack_size = ph->memsz;
	return 0;
}

/* The loader's name is only needed for the message. */
static int refuse_dynamic(struct reading *r, const char *name)
{
	if (!abi_memcmp(name, "/lib/ld-musl-x86_64.so.1", 25))
		return refuse_file(r->plan,
				   "The program is dynamic (it wants "
				   "/lib/ld-musl-x86_64.so.1): link it with "
				   "-static.");
	if (!abi_memcmp(name, "/lib64/ld-linux-x86-64.so.2", 28))
		return refuse_file(r->plan,
				   "The program is dynamic (it wants "
				   "/lib64/ld-linux-x86-64.so.2): link it with "
				   "-static.");
	return refuse_file(r->plan,
			   "The program is dynamic (it names a loader of its "
			   "own): link it with -static.");
}

static int find_interpreter(struct reading *r, const struct elf_phdr *ph)
{
	char *name = r->plan->interp;

	if (r->use->role == ABI_ELF_LOADER)
		return refuse_file(r->plan,
				   "The program's loader is a dynamic program "
				   "itself.");
	if (r->use->role == ABI_ELF_LIBRARY)
		/* libc.so.6 names a loader, which its user has loaded
		 * already */
		return 0;
	if (ph->offset > r->head_len || ph->filesz < 2 ||
	    ph->filesz > ABI_ELF_INTERP_MAX ||
	    ph->filesz > r->head_len - ph->offset)
		return refuse_file(r->plan,
				   "The name of the program's loader lies "
				   "outside the start of the file or is too "
				   "long: the file is damaged.");
	abi_memcpy(name, r->head + ph->offset, ph->filesz);
	if (name[ph->filesz - 1] || *name != '/')
		return refuse_file(r->plan,
				   "The name of the program's loader is not an "
				   "absolute path: the file is damaged.");
	return r->use->role == ABI_ELF_STATIC ? refuse_dynamic(r, name) : 0;
}

static int header_entry(struct reading *r, const struct elf_phdr *ph)
{
	switch (ph->type) {
	case ELF_PT_LOAD:
		return plan_load(r, ph);
	case ELF_PT_INTERP:
		return find_interpreter(r, ph);
	case ELF_PT_GNU_STACK:
		return check_stack(r, ph);
	case ELF_PT_TLS:
		if (ph->memsz > TLS_MAX || ph->filesz > ph->memsz)
			return refuse_file(r->plan,
					   "The program's thread-local data is "
					   "damaged or above 1 GiB: make it "
					   "smaller.");
		return 0;
	default:
		return 0;
	}
}

/* The guest has chosen the address: its mapping begins where a segment's text
 * does. */
static int follow_mapping(struct reading *r)
{
	struct abi_elf_plan *plan = r->plan;
	const struct abi_elf_segment *s;
	u64 start, end;
	u32 i;

	for (i = 0; i < plan->segments; i++) {
		s = &plan->segment[i];
		if (!(s->prot & ABI_PROT_EXEC) || !s->filesz ||
		    (s->offset & ~(PAGE - 1)) != r->use->offset)
			continue;
		plan->bias = r->use->addr - (s->addr & ~(PAGE - 1));
		start = r->low + plan->bias;
		end = r->high + plan->bias;
		if (start < end &&
		    ((start >= SKEP_IMAGE_START && end <= SKEP_IMAGE_END) ||
		     (start >= SKEP_ARENA_START && end <= SKEP_ARENA_END)))
			return 0;
	}
	return refuse_file(plan, "The mapping is of no text segment.");
}

static int place_loader(struct reading *r)
{
	if (r->h.type != ELF_TYPE_DYN)
		return refuse_file(r->plan,
				   "The program's loader is linked at a fixed "
				   "address.");
	if (r->high > LOADER_MAX)
		return refuse_file(r->plan,
				   "The program's loader is larger than 64 "
				   "MiB.");
	r->plan->bias = SKEP_MMAP_START;
	return 0;
}

/* Chooses the load address; both ranges leave room for stubs. */
static int choose_position(struct reading *r)
{
	struct abi_elf_plan *plan = r->plan;
	u64 size = r->high - r->low;

	if (r->use->role == ABI_ELF_LIBRARY)
		return follow_mapping(r);
	if (r->use->role == ABI_ELF_LOADER)
		return place_loader(r);
	if (r->h.type == ELF_TYPE_DYN) {
		if (size > SKEP_PIE_SIZE - STUBS_MIN ||
		    r->high > SKEP_PIE_SIZE - STUBS_MIN)
			return refuse_file(
				plan, "The program is larger than 2047 MiB "
				      "in memory: make its static arrays "
				      "smaller.");
		plan->bias = SKEP_PIE_START;
		return 0;
	}
	if (r->low < SKEP_IMAGE_START)
		return refuse_file(
			plan, "The program is linked below 0x400000: link it "
			      "with -static-pie, or at 0x400000.");
	if (size > SKEP_IMAGE_END - SKEP_IMAGE_START - STUBS_MIN)
		return refuse_file(
			plan, "The program is larger than 1531 MiB in "
			      "memory: link it with -static-pie (up to 2047 "
			      "MiB), or make its static arrays smaller.");
	if (r->high > SKEP_IMAGE_END - STUBS_MIN)
		return refuse_file(
			plan, "The program is linked above 0x5ff00000: link "
			      "it with -static-pie, or at 0x400000.");
	return 0;
}

/* Computes final addresses, and the guest address of the program headers. */
static int relocate_plan(struct reading *r)
{
	struct abi_elf_plan *plan = r->plan;
	u64 table = (u64)r->h.phnum * sizeof(struct elf_phdr);
	struct abi_elf_segment *s;
	u32 i, entry = 0;

	plan->entry = r->h.entry + plan->bias;
	plan->phnum = r->h.phnum;
	plan->phent = sizeof(struct elf_phdr);
	plan->start = r->low + plan->bias;
	plan->end = r->high + plan->bias;
	for (i = 0; i < plan->segments; i++) {
		s = &plan->segment[i];
		s->addr += plan->bias;
		if ((s->prot & ABI_PROT_EXEC) && plan->entry >= s->addr &&
		    plan->entry - s->addr < s->filesz)
			entry = 1;
		if (r->h.phoff >= s->offset &&
		    r->h.phoff - s->offset <= s->filesz &&
		    table <= s->filesz - (r->h.phoff - s->offset))
			plan->phdr = s->addr + (r->h.phoff - s->offset);
	}
	if (r->use->role == ABI_ELF_LIBRARY)
		return 0;
	if (!entry)
		return refuse_file(plan,
				   "The program's entry lies outside its code: "
				   "the file is damaged or not a program.");
	if (!plan->phdr)
		return refuse_file(
			plan, "The program headers are not part of a loaded "
			      "segment: link the program with the "
			      "toolchain's own linker script.");
	return 0;
}

int abi_elf_plan(const struct abi_elf_use *use, const void *head, u64 head_len,
		 u64 file_size, struct abi_elf_plan *plan)
{
	struct reading r = {.use = use,
			    .head = head,
			    .head_len = head_len,
			    .file_size = file_size,
			    .plan = plan};
	struct elf_phdr ph;
	u32 i;
	int rc;

	abi_memset(plan, 0, sizeof(*plan));
	rc = check_ident(&r);
	if (!rc)
		rc = check_header(&r);
	for (i = 0; !rc && i < r.h.phnum; i++) {
		phdr_at(&r, i, &ph);
		rc = header_entry(&r, &ph);
	}
	if (!rc && !plan->segments)
		rc = refuse_file(plan,
				 "The file has no segment to load: it is not a "
				 "program.");
	if (!rc)
		rc = choose_position(&r);
	return rc ? rc : relocate_plan(&r);
}
