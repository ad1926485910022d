// SPDX-License-Identifier: MIT
/* Moves arguments as a manifest describes them. Owns nothing; see marshal.h for
 * the order. */
#define _GNU_SOURCE /* madvise */
#include "marshal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "pages.h"

#define BYTES_MAX (1ull << 46) /* of one array */

void grid_call_init(struct grid_call *c, const struct grid_module *m,
		    u32 function)
{
	memset(c, 0, sizeof(*c));
	c->module = m;
	c->function = &m->function[function];
}

static const struct skep_param *param_of(const struct grid_call *c, u32 i)
{
	return &c->module->param[c->function->first + i];
}

static int fail_argument(struct grid_call *c, u32 i, int err, const char *why)
{
	c->why = why;
	c->wrong = i;
	return err;
}

/* Bytes of one element in memory. */
static u64 element_bytes(const struct skep_param *p)
{
	return grid_type_text(p->type) ? sizeof(struct grid_text)
				       : grid_type_size(p->type);
}

static int run_size_code(const struct grid_call *c, u32 code, s64 otherwise,
			 s64 *result)
{
	*result = otherwise;
	if (code == ~0u)
		return 0;
	return grid_module_size(c->module, c->function, c->value, code, result);
}

static int shape_dimension(struct grid_call *c, const struct skep_dim *d,
			   struct grid_shape *s, u32 at)
{
	s64 size, low, high, stride;

	if (run_size_code(c, d->size, 0, &size) ||
	    run_size_code(c, d->low, 0, &low) ||
	    run_size_code(c, d->high, size, &high) ||
	    run_size_code(c, d->stride, 1, &stride))
		return -ERANGE;
	if (size < 0 || low < 0 || high < low || high > size || stride < 1)
		return -EINVAL;
	s->size[at] = (u64)size;
	s->low[at] = (u64)low;
	s->stride[at] = (u64)stride;
	s->parts[at] = ((u64)(high - low) + (u64)stride - 1) / (u64)stride;
	if (__builtin_mul_overflow(s->count, s->size[at], &s->count) ||
	    __builtin_mul_overflow(s->moved, s->parts[at], &s->moved))
		return -ERANGE;
	return 0;
}

static int compute_shape(struct grid_call *c, u32 i, struct grid_shape *s)
{
	const struct skep_param *p = param_of(c, i);
	u32 d;
	int err;

	s->count = 1;
	s->moved = 1;
	for (d = 0; d < p->dims; d++) {
		err = shape_dimension(c, &p->dim[d], s, d);
		if (err)
			return fail_argument(
				c, i, err,
				err == -ERANGE ? "its size cannot be computed"
					       : "its size or part is negative "
						 "or outside the array");
	}
	if (s->count > BYTES_MAX / element_bytes(p))
		return fail_argument(c, i, -ERANGE,
				     "it is larger than an array may be");
	return 0;
}

/* Computes a shape once, and stores it if there is room for it. */
static int shape_of(struct grid_call *c, u32 i, struct grid_shape *s)
{
	int err;

	if (c->shape && c->shape[i].stride[0]) {
		*s = c->shape[i];
		return 0;
	}
	err = compute_shape(c, i, s);
	if (!err && c->shape)
		c->shape[i] = *s;
	return err;
}

static u64 pad_to_eight(u64 bytes)
{
	return -bytes & 7;
}

/* A function of the master has none of the kinds that travel. */
enum kind { SCALAR, STRING, ARRAY, TEXTS, KINDS };

static enum kind kind_of(const struct skep_param *p)
{
	if (p->type == SKEP_MASTER_FUNCTION)
		return KINDS;
	if (grid_type_text(p->type)) {
		if (!p->dims && p->type == SKEP_STRING && p->mode == SKEP_IN)
			return STRING;
		return TEXTS;
	}
	if (p->dims || p->type == SKEP_SCOMPLEX || p->type == SKEP_DCOMPLEX)
		return ARRAY;
	return SCALAR;
}

int grid_param_texts(const struct skep_param *p)
{
	return kind_of(p) == TEXTS;
}

int grid_call_count(struct grid_call *c, u32 i, u64 *count)
{
	struct grid_shape s;
	int err = shape_of(c, i, &s);

	*count = err ? 0 : s.count;
	return err;
}

int grid_call_null(const struct grid_call *c, u32 i)
{
	const struct skep_param *p = param_of(c, i);

	return kind_of(p) == STRING ? !c->value[i].at
				    : p->dims && !c->value[i].count;
}

static int param_travels(const struct skep_param *p, u32 direction)
{
	return p->mode != SKEP_WORK && p->mode & direction;
}

