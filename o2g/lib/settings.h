/* SPDX-License-Identifier: MIT */
/* An endpoint's settings: options, then the environment, then defaults. */
#ifndef O2G_LIB_SETTINGS_H
#define O2G_LIB_SETTINGS_H

#include "choice.h"
#include "o2g.h"

struct o2g_settings {
	u8 secret[O2G_SECRET_SIZE];
	char interface[64];
	u16 first_port, last_port; /* 0: chosen by the kernel */
	u32 credit;
	u64 unexpected;
	u32 operations;
	u32 nap_us;
	u32 connect_ms;
	int encrypt;
	struct o2g_choice engine;
};

/* -EACCES: no secret, -EINVAL: an invalid value; o2g_error(). */
int o2g_settings_read(struct o2g_settings *settings,
		      const struct o2g_options *options);

#endif
