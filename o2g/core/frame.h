/* SPDX-License-Identifier: MIT */
/* Checks a frame independently of the state of its connection. */
#ifndef O2G_CORE_FRAME_H
#define O2G_CORE_FRAME_H

#include <skep/o2g_wire.h>

/* 0 or -EPROTO. */
int o2g_frame_check(const struct o2g_frame *frame);

#endif
