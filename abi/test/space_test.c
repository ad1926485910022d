/* SPDX-License-Identifier: MIT */
/*
 * The address map: random operations against a plain model (one record for
 * each page), invariants after each of them, contents in real memory.
 */
#include <stdlib.h>
#include <string.h>

#include "abi/uapi/linux.h"
#include "abi/test/internal.h"
#include "host_fake.h"
#include "tests/tap.h"

#define PAGES 64
#define RW (ABI_PROT_READ | ABI_PROT_WRITE)
#define RX (ABI_PROT_READ | ABI_PROT_EXEC)

/* The window that the model knows; MAP_FIXED works inside it only. */
static const u64 base = SKEP_MMAP_START + (1 << 20);

struct page {
	int mapped, committed;
	u32 prot;
	u8 byte; /* what its first byte holds */
};

static struct page model[PAGES];
static struct abi_proc *p;
static u64 seed = 88172645463325252ull;

static u32 random_below(u32 n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (u32)(seed >> 33) % n;
}

static u32 some_prot(void)
{
	static const u32 prots[] = {0, ABI_PROT_READ, RW, RW, RX};

	return prots[random_below(5)];
}

static u64 page_address(u32 page)
{
	return base + page * 4096ull;
}

static int all_mapped(u32 first, u32 n)
{
	for (; n; n--, first++)
		if (!model[first].mapped)
			return 0;
	return 1;
}

static int any_mapped(u32 first, u32 n)
{
	for (; n; n--, first++)
		if (model[first].mapped)
			return 1;
	return 0;
}

static void model_map(u32 first, u32 n, u32 prot)
{
	for (; n; n--, first++)
		model[first] = (struct page){1, prot != 0, prot, 0};
}

static int op_map(u32 first, u32 n, u32 flags)
{
	u32 prot = some_prot();
	struct abi_map m = {.addr = page_address(first),
			    .len = n * 4096ull,
			    .prot = prot,
			    .flags = flags};
	s64 rc = abi_space_map(p, &m);

	if (flags == ABI_MAP_FIXED_NOREPLACE && any_mapped(first, n))
		return rc == -LINUX_EEXIST;
	if (rc != (s64)page_address(first))
		return 0;
	model_map(first, n, prot);
	return 1;
}

static int op_unmap(u32 first, u32 n)
{
	if (abi_space_unmap(p, page_address(first), n * 4096ull))
		return 0;
	memset(&model[first], 0, n * sizeof(model[0]));
	return 1;
}

static int op_protect(u32 first, u32 n)
{
	u32 prot = some_prot(), i;
	s64 rc = abi_space_protect(p, page_address(first), n * 4096ull, prot);

	if (!all_mapped(first, n))
		return rc == -LINUX_ENOMEM;
	for (i = first; i < first + n; i++) {
		model[i].prot = prot;
		model[i].committed |= prot != 0;
	}
	return rc == 0;
}

static int op_discard(u32 first, u32 n)
{
	s64 rc = abi_space_discard(p, page_address(first), n * 4096ull);
	u32 i;

	for (i = first; i < first + n; i++)
		if (!(model[i].prot & ABI_PROT_EXEC))
			model[i].byte = 0;
	return rc == (all_mapped(first, n) ? 0 : -LINUX_ENOMEM);
}

static int op_write(u32 first, u32 n)
{
	u32 i;

	for (i = first; i < first + n; i++) {
		if (!(model[i].prot & ABI_PROT_WRITE))
			continue;
		model[i].byte = (u8)random_below(256);
		*(volatile u8 *)page_address(i) = model[i].byte;
	}
	return 1;
}

static int run_step(void)
{
	u32 first = random_below(PAGES), n = 1 + random_below(PAGES - first);

	if (n > 12)
		n = 1 + n % 12;
	switch (random_below(7)) {
	case 0:
		return op_map(first, n, ABI_MAP_FIXED);
	case 1:
		return op_map(first, n, ABI_MAP_FIXED_NOREPLACE);
	case 2:
		return op_unmap(first, n);
	case 3:
		return op_discard(first, n);
	case 4:
		return op_write(first, n);
	default:
		return op_protect(first, n);
	}
}

