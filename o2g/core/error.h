/* SPDX-License-Identifier: MIT */
/*
 * Linux's error numbers that the core uses, which no header of a system may
 * bring here.
 */
#ifndef O2G_CORE_ERROR_H
#define O2G_CORE_ERROR_H

enum {
	O2G_ENOENT = 2,
	O2G_EAGAIN = 11,
	O2G_ENOMEM = 12,
	O2G_EACCES = 13,
	O2G_EEXIST = 17,
	O2G_EINVAL = 22,
	O2G_ENOSPC = 28,
	O2G_ENOMSG = 42,
	O2G_EPIPE = 32,
	O2G_ERANGE = 34,
	O2G_EPROTO = 71,
	O2G_EMSGSIZE = 90,
	O2G_ECONNRESET = 104,
	O2G_ESHUTDOWN = 108,
	O2G_EHOSTUNREACH = 113,
	O2G_ECANCELED = 125,
	O2G_EKEYREJECTED = 129
};

#endif
