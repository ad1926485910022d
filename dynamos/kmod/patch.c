// SPDX-License-Identifier: GPL-2.0-only
/*
 * Class together: a livepatch whose new functions are the wrappers of slots, or
 * the versions themselves where no wrapper can pass the arguments on. Each
 * APPLY uses a new klp_patch, because one that was disabled cannot be enabled
 * again. It is disabled by calling the store function of its sysfs file
 * `enabled`: the kernel exports no other way, and a module should not open
 * files.
 *
 * An update of a module's functions is a livepatch of two objects: the module,
 * and the kernel with no functions, because livepatch runs an object's
 * callbacks only if it is loaded. Livepatch resolves the module's symbols in
 * the update once, and cannot do it again (before 6.3 it does not even clear
 * them when the module is unloaded). So the update is reverted when the module
 * is unloaded, and can be applied only once.
 *
 * Enabling and disabling take livepatch's mutex, so they run without
 * dynamos_lock; drain.c frees a patch only after both. The callbacks run under
 * livepatch's mutex: they only record what happened, and kick the drain work.
 *
 * Context: process. The callbacks run in livepatch's worker, or in a write to a
 * livepatch's sysfs files.
 */
#define pr_fmt(fmt) "dynamos: " fmt
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/stacktrace.h>

#include "compat.h"
#include "engine.h"
#include "jump.h"
#include "owner.h"
#include "symbol.h"

#define DEPTH 24
#define CHANGED_OVER 1 /* a task's patch_state */

struct dynamos_patch {
	struct klp_patch patch;
	struct klp_object
		object[3]; /* the kernel, a module, and a terminator */
	struct dynamos_update_state *update;
	bool entered, left;
	/* The task in klp_enable_patch(): if it runs check_module(), the module
	 * was loaded before. */
	struct task_struct *enabler;
	bool occupied;	      /* the module was, and must not have been */
	struct klp_func none; /* an empty list */
	struct klp_func func[];
};

static void patch_entered(struct klp_object *object)
{
	struct dynamos_patch *p =
		container_of(object, struct dynamos_patch, object[0]);

	smp_store_release(&p->entered, true);
	dynamos_drain_kick();
}

static void patch_left(struct klp_object *object)
{
	struct dynamos_patch *p =
		container_of(object, struct dynamos_patch, object[0]);

	smp_store_release(&p->left, true);
	dynamos_drain_kick();
}

#define BUILD_ID 20

/* The ELF note of a build-id, in a module's read-only data. */
struct id_note {
	u32 name, length, type;
	char owner[4];
	u8 id[BUILD_ID];
};

bool dynamos_patch_object_valid(const struct dynamos_update *update)
{
	u8 id[BUILD_ID];

	return *update->object && strlen(update->object) < MODULE_NAME_LEN &&
	       update->object_id && strlen(update->object_id) == 2 * BUILD_ID &&
	       !hex2bin(id, update->object_id, BUILD_ID);
}

static bool module_is(const struct module *module, const char *object_id)
{
	struct id_note want = {4, BUILD_ID, 3, "GNU"};
	size_t size, at;
	const u8 *data = dynamos_compat_rodata(module, &size);

	if (hex2bin(want.id, object_id, BUILD_ID))
		return false;
	for (at = 0; at + sizeof(want) <= size; at += 4)
		if (!memcmp(data + at, &want, sizeof(want)))
			return true;
	return false;
}

/* Also called when the module is loaded later; an error makes that load
 * fail. */
static int check_module(struct klp_object *object)
{
	struct dynamos_patch *p =
		container_of(object, struct dynamos_patch, object[1]);
	const struct dynamos_update *update = p->update->update;

	if (atomic_cmpxchg(&p->update->engine->bound, DYNAMOS_UNBOUND,
			   DYNAMOS_BOUND) == DYNAMOS_SHUT_OUT) {
		pr_err("%s is being reverted, and objects of the module %s "
		       "would be its code's: load the module when it has "
		       "left\n",
		       p->update->name, update->object);
		return -EBUSY;
	}
	if (READ_ONCE(p->enabler) == current && p->update->engine->absent) {
		p->occupied = true;
		return -EBUSY;
	}
	if (!module_is(object->mod, update->object_id)) {
		pr_err("%s is for another build of the module %s: revert it, "
		       "or load that one\n",
		       p->update->name, update->object);
		return -ENOEXEC;
	}
	return 0;
}

/* Called only for an update that is in force or leaving. */
static void module_left(struct klp_object *object)
{
	struct dynamos_patch *p =
		container_of(object, struct dynamos_patch, object[1]);
	char text[DYNAMOS_WHY];

	scnprintf(text, sizeof(text), "the module %s was unloaded",
		  p->update->update->object);
	dynamos_update_end(p->update, DYNAMOS_GONE, NULL, text);
}

static void set_objects(struct dynamos_patch *p,
			const struct dynamos_update *update)
{
	p->object[0].funcs = p->func;
	p->object[0].callbacks.post_patch = patch_entered;
	p->object[0].callbacks.post_unpatch = patch_left;
	if (!update->object)
		return;
	p->object[0].funcs = &p->none;
	p->object[1].name = update->object;
	p->object[1].funcs = p->func;
	p->object[1].callbacks.pre_patch = check_module;
	p->object[1].callbacks.post_unpatch = module_left;
}

