// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loaded updates: their modules' tables are checked here, and their states
 * change here. dynamos_lock guards the list and the states.
 *
 * Context: process. dynamos_update_end() and dynamos_update_at() run anywhere,
 * in NMIs too; kick_drain() is an irq_work (hardirq).
 */
#define pr_fmt(fmt) "dynamos: " fmt
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include <dynamos/core/state.h>

#include "engine.h"
#include "symbol.h"

DEFINE_MUTEX(dynamos_lock);
LIST_HEAD(dynamos_updates);
static DECLARE_WAIT_QUEUE_HEAD(left);
static bool advised;

void dynamos_advise(void)
{
	WRITE_ONCE(advised, true);
}

bool dynamos_node_advised(void)
{
	return READ_ONCE(advised);
}

/* A call makes its choice and is counted with preemption off. synchronize_rcu()
 * does not wait for code that RCU does not watch, such as the idle task; the
 * second function does. */
void dynamos_settle(void)
{
	synchronize_rcu();
	synchronize_rcu_tasks_rude();
}

struct dynamos_update_state *dynamos_update_find(const char *name, char *why)
{
	struct dynamos_update_state *u;

	lockdep_assert_held(&dynamos_lock);
	if (strnlen(name, DYNAMOS_NAME) == DYNAMOS_NAME) {
		if (why)
			scnprintf(why, DYNAMOS_WHY,
				  "the name has no terminating NUL");
		return ERR_PTR(-EINVAL);
	}
	list_for_each_entry(u, &dynamos_updates, link)
		if (!strcmp(u->name, name))
			return u;
	if (why)
		scnprintf(why, DYNAMOS_WHY,
			  "there is no update %s: load its module first", name);
	return ERR_PTR(-ENOENT);
}

struct dynamos_update_state *dynamos_update_at(unsigned long address)
{
	struct dynamos_update_state *u;

	list_for_each_entry_lockless(u, &dynamos_updates, link)
		if (within_module_core(address, u->update->module))
			return u;
	return NULL;
}

int dynamos_update_step(struct dynamos_update_state *u, u32 step, char *why)
{
	int next = dynamos_state_next(u->state, step);

	lockdep_assert_held(&dynamos_lock);
	if (next >= 0) {
		WRITE_ONCE(u->state, next);
		wake_up_all(&left);
		return 0;
	}
	scnprintf(why, DYNAMOS_WHY, "%s is %s", u->name,
		  dynamos_state_name(u->state));
	return next;
}

void dynamos_update_started(struct dynamos_update_state *u)
{
	lockdep_assert_held(&dynamos_lock);
	WRITE_ONCE(u->engine->starting, false);
	wake_up_all(&left);
}

u64 dynamos_update_inside(const struct dynamos_update_state *u)
{
	u64 inside = 0;
	u32 i;

	lockdep_assert_held(&dynamos_lock);
	for (i = 0; i < u->count; i++)
		inside |= dynamos_version_inside(u->version[i]);
	return inside;
}

bool dynamos_update_leaves_objects(struct dynamos_update_state *u)
{
	if (!(u->update->flags & DYNAMOS_RELIES))
		return false;
	return !u->update->object ||
	       atomic_cmpxchg(&u->engine->bound, DYNAMOS_UNBOUND,
			      DYNAMOS_SHUT_OUT) == DYNAMOS_BOUND;
}

static void stop_new_calls(struct dynamos_update_state *u)
{
	u32 i;

	if (u->class == DYNAMOS_ANY)
		for (i = 0; i < u->count; i++)
			WRITE_ONCE(u->version[i]->choice, DYNAMOS_PASS);
	else
		dynamos_group_stop(u);
}

void dynamos_update_end(struct dynamos_update_state *u,
			enum dynamos_cause cause, const struct task_struct *by,
			const char *text)
{
	u32 state = READ_ONCE(u->state);

	if (state == DYNAMOS_LOADED || state == DYNAMOS_LEAVING ||
	    atomic_cmpxchg(&u->ending, DYNAMOS_NOT_ENDING, DYNAMOS_END_CLAIMED))
		return;
	stop_new_calls(u);
	dynamos_update_leaves_objects(u);
	u->cause = cause;
	u->pid = by ? by->pid : 0;
	strscpy(u->comm, by ? by->comm : "", sizeof(u->comm));
	strscpy(u->text, text, sizeof(u->text));
	/* Publishes the fields above. */
	atomic_set_release(&u->ending, DYNAMOS_END_WRITTEN);
	irq_work_queue(&u->kick);
}

static void kick_drain(struct irq_work *work)
{
	dynamos_drain_kick();
}

