/* SPDX-License-Identifier: MIT */
/* Each field of each type of frame: the values that are accepted, and that the
 * ones beside them are refused. */
#include <stdio.h>

#include <o2g/core/frame.h>

#include "base/errno.h"
#include "suite.h"

struct range {
	u64 least, most;
};

#define NONE                                                                   \
	{                                                                      \
		0, 0                                                           \
	}
#define ANY                                                                    \
	{                                                                      \
		0, ~0ull                                                       \
	} /* of the field's width */
#define NAMED                                                                  \
	{                                                                      \
		1, ~0u                                                         \
	}
#define UP_TO(most)                                                            \
	{                                                                      \
		0, most                                                        \
	}
#define EXACTLY(value)                                                         \
	{                                                                      \
		value, value                                                   \
	}
#define S8(operation) ((operation) | O2G_ATOMIC_S8 << 8)
#define U64(operation) ((operation) | O2G_ATOMIC_U64 << 8)

enum field { FLAGS, ZERO, BODY, ID, CONTEXT, TAG, DATA, LENGTH, HIGH, FIELDS };

static const char *const field_name[FIELDS] = {"flags", "zero",	   "body",
					       "id",	"context", "tag",
					       "data",	"length",  "high"};

static const u64 field_max[FIELDS] = {0xff,  0xffff, ~0u,   ~0u, ~0u,
				      ~0ull, ~0ull,  ~0ull, ~0u};

/* The frame is valid, and stays so while one field goes through its range. */
static const struct frame_case {
	const char *name;
	struct o2g_frame frame;
	struct range range[FIELDS];
} cases[] = {
	{"a message",
	 {.type = O2G_MESSAGE, .id = 1, .body = 5, .length = 5},
	 {UP_TO(1),
	  NONE,
	  UP_TO(5),
	  NAMED,
	  ANY,
	  ANY,
	  NONE,
	  {5, O2G_LENGTH_MAX},
	  NONE}},
	{"a message with data",
	 {.type = O2G_MESSAGE,
	  .id = 1,
	  .flags = 1,
	  .data = 1,
	  .length = 1 << 20},
	 {EXACTLY(1), NONE, UP_TO(O2G_BODY_MAX), NAMED, ANY, ANY, ANY,
	  UP_TO(O2G_LENGTH_MAX), NONE}},
	{"a request",
	 {.type = O2G_REQUEST, .id = 1, .length = 1},
	 {UP_TO(1),
	  NONE,
	  NONE,
	  NAMED,
	  ANY,
	  ANY,
	  NONE,
	  {1, O2G_LENGTH_MAX},
	  NONE}},
	{"a request with data",
	 {.type = O2G_REQUEST, .id = 1, .flags = 1, .data = 1, .length = 1},
	 {EXACTLY(1),
	  NONE,
	  NONE,
	  NAMED,
	  ANY,
	  ANY,
	  ANY,
	  {1, O2G_LENGTH_MAX},
	  NONE}},
	{"a piece",
	 {.type = O2G_PIECE, .id = 1, .body = 1},
	 {NONE, NONE, {1, O2G_BODY_MAX}, NAMED, NONE, NONE, NONE, NONE, NONE}},
	{"a grant",
	 {.type = O2G_GRANT, .id = 1},
	 {NONE, NONE, NONE, NAMED, NONE, NONE, NONE, ANY, NONE}},
	{"credit", {.type = O2G_CREDIT}, {[FLAGS] = NONE}},
	{"a bye", {.type = O2G_BYE}, {[FLAGS] = NONE}},
	{"a write",
	 {.type = O2G_WRITE, .id = 1, .body = 5, .length = 5},
	 {UP_TO(1),
	  NONE,
	  UP_TO(5),
	  NAMED,
	  NONE,
	  ANY,
	  ANY,
	  {5, O2G_LENGTH_MAX},
	  NONE}},
	{"a write with data",
	 {.type = O2G_WRITE,
	  .id = 1,
	  .flags = 1,
	  .context = 1,
	  .length = 1 << 20},
	 {EXACTLY(1), NONE, UP_TO(O2G_BODY_MAX), NAMED, ANY, ANY, ANY,
	  UP_TO(O2G_LENGTH_MAX), ANY}},
	{"a write with the upper half of data",
	 {.type = O2G_WRITE, .id = 1, .flags = 1, .high = 1},
	 {EXACTLY(1), NONE, NONE, NAMED, ANY, ANY, ANY, UP_TO(O2G_LENGTH_MAX),
	  ANY}},
	{"a read",
	 {.type = O2G_READ, .id = 1},
	 {NONE, NONE, NONE, NAMED, NONE, ANY, ANY, UP_TO(O2G_LENGTH_MAX),
	  NONE}},
	{"a reply",
	 {.type = O2G_REPLY, .id = 1, .body = 1},
	 {NONE, NONE, {1, O2G_BODY_MAX}, NAMED, NONE, NONE, NONE, NONE, NONE}},
	{"an answer",
	 {.type = O2G_DONE, .id = 1},
	 {NONE, NONE, NONE, NAMED, UP_TO(O2G_DONE_MAX), NONE, NONE, NONE,
	  NONE}},
	{"an atomic access",
	 {.type = O2G_ATOMIC,
	  .id = 1,
	  .context = S8(O2G_ATOMIC_SUM),
	  .body = 4096,
	  .length = O2G_ATOMIC_BYTES},
	 {NONE,
	  NONE,
	  EXACTLY(4096),
	  NAMED,
	  {S8(O2G_ATOMIC_MIN), S8(O2G_ATOMIC_BXOR)},
	  ANY,
	  ANY,
	  EXACTLY(O2G_ATOMIC_BYTES),
	  NONE}},
	{"an atomic access with values to compare with",
	 {.type = O2G_ATOMIC,
	  .id = 1,
	  .context = U64(O2G_ATOMIC_CSWAP),
	  .body = 16,
	  .length = 8},
	 {NONE,
	  NONE,
	  EXACTLY(16),
	  NAMED,
	  {U64(O2G_ATOMIC_CSWAP), U64(O2G_ATOMIC_MSWAP)},
	  ANY,
	  ANY,
	  EXACTLY(8),
	  NONE}},
};

static int check_with(struct o2g_frame frame, enum field field, u64 value)
{
	switch (field) {
	case FLAGS:
		frame.flags = (u8)value;
		break;
	case ZERO:
		frame.zero = (u16)value;
		break;
	case BODY:
		frame.body = (u32)value;
		break;
	case ID:
		frame.id = (u32)value;
		break;
	case CONTEXT:
		frame.context = (u32)value;
		break;
	case TAG:
		frame.tag = value;
		break;
	case DATA:
		frame.data = value;
		break;
	case LENGTH:
		frame.length = value;
		break;
	default:
		frame.high = (u32)value;
	}
	return o2g_frame_check(&frame);
}

void frames_run(check_fn *check)
{
	char name[120];

	for (u32 i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct frame_case *c = &cases[i];

		for (enum field f = 0; f < FIELDS; f++) {
			const u64 least = c->range[f].least;
			const u64 max = field_max[f];
			const u64 most =
				c->range[f].most < max ? c->range[f].most : max;

			snprintf(name, sizeof(name), "%s: the limits of its %s",
				 c->name, field_name[f]);
			check(!check_with(c->frame, f, least) &&
				      !check_with(c->frame, f, most) &&
				      (!least ||
				       check_with(c->frame, f, least - 1) ==
					       -LINUX_EPROTO) &&
				      (most == max ||
				       check_with(c->frame, f, most + 1) ==
					       -LINUX_EPROTO),
			      name);
		}
	}
}
