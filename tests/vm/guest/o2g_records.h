/* SPDX-License-Identifier: MIT */
/* The end of an encrypted connection that a test holds itself. */
#ifndef TESTS_VM_O2G_RECORDS_H
#define TESTS_VM_O2G_RECORDS_H

#include <o2g/core/record.h>

#include "o2g_raw.h"

/* Of what the engine at the other end sends and gets. */
static const uint8_t key_out[O2G_KEY_SIZE] = {1}, key_in[O2G_KEY_SIZE] = {2};

/* Whether the stream, read to its end, is records, and BYE is the last of its
 * frames. */
static bool read_to_bye(int fd)
{
	static uint8_t all[1 << 20];
	struct o2g_frame last = {.type = O2G_MESSAGE};
	struct o2g_seal opens;
	size_t have = 0, at = 0;
	ssize_t n;
	int size = 1;

	while (have < sizeof(all) &&
	       (n = recv(fd, all + have, sizeof(all) - have, 0)) > 0)
		have += (size_t)n;
	o2g_seal_start(&opens, key_out);
	while (size > 0 && at < have) {
		size = o2g_record_size(all + at, (uint32_t)(have - at));
		if (size <= 0 || (size_t)size > have - at ||
		    o2g_record_open(&opens, all + at, (uint32_t)size) < 0)
			return false;
		at += (size_t)size;
		if ((size_t)size >= sizeof(last) + O2G_RECORD_TAG)
			memcpy(&last, all + at - O2G_RECORD_TAG - sizeof(last),
			       sizeof(last));
	}
	return last.type == O2G_BYE && at == have;
}

/* The peer reads nothing until the engine wants to leave, so in one of these
 * cases the socket has no room for the last record. */
static void leaves_late(void)
{
	static uint8_t body[1000];
	int small = 4096, wrong = 0;
	uint32_t ms = 20;

	for (int count = 1; count <= 40; count++) {
		struct raw raw = raw_open();
		int end[2];

		raw_pair(end);
		setsockopt(end[0], SOL_SOCKET, SO_SNDBUF, &small,
			   sizeof(small));
		setsockopt(end[1], SOL_SOCKET, SO_RCVBUF, &small,
			   sizeof(small));
		raw_give(&raw, end[0], 1);
		for (int i = 0; i < count; i++)
			raw_do(&raw, O2G_OP_SEND, 1, 1, body, sizeof(body));
		ioctl(raw.fd, O2G_IOC_FINISH, &ms);
		wrong += !read_to_bye(end[1]);
		close(end[1]);
		raw_close(&raw);
	}
	tap_ok(!wrong, "records: the last one arrives, also if it waited");
}

#endif
