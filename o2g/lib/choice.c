// SPDX-License-Identifier: MIT
/* Choosing an engine: by name, or the best one that this computer has. */
#include "choice.h"
#include "error.h"
#include "o2g.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SLAB_MESSAGE 8192 /* largest body that is delivered in the slab */

static const struct {
	const char *name;
	struct o2g_choice choice;
} choices[] = {
	{"auto", {&o2g_kernel_engine, SLAB_MESSAGE, 1}},
	{"kernel", {&o2g_kernel_engine, SLAB_MESSAGE, 0}},
	{"user", {&o2g_user_engine, 0, 0}},
	/* For tests: bodies go through the slab, as with the kernel engine. */
	{"user-slab", {&o2g_user_engine, SLAB_MESSAGE, 0}},
};

int o2g_choice_read(struct o2g_choice *choice, const char *name)
{
	if (!name || !*name)
		name = "auto";
	for (unsigned i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
		if (!strcmp(name, choices[i].name)) {
			*choice = choices[i].choice;
			return 0;
		}
	return o2g_error_set(-EINVAL,
			     "engine '%s' (SKEP_O2G_ENGINE): want auto, "
			     "kernel or user",
			     name);
}

/* A missing module is normal and is not reported. */
static int module_absent(int error)
{
	return error == -ENOENT || error == -ENODEV || error == -ENXIO;
}

static const char *error_advice(const struct o2g_engine_ops *ops, int error)
{
	if (error == -EMFILE || error == -ENFILE)
		return "; raise `ulimit -n`";
	if (ops != &o2g_kernel_engine)
		return "";
	if (module_absent(error))
		return "; load it with `modprobe o2g`, see `skep doctor`";
	if (error == -EACCES || error == -EPERM)
		return "; ask root for access to /dev/o2g";
	if (error == -E2BIG)
		return "; it holds at most 4G for unmatched messages "
		       "(SKEP_O2G_UNEXPECTED)";
	if (error == -EPROTO)
		return "; the module and this library are of different "
		       "versions";
	return "";
}

static int open_one(const struct o2g_choice *choice,
		    struct o2g_engine_options *options,
		    struct o2g_engine **engine, struct o2g_area **area)
{
	int r;

	options->limits.slab_message = choice->slab_message;
	options->limits.access = choice->ops->region_add != 0;
	r = choice->ops->open(engine, options, area);
	return r ? o2g_error_set(r, "can't start the engine '%s': %s%s",
				 choice->ops->name, strerror(-r),
				 error_advice(choice->ops, r))
		 : 0;
}

int o2g_choice_open(struct o2g_choice *choice,
		    struct o2g_engine_options *options,
		    struct o2g_engine **engine, struct o2g_area **area)
{
	static int said; /* atomic */
	int r = open_one(choice, options, engine, area);

	if (r == 0 || !choice->automatic)
		return r;
	if (!module_absent(r) &&
	    !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		o2g_error_log("%s; using the engine 'user' instead",
			      o2g_error());
	choice->ops = &o2g_user_engine;
	choice->slab_message = 0;
	return open_one(choice, options, engine, area);
}
