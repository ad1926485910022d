/* SPDX-License-Identifier: MIT */
/* The reference; see model.h. */
#include <stdlib.h>
#include <string.h>

#include <skep/o2g_ring.h>

#include "model.h"

static int receive_matches(const struct model_receive *receive,
			   const struct model_message *message)
{
	return (receive->source == O2G_ANY_PEER ||
		receive->source == message->source) &&
	       receive->context == message->context &&
	       (receive->tag | receive->ignore) ==
		       (message->tag | receive->ignore);
}

static void remove_entry(void *array, u32 *count, u32 place, u64 size)
{
	char *at = (char *)array + place * size;

	memmove(at, at + size, (*count - place - 1) * size);
	--*count;
}

/* Gives a message to a receive; true when the receive is over. */
static int give_message(struct model *model, struct model_receive *receive,
			const struct model_message *message)
{
	const u64 offset = receive->filled;
	u64 room = receive->length - offset;
	int last;

	if (message->length < room)
		room = message->length;
	receive->filled += room;
	last = !receive->multi ||
	       receive->length - receive->filled < receive->least_left;
	model->matched(model->test, message->id, receive->cookie, offset, last);
	return last;
}

/* The first receive that takes it, if any does. */
static int offer_message(struct model *model,
			 const struct model_message *message)
{
	for (u32 i = 0; i < model->receives; i++) {
		if (!receive_matches(&model->receive[i], message))
			continue;
		if (give_message(model, &model->receive[i], message))
			remove_entry(model->receive, &model->receives, i,
				     sizeof(*model->receive));
		return 1;
	}
	return 0;
}

void model_arrive(struct model *model, const struct model_message *message)
{
	if (offer_message(model, message))
		return;
	if (model->messages == MODEL_MAX)
		abort();
	model->message[model->messages++] = *message;
}

void model_name(struct model *model, u32 from, u32 source)
{
	for (u32 i = 0; i < model->messages;) {
		struct model_message *message = &model->message[i];

		if (message->from == from)
			message->source = source;
		if (message->from == from && offer_message(model, message))
			model_remove(model, (int)i);
		else
			i++;
	}
}

int model_find(const struct model *model, const struct model_receive *receive)
{
	for (u32 i = 0; i < model->messages; i++)
		if (receive_matches(receive, &model->message[i]))
			return (int)i;
	return -1;
}

void model_remove(struct model *model, int place)
{
	remove_entry(model->message, &model->messages, (u32)place,
		     sizeof(*model->message));
}

void model_post(struct model *model, const struct model_receive *receive)
{
	struct model_receive posted = *receive;
	int place;

	while ((place = model_find(model, &posted)) >= 0) {
		const struct model_message message = model->message[place];

		model_remove(model, place);
		if (give_message(model, &posted, &message))
			return;
	}
	if (model->receives == MODEL_MAX)
		abort();
	model->receive[model->receives++] = posted;
}

int model_cancel(struct model *model, u64 cookie)
{
	for (u32 i = 0; i < model->receives; i++) {
		if (model->receive[i].cookie != cookie)
			continue;
		remove_entry(model->receive, &model->receives, i,
			     sizeof(*model->receive));
		return 1;
	}
	return 0;
}
