/* SPDX-License-Identifier: MIT */
/* Which functions of the kernel are not probed. */
#ifndef DYNAMOS_PROBE_H
#define DYNAMOS_PROBE_H

/* Why the function of this name must not be probed, as the rest of a sentence
 * that begins with its name; NULL: it may be. */
const char *dynamos_probe_wrong(const char *symbol);

#endif
