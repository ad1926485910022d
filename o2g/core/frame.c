/* SPDX-License-Identifier: MIT */
/* Checks a frame independently of the state of its connection. */
#include "base/errno.h"
#include "atomic.h"
#include "frame.h"

static int frame_is_plain(const struct o2g_frame *frame)
{
	return !frame->context && !frame->tag && !frame->data && !frame->flags;
}

static int message_valid(const struct o2g_frame *frame)
{
	return !(frame->flags & ~O2G_FRAME_DATA) &&
	       (frame->flags & O2G_FRAME_DATA || !frame->data) && frame->id &&
	       frame->length <= O2G_LENGTH_MAX;
}

static int write_valid(const struct o2g_frame *frame)
{
	const int data = frame->flags & O2G_FRAME_DATA;

	return !(frame->flags & ~O2G_FRAME_DATA) &&
	       (data || (!frame->context && !frame->high)) && frame->id &&
	       frame->length <= O2G_LENGTH_MAX && frame->body <= frame->length;
}

static int atomic_valid(const struct o2g_frame *frame)
{
	return !frame->flags && frame->id &&
	       o2g_atomic_valid(frame->context, frame->length) &&
	       frame->body == o2g_atomic_body(frame->context, frame->length);
}

static int well_formed(const struct o2g_frame *frame)
{
	switch (frame->type) {
	case O2G_WRITE:
		return write_valid(frame);
	case O2G_READ:
		return !frame->flags && !frame->context && frame->id &&
		       !frame->body && frame->length <= O2G_LENGTH_MAX;
	case O2G_REPLY:
		return frame_is_plain(frame) && frame->id && frame->body &&
		       !frame->length;
	case O2G_DONE:
		return !frame->flags && !frame->tag && !frame->data &&
		       frame->id && !frame->body && !frame->length &&
		       frame->context <= O2G_DONE_MAX;
	case O2G_ATOMIC:
		return atomic_valid(frame);
	case O2G_MESSAGE:
		return message_valid(frame) && frame->body <= frame->length;
	case O2G_REQUEST:
		return message_valid(frame) && frame->length && !frame->body;
	case O2G_PIECE:
		return frame_is_plain(frame) && frame->id && frame->body &&
		       !frame->length;
	case O2G_GRANT:
		return frame_is_plain(frame) && frame->id && !frame->body;
	case O2G_CREDIT:
	case O2G_BYE:
		return frame_is_plain(frame) && !frame->id && !frame->body &&
		       !frame->length;
	}
	return 0;
}

int o2g_frame_check(const struct o2g_frame *frame)
{
	if (frame->zero || frame->body > O2G_BODY_MAX ||
	    (frame->high && frame->type != O2G_WRITE) || !well_formed(frame))
		return -LINUX_EPROTO;
	return 0;
}