static int measure_texts(struct grid_call *c, u32 i, u32 direction, u64 *length)
{
	const struct grid_text *t = c->value[i].at;
	u64 k, count;
	int err;

	err = grid_call_count(c, i, &count);
	if (err)
		return err;
	c->value[i].count = count;
	if (!param_travels(param_of(c, i), direction))
		return 0;
	if (direction == SKEP_OUT && c->text_room) {
		*length += c->text_room + count * 8;
		return 0;
	}
	for (k = 0; k < count; k++)
		*length +=
			8 + (t[k].at ? t[k].len + pad_to_eight(t[k].len) : 0);
	return 0;
}

/* Stored data is not sent, and its digest is received in its place. */
static int measure_data(struct grid_call *c, u32 i, u32 direction, u64 bytes,
			u64 *length)
{
	const struct skep_param *p = param_of(c, i);
	const struct grid_datum *d = c->value[i].data;

	if (p->mode & SKEP_IN && d->length != bytes)
		return fail_argument(c, i, -EINVAL,
				     "its stored data has another number of "
				     "bytes than its interface says");
	if (param_travels(p, direction))
		*length += pad_to_eight(bytes) +
			   (direction == SKEP_OUT ? sizeof(d->fresh) : 0);
	return 0;
}

/* Bytes of a part of an array in this direction. */
static u64 part_bytes(const struct grid_datum *d, u32 direction)
{
	return direction == SKEP_OUT ? d->size : d->length;
}

static int measure_parts(struct grid_call *c, u32 i, u32 direction, u64 bytes,
			 u64 *length)
{
	const struct grid_value *v = &c->value[i];
	u64 all = 0, part;
	u32 k;

	if (!param_travels(param_of(c, i), direction))
		return 0;
	for (k = 0; k < v->parts; k++) {
		part = part_bytes(v->part[k], direction);
		if (part > bytes - all)
			break;
		all += part;
	}
	if (k < v->parts || all != bytes)
		return fail_argument(c, i, -EINVAL,
				     "the parts of its container have another "
				     "number of bytes than its interface says");
	*length += pad_to_eight(bytes);
	if (direction == SKEP_OUT)
		*length += v->parts * sizeof(v->part[0]->fresh);
	return 0;
}

static int measure_one(struct grid_call *c, u32 i, u32 direction, u64 *length)
{
	const struct skep_param *p = param_of(c, i);
	struct grid_shape s;
	u64 bytes = 8;
	int err;

	if (kind_of(p) == TEXTS)
		return measure_texts(c, i, direction, length);
	if (kind_of(p) == KINDS) /* only a master has the pointer */
		return c->value[i].at || direction == SKEP_OUT
			       ? 0
			       : fail_argument(c, i, -EINVAL,
					       "it is a null pointer");
	if (kind_of(p) == ARRAY) {
		err = shape_of(c, i, &s);
		if (err)
			return err;
		c->value[i].count = s.count;
		bytes = s.moved * grid_type_size(p->type);
	}
	if (c->value[i].room && kind_of(p) == ARRAY &&
	    c->value[i].room < s.count * grid_type_size(p->type))
		return fail_argument(c, i, -EINVAL,
				     "its data has fewer elements than its "
				     "interface says");
	if (c->value[i].data)
		return measure_data(c, i, direction, bytes, length);
	if (c->value[i].part)
		return measure_parts(c, i, direction, bytes, length);
	if (!c->value[i].at &&
	    (kind_of(p) == ARRAY ? s.count : p->mode & SKEP_OUT))
		return fail_argument(c, i, -EINVAL, "it is a null pointer");
	if (kind_of(p) == STRING && c->value[i].at)
		bytes = 8 + strlen(c->value[i].at);
	if (param_travels(p, direction))
		*length += bytes + pad_to_eight(bytes);
	return 0;
}

int grid_call_measure(struct grid_call *c, u32 direction, u64 *length)
{
	u32 i;
	int err = 0;

	*length = 0;
	for (i = 0; i < c->function->params && !err; i++) {
		if (param_of(c, i)->mode != SKEP_WORK)
			err = measure_one(c, i, direction, length);
	}
	return err;
}

/* Moving --------------------------------------------------------------------
 */

/* Moves arguments in one direction; counts what is left of the announced
 * length. */
struct transfer {
	struct grid_call *call;
	struct grid_mover *mover;
	u32 direction;
	int taking;
	u64 left;
};

static int move_bytes(struct transfer *t, void *bytes, u64 len, int own)
{
	if (t->taking) {
		if (len > t->left)
			return -EPROTO;
		t->left -= len;
	}
	return len ? t->mover->move(t->mover, bytes, len, own) : 0;
}

