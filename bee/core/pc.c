/* SPDX-License-Identifier: MIT */
/*
 * Classifies a program counter. Reads the map that the rewriter stored in
 * bee.image; it does not change once the guest runs.
 */
#include "bee/core/core.h"

enum bee_pc bee_pc_where(u64 pc)
{
	const struct bee_image *image = &bee.image;

	if (pc >= image->stubs && pc < image->stubs_end)
		return BEE_PC_STUB;
	if (pc >= (u64)(__UINTPTR_TYPE__)bee_exit_begin &&
	    pc < (u64)(__UINTPTR_TYPE__)bee_exit_end)
		return BEE_PC_EXIT;
	if ((pc >= SKEP_IMAGE_START && pc < SKEP_IMAGE_END) ||
	    (pc >= SKEP_ARENA_START && pc < SKEP_ARENA_END))
		return BEE_PC_GUEST;
	return BEE_PC_BEE;
}

static u64 *reg_of(struct abi_regs *regs, u32 number)
{
	u64 *const order[16] = {&regs->rax, &regs->rcx, &regs->rdx, &regs->rbx,
				&regs->rsp, &regs->rbp, &regs->rsi, &regs->rdi,
				&regs->r8,  &regs->r9,	&regs->r10, &regs->r11,
				&regs->r12, &regs->r13, &regs->r14, &regs->r15};

	return order[number & 15];
}

/* The thread is at regs->rip inside a stub: back to the guest's own state. */
void bee_stub_undo(struct abi_regs *regs, u64 scratch, u64 scratch2)
{
	struct bee_stub_pc state;

	if (!bee_map_find(&bee.image.map, regs->rip, &state))
		return;
	if (state.scratch)
		*reg_of(regs, state.scratch - 1u) = scratch;
	if (state.scratch2)
		*reg_of(regs, state.scratch2 - 1u) = scratch2;
	if (state.pushed)
		regs->rsp += 8;
	regs->rip = state.guest;
}

u64 bee_text_pc(u64 pc)
{
	struct bee_stub_pc state;

	if (bee_pc_where(pc) != BEE_PC_STUB ||
	    !bee_map_find(&bee.image.map, pc, &state))
		return pc;
	return state.guest;
}

/* The last site at or below addr, or NULL. */
static const struct bee_site *site_below(u64 addr)
{
	const struct bee_map *map = &bee.image.map;
	u32 low = 0, high = map->sites, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (map->site[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &map->site[low - 1] : 0;
}

/* Where in [stub, end) the guest instruction at `guest` begins; 0: nowhere. */
static u64 stub_of(u64 stub, u64 end, u64 guest)
{
	const struct bee_map *map = &bee.image.map;
	u32 low = 0, high = map->pcs, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (map->pc[mid].stub < stub)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < map->pcs && map->pc[low].stub < end; low++)
		if (map->pc[low].guest == guest && !map->pc[low].scratch &&
		    !map->pc[low].scratch2 && !map->pc[low].pushed)
			return map->pc[low].stub;
	return 0;
}

/*
 * Text inside a patch holds no instructions any more; its stub is. A signal
 * handler that returns there must continue in the stub.
 */
u64 bee_pc_resume(u64 rip)
{
	const struct bee_site *site = site_below(rip);
	u64 stub;

	if (!site || !site->stub || rip <= site->patch ||
	    rip >= site->patch + site->patch_len)
		return rip;
	stub = stub_of(site->stub, site->stub + site->stub_len, rip);
	return stub ? stub : rip;
}