static int page_agrees(u32 i)
{
	const struct page *m = &model[i];

	if (abi_space_check(p, page_address(i), 4096, 0) != m->mapped)
		return 0;
	if (!m->mapped)
		return 1;
	if (!abi_space_check(p, page_address(i), 4096, m->prot) ||
	    abi_space_check(p, page_address(i), 4096, 7 & ~m->prot))
		return 0;
	return !(m->prot & ABI_PROT_READ) ||
	       *(volatile u8 *)page_address(i) == m->byte;
}

static int space_agrees(u64 committed_before)
{
	u64 committed = 0, mapped = 0, has, sum;
	u32 i;

	for (i = 0; i < PAGES; i++) {
		if (!page_agrees(i))
			return 0;
		mapped += model[i].mapped * 4096ull;
		committed += model[i].committed * 4096ull;
	}
	abi_space_count(p, &has, &sum);
	return has == committed + committed_before && sum >= mapped &&
	       fake.committed == committed && !abi_space_wrong(&p->space);
}

static void random_ops(void)
{
	u32 i, bad = 0;

	p = fake_proc();
	for (i = 0; i < 20000 && !bad; i++)
		if (!run_step() || !space_agrees(0))
			bad = i + 1;
	if (bad)
		printf("# operation %u, map: %s\n", bad,
		       abi_space_wrong(&p->space) ?: "valid");
	tap_ok(!bad, "random operations agree with a plain model");
	tap_ok(fake.seals > 100 && fake.commits > 1000,
	       "the random operations reached seal and commit");
	fake_free(p);
}

static s64 map_range(u64 addr, u64 len, u32 prot, u32 flags)
{
	struct abi_map m = {
		.addr = addr, .len = len, .prot = prot, .flags = flags};

	return abi_space_map(p, &m);
}

static void test_placement(void)
{
	u64 a, b, c;

	p = fake_proc();
	a = (u64)map_range(0, 8192, RW, 0);
	b = (u64)map_range(0, 4096, RW, 0);
	tap_ok(a == SKEP_MMAP_END - 8192 && b == a - 4096,
	       "mmap allocates from the top down");
	tap_ok(p->space.areas == 1,
	       "adjacent mappings with equal attributes are merged");
	c = SKEP_MMAP_START + 0x100000;
	tap_ok((u64)map_range(c, 4096, RW, 0) == c,
	       "a hint is used if it is free");
	tap_ok((u64)map_range(c, 4096, RW, 0) == b - 4096,
	       "a hint is not used if it is mapped");
	tap_ok((u64)map_range(0xc000000000, 4096, 0, 0) == b - 8192,
	       "a hint outside the guest's ranges is not used");
	tap_ok(map_range(c + 1, 4096, RW, ABI_MAP_FIXED) == -LINUX_EINVAL,
	       "a fixed address must be page aligned");
	tap_ok(map_range(0x10000, 4096, RW, ABI_MAP_FIXED) == -LINUX_ENOMEM,
	       "a fixed address outside the ranges is refused");
	tap_ok(map_range(~0ull << 12, 8192, RW, ABI_MAP_FIXED) == -LINUX_ENOMEM,
	       "a fixed range that wraps is refused");
	tap_ok(map_range(SKEP_IMAGE_START, 4096, RW, ABI_MAP_FIXED) ==
		       SKEP_IMAGE_START,
	       "a fixed address in the image range works");
	tap_ok(!abi_space_unmap(p, b, 4096) &&
		       (u64)map_range(0, 4096, RW, 0) == b,
	       "a gap near the top is used again");
	tap_ok(map_range(0, SKEP_ARENA_SIZE, 0, 0) == -LINUX_ENOMEM,
	       "a reservation larger than the window fails");
	tap_ok(map_range(0, 64ull << 30, 0, 0) > 0,
	       "a reservation of 64 GiB costs nothing");
	tap_ok(!abi_space_wrong(&p->space), "the map is valid");
	fake_free(p);
}