static int move_padding(struct transfer *t, u64 bytes)
{
	u64 zeros = 0;

	return move_bytes(t, &zeros, pad_to_eight(bytes), 0);
}

static int move_scalar(struct transfer *t, u32 i)
{
	struct grid_value *v = &t->call->value[i];
	u64 size = grid_type_size(param_of(t->call, i)->type);
	u64 bits = v->bits;
	int err;

	/* An output's value is in memory. */
	if (!t->taking && v->at && param_of(t->call, i)->mode & SKEP_OUT) {
		bits = 0;
		memcpy(&bits, v->at, size);
	}
	err = move_bytes(t, &bits, 8, 0);
	if (err || !t->taking)
		return err;
	/* Both sides use the sizes that held when the arguments were sent. */
	if (t->direction == SKEP_IN)
		v->bits = bits;
	if (v->at)
		memcpy(v->at, &bits, size);
	return 0;
}

/*
 * Adjacent elements are moved together; a complete array is one run.
 */
static int move_part(struct transfer *t, u8 *base, const struct grid_shape *s,
		     u32 dims, u64 element)
{
	u64 at[SKEP_DIMS_MAX] = {0}, offset, run_len, done = 0;
	u32 d, last = dims - 1;
	int err;

	run_len = s->stride[last] == 1 ? s->parts[last] : 1;
	for (; done < s->moved; done += run_len) {
		for (offset = 0, d = 0; d < dims; d++)
			offset = offset * s->size[d] + s->low[d] +
				 at[d] * s->stride[d];
		err = move_bytes(t, base + offset * element, run_len * element,
				 1);
		if (err)
			return err;
		at[last] += run_len;
		for (d = last; d && at[d] >= s->parts[d]; d--) {
			at[d] = 0;
			at[d - 1]++;
		}
	}
	return 0;
}

/* Of what a call leaves in the hub only digests come back. */
static int move_digests(struct transfer *t, const struct grid_value *v)
{
	u32 k;
	int err = 0;

	if (t->direction == SKEP_IN)
		return 0;
	if (v->data)
		return move_bytes(t, v->data->fresh, sizeof(v->data->fresh), 1);
	for (k = 0; k < v->parts && !err; k++)
		err = move_bytes(t, v->part[k]->fresh,
				 sizeof(v->part[k]->fresh), 1);
	return err;
}

static int move_array(struct transfer *t, u32 i)
{
	const struct skep_param *p = param_of(t->call, i);
	u64 element = grid_type_size(p->type);
	struct grid_shape s;
	int err;

	err = shape_of(t->call, i, &s);
	if (err)
		return err;
	if (s.count != t->call->value[i].count)
		return fail_argument(
			t->call, i, -EPROTO,
			"its size has changed since the call began");
	if (t->call->value[i].data || t->call->value[i].part)
		err = move_digests(t, &t->call->value[i]);
	else if (s.moved == s.count)
		err = move_bytes(t, t->call->value[i].at, s.count * element, 1);
	else
		err = move_part(t, t->call->value[i].at, &s, p->dims, element);
	return err ? err : move_padding(t, s.moved * element);
}

/* Bytes of an argument without padding. */
static u64 sent_bytes(struct grid_call *c, u32 i)
{
	const struct skep_param *p = param_of(c, i);
	struct grid_shape s;

	if (kind_of(p) == STRING && c->value[i].at)
		return 8 + strlen(c->value[i].at);
	if (kind_of(p) != ARRAY || shape_of(c, i, &s))
		return 8;
	return s.moved * grid_type_size(p->type);
}

static void put_datum(struct skep_datum *to, const struct grid_datum *d,
		      u32 direction, u64 at, u64 bytes)
{
	*to = (struct skep_datum){{0},
				  at,
				  bytes,
				  direction | (d->one_node ? SKEP_ONE_NODE : 0),
				  0};
	if (d->kept)
		memcpy(to->digest, d->digest, sizeof(d->digest));
}

u32 grid_call_data(struct grid_call *c, u32 direction, struct skep_datum *list)
{
	const struct grid_value *v;
	u32 kind, i, k, n = 0;
	u64 at = 0, bytes, part, bytes_of;

	for (kind = 0; kind < TEXTS; kind++) {
		for (i = 0; i < c->function->params; i++) {
			if (kind_of(param_of(c, i)) != kind ||
			    !param_travels(param_of(c, i), direction))
				continue;
			bytes = sent_bytes(c, i);
			v = &c->value[i];
			if (v->data)
				put_datum(&list[n++], v->data, direction, at,
					  bytes);
			for (part = at, k = 0; k < v->parts; k++) {
				bytes_of = part_bytes(v->part[k], direction);
				put_datum(&list[n++], v->part[k], direction,
					  part, bytes_of);
				part += bytes_of;
			}
			at += bytes + pad_to_eight(bytes);
		}
	}
	return n;
}