static void explain_refusal(const struct dynamos_patch *p, int err, char *why)
{
	const struct dynamos_update_state *u = p->update;

	if (p->occupied)
		scnprintf(why, DYNAMOS_WHY,
			  "code of %s relies on what objects lack that older "
			  "code of the module %s set up: unload that module "
			  "first, or say why they do no harm (--objects-exist)",
			  u->name, u->update->object);
	else
		scnprintf(why, DYNAMOS_WHY,
			  "livepatch rejected %s (%d): see the kernel's log; "
			  "another livepatch or tracer may use one of its "
			  "functions",
			  u->name, err);
}

int dynamos_patch_enable(struct dynamos_update_state *u, char *why)
{
	const struct dynamos_function *f = u->update->functions;
	struct dynamos_patch *p;
	u32 i;
	int err;

	p = kvzalloc(struct_size(p, func, u->count + 1), GFP_KERNEL);
	if (!p)
		return -ENOMEM;
	p->update = u;
	for (i = 0; i < u->count; i++) {
		p->func[i].old_name = f[i].symbol;
		p->func[i].old_sympos = f[i].sympos;
		p->func[i].new_func =
			dynamos_uncounted(&f[i])
				? f[i].version
				: (void *)u->version[i]->slot->wrapper;
	}
	set_objects(p, u->update);
	p->patch.mod = u->update->module;
	p->patch.objs = p->object;
	p->enabler = current;
	err = klp_enable_patch(&p->patch);
	WRITE_ONCE(p->enabler, NULL);
	if (!err) {
		u->engine->patch = p;
		return 0;
	}
	explain_refusal(p, err, why);
	kvfree(p);
	return err;
}

/* Does what writing 0 to the file `enabled` does. */
int dynamos_patch_disable(struct dynamos_patch *p)
{
	struct kobject *object = &p->patch.kobj;
	const struct kobj_type *type = object->ktype;
	const struct attribute_group **group;
	struct attribute **a;

	for (group = type->default_groups; *group; group++)
		for (a = (*group)->attrs; *a; a++)
			if (!strcmp((*a)->name, "enabled"))
				return type->sysfs_ops->store(object, *a, "0\n",
							      2);
	return -ENOENT;
}

bool dynamos_patch_entered(const struct dynamos_patch *p)
{
	return smp_load_acquire(&p->entered);
}

/* Livepatch calls module_put() after its last access to the patch. */
bool dynamos_patch_left(const struct dynamos_patch *p)
{
	return !p->patch.enabled && module_refcount(p->patch.mod) <= 1;
}

const struct klp_patch *dynamos_patch_klp(const struct dynamos_patch *p)
{
	return p ? &p->patch : NULL;
}

void dynamos_patch_free(struct dynamos_patch *p)
{
	kvfree(p);
}

/* The symbol of the update's function that contains this address, or NULL. */
static const char *function_at(const struct dynamos_update_state *u,
			       unsigned long address)
{
	const struct dynamos_place *at = u->engine->at;
	u32 i;

	for (i = 0; i < u->count; i++)
		if (address - at[i].address < at[i].length)
			return u->update->functions[i].symbol;
	return NULL;
}

static const char *show_stack_of(const struct dynamos_update_state *u,
				 struct task_struct *task, void *save)
{
	unsigned long stack[DEPTH];
	const char *inside = NULL;
	u32 i, n;

	n = dynamos_jump((unsigned long)task, (unsigned long)stack, DEPTH, 0, 0,
			 save);
	pr_notice("%s: %s (%d) has not completed the transition; its stack:\n",
		  u->name, task->comm, task->pid);
	for (i = 0; i < n && i < DEPTH; i++) {
		pr_notice("  %pS\n", (void *)stack[i]);
		inside = inside ?: function_at(u, stack[i]);
	}
	return inside;
}

/* Gets a reference to the blocker number `skip`, counted from 0, or NULL. */
static struct task_struct *find_blocker(u32 skip)
{
	struct task_struct *process, *task, *found = NULL;

	rcu_read_lock();
	for_each_process_thread(process, task) {
		if (found || task->patch_state == CHANGED_OVER || skip--)
			continue;
		found = get_task_struct(task);
	}
	rcu_read_unlock();
	return found;
}

void dynamos_patch_blockers(struct dynamos_update_state *u, char *text,
			    size_t room)
{
	void *save = (void *)dynamos_symbol_find("stack_trace_save_tsk");
	size_t used =
		scnprintf(text, room, "transition timed out, blocked by:");
	struct task_struct *task;
	const char *inside;
	u32 i;

	lockdep_assert_held(&dynamos_lock);
	for (i = 0; i < 8; i++) {
		task = find_blocker(i);
		if (!task)
			return;
		inside = save ? show_stack_of(u, task, save) : NULL;
		used += scnprintf(text + used, room - used, " %s %d%s%s",
				  task->comm, task->pid, inside ? " in " : "",
				  inside ?: "");
		put_task_struct(task);
	}
}
