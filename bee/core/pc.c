/* SPDX-License-Identifier: MIT */
/*
 * Classifies a program counter, and translates it from stubs to the guest's
 * text and back. Owns nothing: the maps belong to the images, which may be
 * removed with their library.
 */
#include "bee/core/core.h"
#include "bee/core/image.h"

static int is_stub(u64 pc)
{
	int found = bee_images_get_stub(pc) != 0;

	bee_images_put();
	return found;
}

enum bee_pc bee_pc_where(u64 pc)
{
	if (pc >= (u64)(__UINTPTR_TYPE__)bee_exit_begin &&
	    pc < (u64)(__UINTPTR_TYPE__)bee_exit_end)
		return BEE_PC_EXIT;
	if ((pc >= SKEP_IMAGE_START && pc < SKEP_IMAGE_END) ||
	    (pc >= SKEP_ARENA_START && pc < SKEP_ARENA_END))
		return is_stub(pc) ? BEE_PC_STUB : BEE_PC_GUEST;
	return BEE_PC_BEE;
}

/* The guest's state that a PC in a stub stands for; 0 if pc is not in a
 * stub. */
static int find_state(u64 pc, struct bee_stub_pc *state)
{
	const struct bee_image *image = bee_images_get_stub(pc);
	int found = image && bee_map_find(&image->map, pc, state);

	bee_images_put();
	return found;
}

static u64 *reg_of(struct abi_regs *regs, u32 number)
{
	u64 *const order[16] = {&regs->rax, &regs->rcx, &regs->rdx, &regs->rbx,
				&regs->rsp, &regs->rbp, &regs->rsi, &regs->rdi,
				&regs->r8,  &regs->r9,	&regs->r10, &regs->r11,
				&regs->r12, &regs->r13, &regs->r14, &regs->r15};

	return order[number & 15];
}

/* The thread is at regs->rip inside a stub: restores the guest's own state. */
void bee_stub_undo(struct abi_regs *regs, u64 scratch, u64 scratch2)
{
	struct bee_stub_pc state;

	if (!find_state(regs->rip, &state))
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

	return find_state(pc, &state) ? state.guest : pc;
}

/* The last site at or below addr, or NULL. */
static const struct bee_site *site_below(const struct bee_map *map, u64 addr)
{
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

/* The address in [stub, end) where the guest's instruction at `guest` begins; 0
 * if there is none. */
static u64 stub_of(const struct bee_map *map, u64 stub, u64 end, u64 guest)
{
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

static u64 resume_in(const struct bee_map *map, u64 rip)
{
	const struct bee_site *site = site_below(map, rip);
	u64 stub;

	if (!site || !site->stub || rip <= site->patch ||
	    rip >= site->patch + site->patch_len)
		return rip;
	stub = stub_of(map, site->stub, site->stub + site->stub_len, rip);
	return stub ? stub : rip;
}

/*
 * Text inside a patch has no instructions any more; its stub has them. A signal
 * handler that returns there must continue in the stub.
 */
u64 bee_pc_resume(u64 rip)
{
	const struct bee_image *image = bee_images_get_text(rip);
	u64 at = image ? resume_in(&image->map, rip) : rip;

	bee_images_put();
	return at;
}