static int send_string(struct transfer *t, u32 i)
{
	char *text = t->call->value[i].at;
	u64 len = text ? strlen(text) : ~0ull;
	int err;

	err = move_bytes(t, &len, 8, 0);
	if (err || !text)
		return err;
	err = move_bytes(t, text, len, 1);
	return err ? err : move_padding(t, len);
}

static int send_texts(struct transfer *t, u32 i)
{
	const struct grid_value *v = &t->call->value[i];
	struct grid_text *text = v->at;
	u64 k, len;
	int err = 0;

	for (k = 0; k < v->count && !err; k++) {
		len = text[k].at ? text[k].len : ~0ull;
		err = move_bytes(t, &len, 8, 0);
		if (err || !text[k].at)
			continue;
		err = move_bytes(t, text[k].at, len, 1);
		if (!err)
			err = move_padding(t, len);
	}
	return err;
}

int grid_call_send(struct grid_call *c, u32 direction, struct grid_mover *to)
{
	struct transfer t = {c, to, direction, 0, 0};
	u32 kind, i;
	int err = 0;

	for (kind = 0; kind < KINDS; kind++) {
		for (i = 0; i < c->function->params && !err; i++) {
			if (kind_of(param_of(c, i)) != kind ||
			    !param_travels(param_of(c, i), direction))
				continue;
			err = kind == SCALAR   ? move_scalar(&t, i)
			      : kind == STRING ? send_string(&t, i)
			      : kind == ARRAY  ? move_array(&t, i)
					       : send_texts(&t, i);
		}
	}
	return err;
}

/* Memory ------------------------------------------------------------------- */

/*
 * A kernel that overcommits (vm.overcommit_memory is 1) grants any amount of
 * memory, and kills some process when the memory is used. So the machine's
 * memory is the limit.
 */
static u64 machine_memory(void)
{
	struct sysinfo info;

	if (sysinfo(&info))
		return ~0ull;
	return ((u64)info.totalram + info.totalswap) * info.mem_unit;
}

static void *heap_alloc(struct grid_memory *memory, u64 len)
{
	u64 most = machine_memory();
	void *at;

	if (memory->used > most || len > most - memory->used)
		return NULL;
	at = calloc(1, len);
	if (!at)
		return NULL;
	grid_pages_advise(at, len);
	memory->used += len;
	return at;
}

static void heap_free(struct grid_memory *memory, void *at, u64 len)
{
	memory->used -= len;
	free(at);
}

struct grid_memory grid_memory_heap = {heap_alloc, heap_free, 0};

/* Taking ------------------------------------------------------------------- */

static int alloc_argument(struct grid_call *c, struct grid_memory *memory,
			  u32 i, u64 bytes)
{
	bytes += !bytes;
	c->value[i].at = memory->alloc(memory, bytes);
	if (!c->value[i].at)
		return fail_argument(c, i, -ENOMEM,
				     "the worker has no memory for it");
	c->bytes[i] = bytes;
	return 0;
}

static int take_string(struct transfer *t, struct grid_memory *memory, u32 i)
{
	u64 len = 0;
	int err;

	err = move_bytes(t, &len, 8, 0);
	if (err || len == ~0ull)
		return err;
	if (len > t->left)
		err = -EPROTO;
	if (!err)
		err = alloc_argument(t->call, memory, i, len + 1);
	if (!err)
		err = move_bytes(t, t->call->value[i].at, len, 1);
	return err ? err : move_padding(t, len);
}

static int take_array(struct transfer *t, struct grid_memory *memory, u32 i)
{
	const struct skep_param *p = param_of(t->call, i);
	struct grid_shape s;
	int err;

	err = shape_of(t->call, i, &s);
	if (!err)
		err = alloc_argument(t->call, memory, i,
				     s.count * grid_type_size(p->type));
	if (err)
		return err;
	t->call->value[i].count = s.count;
	return param_travels(p, SKEP_IN) ? move_array(t, i) : 0;
}

