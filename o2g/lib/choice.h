/* SPDX-License-Identifier: MIT */
/* Which engine an endpoint gets. */
#ifndef O2G_LIB_CHOICE_H
#define O2G_LIB_CHOICE_H

#include "engine.h"

struct o2g_choice {
	const struct o2g_engine_ops *ops;
	u32 slab_message; /* see limits.slab_message in o2g/core/core.h */
	int automatic;	  /* falling back to the user engine is allowed */
};

/* Sets the choice by name: auto, kernel or user. -EINVAL and o2g_error(). */
int o2g_choice_read(struct o2g_choice *choice, const char *name);
/* Creates the engine, and sets `choice` to the one that was created. `options`
 * contains nothing that depends on the engine. -errno and o2g_error(). */
int o2g_choice_open(struct o2g_choice *choice,
		    struct o2g_engine_options *options,
		    struct o2g_engine **engine, struct o2g_area **area);

#endif
