/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * What the module of an update hands to dynamos.ko. The module has the new
 * functions, one table, and two calls:
 *
 *   module_init   dynamos_update_add(&update); changes nothing yet
 *   module_exit   dynamos_update_remove(&update); possible only while the
 *                 update is `loaded`, and if it is `held`, only before it was
 *                 in force: otherwise dynamos.ko holds the module
 *
 * `skep update build` writes all this from a source patch. The class
 * `together` and relocations against symbols that are not exported need
 * MODULE_INFO(livepatch, "Y").
 */
#ifndef SKEP_DYNAMOS_UPDATE_H
#define SKEP_DYNAMOS_UPDATE_H

#include <skep/dynamos.h>

#define DYNAMOS_UPDATE_REVISION 3

enum dynamos_result { /* how a result tells of an error */
		      DYNAMOS_VOID,
		      DYNAMOS_INT,   /* int: -4095 to -1 */
		      DYNAMOS_LONG,  /* long or ssize_t: the same */
		      DYNAMOS_PTR,   /* pointer: IS_ERR */
		      DYNAMOS_VALUE, /* anything else in one register: never an
					error */
};

#define DYNAMOS_NO_ARG 0xff
/* As `args`: some arguments or the result are not in the registers that a
 * wrapper passes on. Livepatch then leads calls straight to the version, so
 * none is counted: class together only. */
#define DYNAMOS_UNCOUNTED 0xff

struct dynamos_function {
	const char *symbol;
	u64 sympos;    /* 0: the only one; else which, from 1, as livepatch */
	u64 old_size;  /* bytes; the kernel's must be the same; 0: any */
	void *version; /* the new function; NULL: the old one belongs to the
			  group, so that a choice is made or an object ends at
			  it */
	u64 size;      /* of the new function's text */
	u8 args;       /* in registers: 0 to 6, and none elsewhere; or
			  DYNAMOS_UNCOUNTED */
	u8 result;     /* enum dynamos_result */
	u8 object;     /* class object: which argument, from 0, or NO_ARG */
	u8 ends;       /* 1: the object's life ends with this call */
	u8 bare;       /* 1: its author states that neither it nor a caller
			  holds a lock across it. Otherwise, a task that dies
			  inside may have left a mutex locked, which nothing
			  can tell: a reboot is advised. */
	u8 zero[3];
};

/* Code of the update relies on what objects lack that older code set up, or the
 * other way round. APPLY and REVERT are refused while there may be such
 * objects, without DYNAMOS_OBJECTS_EXIST: always, but if the update changes a
 * module that is not loaded. What reverts it by itself (health, no COMMIT) does
 * not ask. */
#define DYNAMOS_RELIES 1u

/* Its functions run where no BPF program may choose between versions: in the
 * scheduler, in NMIs, in what programs themselves use. DYNAMOS_PROGRAM is
 * refused. */
#define DYNAMOS_NO_PROGRAM 2u

/* The revision guards it: its symbols' versions are the same for every kernel
 * and every file that includes this. */
#ifndef __GENKSYMS__
struct dynamos_update {
	u32 revision; /* DYNAMOS_UPDATE_REVISION */
	u32 class;
	const char *build_id;  /* of the kernel, 40 hex digits; must be ours */
	struct module *module; /* THIS_MODULE; its name is the update's */
	const struct dynamos_function *functions;
	u32 count;
	u32 flags; /* before there were flags, it was 0 */
	/* Why text or data of the module may be in use when all calls are
	 * through, in a sentence: once it was in force, the module is never
	 * unloaded. NULL: nothing is but callbacks of call_rcu(), which are
	 * waited for. */
	const char *held;
	/* The module whose functions it changes, and that one's build-id in
	 * hex; NULL: the kernel's image. Class together, calls not counted.
	 * Livepatch changes it whenever it is loaded; when it goes, the update
	 * leaves, and its module must be loaded anew before it is applied
	 * again. */
	const char *object, *object_id;
	void *inside; /* dynamos.ko's */
};
#endif

/* 0 or -errno with a line in the kernel's log that names what to do. */
int dynamos_update_add(struct dynamos_update *update);
void dynamos_update_remove(struct dynamos_update *update);

#endif
