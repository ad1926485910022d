/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes, for device.c. */
#ifndef DYNAMOS_KMOD_PROBE_H
#define DYNAMOS_KMOD_PROBE_H

#include <skep/dynamos.h>

struct file;

/* Takes the locks that it needs; -EAGAIN as dynamos_apply_begin(). The probe
 * belongs to the file. */
int dynamos_probe_add(struct file *file, struct dynamos_probe *probe);
/* Calls of the file's probe number c->function since it was set. The caller
 * holds dynamos_lock. */
int dynamos_probe_count(struct file *file, struct dynamos_count *c);
/* Removes the probes of a file. New calls pass by within moments; a slot is
 * free when the last call has returned. */
void dynamos_probe_close(struct file *file);

#endif