static void test_limits(void)
{
	u64 gib = 1ull << 30, a;

	p = fake_proc();
	tap_ok(map_range(0, gib + 4096, RW, 0) == -LINUX_ENOMEM,
	       "memory above the limit is refused");
	a = (u64)map_range(0, gib / 2, RW, 0);
	tap_ok(map_range(0, gib / 2 + 4096, RW, 0) == -LINUX_ENOMEM &&
		       !abi_space_unmap(p, a, gib / 2),
	       "mappings are added up against the limit");
	a = (u64)map_range(0, 4 * gib, 0, 0);
	tap_ok(p->space.committed == 0, "PROT_NONE is not counted");
	tap_ok(abi_space_protect(p, a, 2 * gib, RW) == -LINUX_ENOMEM &&
		       p->space.committed == 0,
	       "making more memory accessible than the limit is refused");
	tap_ok(!abi_space_protect(p, a, gib / 2, RW) &&
		       p->space.committed == gib / 2,
	       "memory that becomes accessible is counted");
	tap_ok(!abi_space_protect(p, a, gib / 2, 0) &&
		       p->space.committed == gib / 2,
	       "PROT_NONE keeps contents, and memory stays counted");
	tap_ok((u64)map_range(a, gib, RW, ABI_MAP_FIXED) == a,
	       "memory that a fixed mapping replaces is not counted twice");
	tap_ok(!abi_space_unmap(p, a, 4 * gib) && !p->space.committed &&
		       !p->space.mapped && !fake.committed,
	       "munmap releases everything that was counted");
	p->limit[ABI_RLIMIT_AS].cur = gib;
	tap_ok(map_range(0, 2 * gib, 0, 0) == -LINUX_ENOMEM,
	       "RLIMIT_AS is enforced");
	fake.commit_answer = -LINUX_ENOMEM;
	tap_ok(map_range(0, 4096, RW, 0) == -LINUX_ENOMEM && !p->space.areas,
	       "a host without memory leaves the map as it was");
	fake_free(p);
}

static void test_wx(void)
{
	u64 a;
	u8 *byte;

	p = fake_proc();
	tap_ok(map_range(0, 4096, 7, 0) == -LINUX_EACCES && fake.logs == 1 &&
		       strstr(fake.last_log, "writable and executable"),
	       "writable and executable memory is refused with a message");
	a = (u64)map_range(0, 8192, RW, 0);
	byte = (u8 *)a;
	*byte = 0xc3;
	tap_ok(abi_space_protect(p, a, 4096, 7) == -LINUX_EACCES,
	       "mprotect to writable and executable is refused");
	tap_ok(!abi_space_protect(p, a, 4096, RX) && fake.seals == 1 &&
		       *byte == 0xc3,
	       "executable memory is sealed and keeps its bytes");
	fake.seal_answer = -LINUX_EACCES;
	tap_ok(abi_space_protect(p, a + 4096, 4096, RX) == -LINUX_EACCES &&
		       abi_space_check(p, a + 4096, 4096, RW),
	       "a refused seal leaves the protection as it was");
	byte[4096] = 1;
	tap_ok(map_range(0, 4096, RX, 0) == -LINUX_EACCES &&
		       p->space.areas == 2,
	       "a refused seal undoes the mapping");
	tap_ok(!abi_space_wrong(&p->space), "the map is valid");
	fake_free(p);
}

static void full_table(void)
{
	u64 a, i;
	s64 rc = 0;

	p = fake_proc();
	a = (u64)map_range(0, 4ull * ABI_AREAS_MAX * 4096, 0, 0);
	for (i = 0; i < 2 * ABI_AREAS_MAX && !rc; i += 2)
		rc = abi_space_unmap(p, a + i * 4096, 4096);
	tap_ok(rc == -LINUX_ENOMEM && p->space.areas <= ABI_AREAS_MAX,
	       "a full table refuses with ENOMEM");
	tap_ok(!abi_space_wrong(&p->space), "a full table is valid");
	tap_ok(abi_space_check(p, a + 4096, 4096, 0) &&
		       !abi_space_check(p, a, 8192, 0) &&
		       !abi_space_check(p, ~0ull - 100, 200, 0),
	       "checks see holes and do not overflow");
	fake_free(p);
}

int main(void)
{
	random_ops();
	test_placement();
	test_limits();
	test_wx();
	full_table();
	return tap_done();
}
