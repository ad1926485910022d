// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who else changes a function. Livepatches are in the kernel's list, under
 * klp_mutex. A direct call has a trampoline, in a table under direct_mutex; the
 * trampoline's symbol or module names the owner. A task that loops in the
 * kernel can keep both mutexes locked for ever, so they are only tried here,
 * and what cannot be read is reported as being in transition.
 *
 * Context: process.
 */
#include <linux/kallsyms.h>
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/mutex.h>

#include "jump.h"
#include "owner.h"
#include "slot.h"
#include "symbol.h"

static struct mutex *klp_lock, *direct_lock;
static struct list_head *klp_list;
static void *find_direct;

int dynamos_owner_init(void)
{
	klp_lock = (struct mutex *)dynamos_symbol_find("klp_mutex");
	direct_lock = (struct mutex *)dynamos_symbol_find("direct_mutex");
	klp_list = (struct list_head *)dynamos_symbol_find("klp_patches");
	find_direct = (void *)dynamos_symbol_find("ftrace_find_rec_direct");
	if (klp_lock && direct_lock && klp_list && find_direct)
		return 0;
	pr_err("this kernel does not show what hooks its functions\n");
	return -ENOENT;
}

static bool patch_changes(struct klp_patch *patch, unsigned long address)
{
	struct klp_object *object;
	struct klp_func *func;

	list_for_each_entry(object, &patch->obj_list, node)
		if (!object->name)
			list_for_each_entry(func, &object->func_list, node)
				if ((unsigned long)func->old_func == address)
					return true;
	return false;
}

bool dynamos_owner_livepatch(unsigned long address,
			     const struct klp_patch *ours, char *name,
			     size_t room)
{
	struct klp_patch *patch;
	bool found = false;

	if (!mutex_trylock(klp_lock)) {
		scnprintf(name, room, "a livepatch in transition");
		return true;
	}
	list_for_each_entry(patch, klp_list, list) {
		if (patch == ours || !patch_changes(patch, address))
			continue;
		scnprintf(name, room, "livepatch %s", patch->mod->name);
		found = true;
		break;
	}
	mutex_unlock(klp_lock);
	return found;
}

bool dynamos_owner_busy(void)
{
	if (!mutex_trylock(klp_lock))
		return true;
	mutex_unlock(klp_lock);
	return false;
}

bool dynamos_owner_find(unsigned long address, unsigned long place, char *name,
			size_t room)
{
	unsigned long direct;

	if (dynamos_owner_livepatch(address, NULL, name, room))
		return true;
	if (!mutex_trylock(direct_lock)) {
		scnprintf(name, room, "a tracer in transition");
		return true;
	}
	direct = dynamos_jump(place, 0, 0, 0, 0, find_direct);
	mutex_unlock(direct_lock);
	if (!direct)
		return false;
	scnprintf(name, room, "%ps", (void *)direct);
	return true;
}
