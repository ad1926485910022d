/* SPDX-License-Identifier: MIT */
/* What a file of handlers needs: the call, and the prototypes of them all. */
#ifndef ABI_SYS_H
#define ABI_SYS_H

#include "call.h"
#include "build/gen/abi/sys.h"

#endif