/* What is wrong with one function's entry, for the log, or NULL. */
static const char *function_wrong(const struct dynamos_update *update,
				  const struct dynamos_function *f)
{
	if (!f->symbol || !*f->symbol || strlen(f->symbol) >= DYNAMOS_SYMBOL)
		return "has no name, or one that is too long";
	if (!strcmp(f->symbol, "do_task_dead"))
		return "never returns, and the end of a task inside it cannot "
		       "be detected";
	if (f->args > 6 && f->args != DYNAMOS_UNCOUNTED)
		return "has more than the 6 arguments that registers hold";
	if (f->args == DYNAMOS_UNCOUNTED && update->class != DYNAMOS_TOGETHER)
		return "has calls that cannot be counted, which only class "
		       "together allows";
	if (f->result > DYNAMOS_VALUE)
		return "has a result of an unknown kind";
	if (f->object != DYNAMOS_NO_ARG && f->object >= f->args)
		return "names as its object an argument that it does not have";
	if (f->version &&
	    !within_module((unsigned long)f->version, update->module))
		return "has its new version outside of the update's module";
	if (update->object && f->args != DYNAMOS_UNCOUNTED)
		return "is a module's, whose calls cannot be counted";
	if (!f->version &&
	    (update->class == DYNAMOS_ANY || update->class == DYNAMOS_TOGETHER))
		return "has no new version, which only classes task and "
		       "object allow";
	if (f->ends > 1 || f->bare > 1 || f->zero[0] || f->zero[1] ||
	    f->zero[2])
		return "has a damaged entry in the table";
	return NULL;
}

static const char *update_wrong(const struct dynamos_update *update)
{
	if (update->class < DYNAMOS_ANY || update->class > DYNAMOS_TOGETHER)
		return "its class is unknown";
	if (!update->count || update->count > DYNAMOS_FUNCTIONS)
		return "it changes no function, or more than 64";
	if (update->flags & ~(DYNAMOS_RELIES | DYNAMOS_NO_PROGRAM) ||
	    !update->functions || !update->build_id ||
	    (update->held &&
	     (!*update->held ||
	      strnlen(update->held, DYNAMOS_WHY) == DYNAMOS_WHY)) ||
	    (update->object && !dynamos_patch_object_valid(update)))
		return "its table is damaged";
	if (!dynamos_symbol_kernel(update->build_id))
		return "it was built for another kernel: build it for this "
		       "one's build-id";
	if (update->class == DYNAMOS_TOGETHER &&
	    !is_livepatch_module(update->module))
		return "class together needs MODULE_INFO(livepatch, \"Y\")";
	return NULL;
}

static int refuse_symbol(const struct dynamos_update_state *u,
			 const char *symbol, const char *why, int err)
{
	pr_err("%s: %s %s\n", u->name, symbol, why);
	return err;
}

/* The symbol table's size of a function includes the padding up to the next
 * symbol. */
static bool same_size(u64 stated, unsigned long size)
{
	return !stated || ALIGN(stated, 16) == ALIGN((u64)size, 16);
}

static int find_kernel_place(const struct dynamos_update_state *u,
			     const struct dynamos_function *f,
			     struct dynamos_place *at)
{
	int err = dynamos_symbol_function(f->symbol, f->sympos, &at->address);

	if (err == -ENOTUNIQ)
		return refuse_symbol(u, f->symbol,
				     "exists more than once: give its sympos",
				     err);
	if (err)
		return refuse_symbol(u, f->symbol,
				     "is not in this kernel, or only inlined: "
				     "change its callers",
				     err);
	err = dynamos_symbol_size(at->address, &at->length);
	if (err)
		return refuse_symbol(u, f->symbol, "has no size", err);
	if (!same_size(f->old_size, at->length))
		return refuse_symbol(
			u, f->symbol,
			"has another size in this kernel: build the "
			"update for it",
			-ENOEXEC);
	at->place = dynamos_symbol_place(at->address, at->length);
	if (!at->place)
		return refuse_symbol(
			u, f->symbol,
			"cannot be changed: it is notrace or inline; "
			"update its callers",
			-EOPNOTSUPP);
	return 0;
}

/* A function of a module may not be loaded yet; livepatch finds it by name. Its
 * place only has to differ from all other places. */
static int find_place(const struct dynamos_update_state *u,
		      const struct dynamos_function *f,
		      struct dynamos_place *at)
{
	if (u->update->object) {
		*at = (struct dynamos_place){.address =
						     (unsigned long)f->version,
					     .place = (unsigned long)f->version,
					     .length = f->size};
		return 0;
	}
	return find_kernel_place(u, f, at);
}

static int find_places(struct dynamos_update_state *u)
{
	const struct dynamos_function *f = u->update->functions;
	struct dynamos_place *at = u->engine->at;
	const char *wrong;
	u32 i, j;
	int err;

	for (i = 0; i < u->count; i++) {
		wrong = function_wrong(u->update, &f[i]);
		if (wrong)
			return refuse_symbol(u, f[i].symbol ?: "a function",
					     wrong, -EINVAL);
		err = find_place(u, &f[i], &at[i]);
		if (err)
			return err;
		for (j = 0; j < i; j++)
			if (at[j].place == at[i].place)
				return refuse_symbol(u, f[i].symbol,
						     "is listed twice",
						     -EINVAL);
	}
	return 0;
}