static int take_text(struct transfer *t, u32 i, struct grid_text *text)
{
	struct grid_memory *memory = t->call->memory;
	u64 len = 0;
	int err;

	err = move_bytes(t, &len, 8, 0);
	if (err || len == ~0ull)
		return err;
	if (len > t->left)
		return -EPROTO;
	text->own = memory->alloc(memory, len + 1);
	if (!text->own)
		return fail_argument(t->call, i, -ENOMEM,
				     "there is no memory for its text");
	text->room = len + 1;
	text->at = text->own;
	text->len = len;
	err = move_bytes(t, text->at, len, 1);
	return err ? err : move_padding(t, len);
}

static int move_texts(struct transfer *t, u32 i)
{
	const struct grid_value *v = &t->call->value[i];
	struct grid_text *text = v->at;
	u64 k;
	int err = 0;

	grid_call_drop_texts(t->call, i);
	for (k = 0; k < v->count && !err; k++)
		err = take_text(t, i, &text[k]);
	return err;
}

static int take_texts(struct transfer *t, struct grid_memory *memory, u32 i)
{
	struct grid_call *c = t->call;
	u64 count;
	int err;

	err = grid_call_count(c, i, &count);
	if (!err)
		err = alloc_argument(c, memory, i,
				     count * sizeof(struct grid_text));
	if (err)
		return err;
	c->value[i].count = count;
	return param_travels(param_of(c, i), SKEP_IN) ? move_texts(t, i) : 0;
}

static int take_one(struct transfer *t, struct grid_memory *memory, u32 i,
		    enum kind kind)
{
	const struct skep_param *p = param_of(t->call, i);
	int err = 0;

	if (kind == ARRAY)
		return take_array(t, memory, i);
	if (kind == TEXTS)
		return take_texts(t, memory, i);
	if (kind == STRING)
		return take_string(t, memory, i);
	if (p->mode & SKEP_OUT)
		err = alloc_argument(t->call, memory, i, 8);
	return err || !param_travels(p, SKEP_IN) ? err : move_scalar(t, i);
}

static int check_end(const struct transfer *t)
{
	if (!t->left)
		return 0;
	t->call->why = "more bytes arrived than the arguments have";
	return -EPROTO;
}

int grid_call_take(struct grid_call *c, struct grid_mover *from,
		   struct grid_memory *memory, u64 length)
{
	struct transfer t = {c, from, SKEP_IN, 1, length};
	u32 kind, i;
	int err = 0;

	c->memory = memory;
	for (kind = 0; kind < KINDS; kind++) {
		for (i = 0; i < c->function->params && !err; i++) {
			if (kind_of(param_of(c, i)) == kind)
				err = take_one(&t, memory, i, kind);
		}
	}
	return err ? err : check_end(&t);
}

int grid_call_accept(struct grid_call *c, struct grid_mover *from, u64 length)
{
	struct transfer t = {c, from, SKEP_OUT, 1, length};
	u32 kind, i;
	int err = 0;

	for (kind = 0; kind < KINDS; kind++) {
		for (i = 0; i < c->function->params && !err; i++) {
			if (kind_of(param_of(c, i)) != kind ||
			    !param_travels(param_of(c, i), SKEP_OUT))
				continue;
			err = kind == SCALAR  ? move_scalar(&t, i)
			      : kind == ARRAY ? move_array(&t, i)
					      : move_texts(&t, i);
			if (err == -EFAULT)
				c->wrong = i;
		}
	}
	return err ? err : check_end(&t);
}

void grid_texts_give(struct grid_value *v)
{
	const struct grid_text *text = v->at;
	u64 k;

	for (k = 0; k < v->count; k++)
		((u8 **)v->user)[k] = text[k].at;
}

void grid_texts_collect(struct grid_value *v)
{
	struct grid_text *text = v->at;
	u64 k;

	for (k = 0; k < v->count; k++) {
		text[k].at = ((u8 **)v->user)[k];
		text[k].len = text[k].at ? strlen((char *)text[k].at) : 0;
	}
}

void grid_call_drop_texts(struct grid_call *c, u32 i)
{
	struct grid_text *text = c->value[i].at;
	u64 k;

	for (k = 0; text && k < c->value[i].count; k++) {
		if (text[k].own)
			c->memory->free(c->memory, text[k].own, text[k].room);
		memset(&text[k], 0, sizeof(text[k]));
	}
}

void grid_call_drop(struct grid_call *c, struct grid_memory *memory)
{
	u32 i;

	for (i = 0; i < c->function->params; i++) {
		if (c->bytes[i] && kind_of(param_of(c, i)) == TEXTS)
			grid_call_drop_texts(c, i);
		if (c->bytes[i])
			memory->free(memory, c->value[i].at, c->bytes[i]);
		c->bytes[i] = 0;
		c->value[i].at = NULL;
	}
}
