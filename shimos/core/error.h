/* SPDX-License-Identifier: MIT */
/* Linux's numbers, for code that sees no header of a system. */
#ifndef SHIMOS_ERROR_H
#define SHIMOS_ERROR_H

#define SHIMOS_EPERM 1
#define SHIMOS_ENOMEM 12
#define SHIMOS_EBUSY 16
#define SHIMOS_ENODEV 19
#define SHIMOS_EINVAL 22
#define SHIMOS_EFBIG 27
#define SHIMOS_ENOSPC 28
#define SHIMOS_EOPNOTSUPP 95

#endif