static void free_version(struct dynamos_version *v)
{
	if (!v)
		return;
	free_percpu(v->tally);
	free_percpu(v->other);
	kfree(v);
}

static struct dynamos_version *make_version(struct dynamos_update_state *u,
					    u32 i)
{
	const struct dynamos_function *f = &u->update->functions[i];
	struct dynamos_version *v = kzalloc(sizeof(*v), GFP_KERNEL);

	if (!v)
		return NULL;
	v->tally = alloc_percpu(struct dynamos_tally);
	v->other = alloc_percpu(struct dynamos_tally);
	v->sample = ~0u;
	v->call = f->version;
	v->update = u;
	v->function = f;
	v->address = (unsigned long)f->version;
	v->length = f->size;
	v->result = f->result;
	if (v->tally && v->other)
		return v;
	free_version(v);
	return NULL;
}

static void free_inside(struct dynamos_update_state *u)
{
	u32 i;

	for (i = 0; i < u->count; i++)
		free_version(u->version[i]);
	if (u->engine)
		dynamos_patch_free(u->engine->patch);
	kvfree(u->engine);
	dynamos_table_free(u->table);
	kfree(u);
}

static struct dynamos_update_state *make_inside(struct dynamos_update *update)
{
	struct dynamos_update_state *u = kzalloc(sizeof(*u), GFP_KERNEL);
	u32 i;

	if (!u)
		return NULL;
	u->update = update;
	u->class = update->class;
	u->state = DYNAMOS_LOADED;
	u->count = update->count;
	strscpy(u->name, update->module->name, sizeof(u->name));
	init_irq_work(&u->kick, kick_drain);
	u->engine = kvzalloc(struct_size(u->engine, at, u->count), GFP_KERNEL);
	if (!u->engine)
		goto fail;
	for (i = 0; i < u->count; i++) {
		u->version[i] = make_version(u, i);
		if (!u->version[i])
			goto fail;
	}
	return u;
fail:
	free_inside(u);
	return NULL;
}

int dynamos_update_add(struct dynamos_update *update)
{
	struct dynamos_update_state *u;
	const char *wrong;
	int err;

	if (update->revision != DYNAMOS_UPDATE_REVISION || !update->module) {
		pr_err("an update has revision %u, this engine has %u: rebuild "
		       "it\n",
		       update->revision, DYNAMOS_UPDATE_REVISION);
		return -EPROTO;
	}
	wrong = update_wrong(update);
	if (wrong) {
		pr_err("%s: %s\n", update->module->name, wrong);
		return -EINVAL;
	}
	u = make_inside(update);
	if (!u)
		return -ENOMEM;
	err = find_places(u);
	if (err) {
		free_inside(u);
		return err;
	}
	mutex_lock(&dynamos_lock);
	update->inside = u;
	list_add_tail_rcu(&u->link, &dynamos_updates);
	mutex_unlock(&dynamos_lock);
	return 0;
}
EXPORT_SYMBOL_GPL(dynamos_update_add);

/* The text of a pinned module is needed for as long as the kernel runs. */
static void stay_for_good(const struct dynamos_update_state *u)
{
	pr_emerg("%s was removed by force, but stays in memory: %s\n", u->name,
		 u->update->held);
	for (;;)
		schedule_timeout_idle(MAX_SCHEDULE_TIMEOUT);
}

/* The module of an applied update is pinned, but rmmod -f ignores that: its
 * exit waits here for the last call inside. RCU callbacks that the module
 * queued have run after rcu_barrier(). The grace periods of the drain do not
 * wait for them: a thread may run them much later (rcu_nocbs=, RCU_LAZY). */
void dynamos_update_remove(struct dynamos_update *update)
{
	struct dynamos_update_state *u = update->inside;

	mutex_lock(&dynamos_lock);
	while (u->state != DYNAMOS_LOADED || u->engine->starting) {
		dynamos_update_end(u, DYNAMOS_ASKED, current,
				   "its module was removed by force");
		mutex_unlock(&dynamos_lock);
		wait_event(left, READ_ONCE(u->state) == DYNAMOS_LOADED &&
					 !READ_ONCE(u->engine->starting));
		mutex_lock(&dynamos_lock);
	}
	if (u->engine->held) {
		mutex_unlock(&dynamos_lock);
		stay_for_good(u);
	}
	list_del_rcu(&u->link);
	mutex_unlock(&dynamos_lock);
	irq_work_sync(&u->kick);
	if (u->engine->unsettled)
		dynamos_settle();
	synchronize_rcu();
	rcu_barrier();
	free_inside(u);
	update->inside = NULL;
}
EXPORT_SYMBOL_GPL(dynamos_update_remove);
