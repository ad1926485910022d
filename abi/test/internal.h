/* SPDX-License-Identifier: MIT */
/* The parts of abi, for tests that look inside. */
#ifndef ABI_TEST_INTERNAL_H
#define ABI_TEST_INTERNAL_H

#include "abi/fs/desc.h"
#include "abi/fs/fd.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/mm/space.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/futex.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "abi/time/time.h"

#endif
