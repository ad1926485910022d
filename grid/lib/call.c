// SPDX-License-Identifier: MIT
/*
 * Reads the arguments of a call from a va_list or from pointers, and sends
 * them. Owns only the call in progress.
 */
#include "back.h"
#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* bytes of one DATA frame; other frames may be sent in between */
#define CHUNK 0x40000

/* Arguments --------------------------------------------------------------- */

/* C's default argument promotions: smaller integers are passed as int, float as
 * double. */
static u64 scalar_bits(u8 type, va_list *values)
{
	u64 bits = 0;
	double wide;
	float narrow;
	s64 integer;

	switch (type & ~SKEP_TYPE_UNSIGNED) {
	case SKEP_FLOAT:
		narrow = (float)va_arg(*values, double);
		memcpy(&bits, &narrow, sizeof(narrow));
		return bits;
	case SKEP_DOUBLE:
		wide = va_arg(*values, double);
		memcpy(&bits, &wide, sizeof(wide));
		return bits;
	case SKEP_LONG:
		return va_arg(*values, u64);
	}
	integer = va_arg(*values, int);
	switch (type) {
	case SKEP_CHAR:
		return (u64)(s8)integer;
	case SKEP_CHAR | SKEP_TYPE_UNSIGNED:
		return (u8)integer;
	case SKEP_SHORT:
		return (u64)(s16)integer;
	case SKEP_SHORT | SKEP_TYPE_UNSIGNED:
		return (u16)integer;
	case SKEP_INT | SKEP_TYPE_UNSIGNED:
		return (u32)integer;
	}
	return (u64)integer;
}

/* Complex numbers are sent without a copy, like arrays. */
static int complex_bits(u8 type, struct grid_value *v, va_list *values)
{
	double _Complex wide;
	float _Complex narrow;

	if (type == SKEP_SCOMPLEX) {
		narrow = va_arg(*values, float _Complex);
		memcpy(&v->bits, &narrow, sizeof(narrow));
		return 1;
	}
	if (type != SKEP_DCOMPLEX)
		return 0;
	wide = va_arg(*values, double _Complex);
	memcpy(&v->bits, &wide, sizeof(v->bits));
	memcpy(&v->more, (u8 *)&wide + sizeof(v->bits), sizeof(v->more));
	return 1;
}

/* For a value that is passed by address. A scalar is read at once, because
 * sizes may depend on it. */
static void set_address(const struct skep_param *p, struct grid_value *v,
			void *at)
{
	u64 size = grid_type_size(p->type);

	v->at = at;
	if (at && !p->dims && size && size <= 8 && p->mode & SKEP_IN)
		memcpy(&v->bits, at, size);
}

/* Arguments that are passed as pointers. Those of WORK arrays are ignored. */
struct pointers {
	void *const *at;
	u32 left;
};

/* -EINVAL: there are too few pointers, or a scalar's is null. */
static int value_at(const struct skep_param *p, struct grid_value *v,
		    struct pointers *from)
{
	if (!from->left)
		return -EINVAL;
	from->left--;
	if (p->mode == SKEP_WORK) {
		from->at++;
		return 0;
	}
	if (p->type == SKEP_MASTER_FUNCTION)
		v->at = *from->at++;
	else
		set_address(p, v, *from->at++);
	return v->at || p->dims || grid_type_text(p->type) ? 0 : -EINVAL;
}

static void value_of(const struct skep_param *p, struct grid_value *v,
		     va_list *values)
{
	if (p->mode == SKEP_WORK) {
		va_arg(*values, void *);
		return;
	}
	if (p->type == SKEP_MASTER_FUNCTION) {
		v->at = va_arg(*values, void *);
		return;
	}
	if (!p->dims && !grid_type_text(p->type) && p->mode == SKEP_IN) {
		if (complex_bits(p->type, v, values))
			v->at = &v->bits;
		else
			v->bits = scalar_bits(p->type, values);
		return;
	}
	set_address(p, v, va_arg(*values, void *));
}

static int measure_args(struct grid_args *a, const struct skep_handle *m)
{
	struct grid_call *c = &a->call;
	int err;

	err = grid_call_measure(c, SKEP_IN, &a->in);
	if (!err)
		err = grid_call_measure(c, SKEP_OUT, &a->out);
	if (!err)
		return 0;
	return grid_error_set(
		OMRPC_E_ARGUMENTS, "argument %s of %s.%s: %s",
		m->module.param[c->function->first + c->wrong].name, m->name,
		c->function->name, c->why);
}

static struct grid_args *args_new(const struct skep_handle *m, u32 f,
				  u64 object)
{
	const struct skep_function *function = &m->module.function[f];
	struct grid_args *a;

	if (!object && grid_function_refuse_method(m, f))
		return NULL;
	if (!(function->flags & SKEP_FUNCTION_INIT) &&
	    grid_back_refuse_foreign())
		return NULL;
	a = calloc(1, sizeof(*a) + function->params * sizeof(a->shape[0]));
	if (!a) {
		grid_error_set(OMRPC_E_NO_MEMORY, "out of memory");
		return NULL;
	}
	grid_call_init(&a->call, &m->module, f);
	if (!(function->flags & SKEP_FUNCTION_INIT))
		a->outer = grid_back_outer();
	a->object = object;
	a->call.shape = a->shape;
	a->handle = m;
	return a;
}

/* Call it when all values are known. */
static struct grid_args *args_finish(struct grid_client *c, struct grid_args *a)
{
	if (!grid_texts_prepare(a) && !grid_data_prepare(c, a) &&
	    !measure_args(a, a->handle) && !grid_data_announce(a))
		return a;
	grid_args_free(a);
	return NULL;
}

/* Parameters that a program does not give: the number of ranks. */
static u32 hidden_params(const struct skep_function *f)
{
	return f->flags & SKEP_FUNCTION_RANKS ? 1 : 0;
}

/* 0, or a code with the error set. `ranks`: 0 is the node's choice. */
static int set_ranks(struct grid_args *a, int ranks)
{
	const char *name = a->call.function->name;

	if (ranks < 0 || ranks > SKEP_RANKS_MAX)
		return grid_error_set(OMRPC_E_ARGUMENTS,
				      "%s.%s: a job has 1 to %d ranks, not %d",
				      a->handle->name, name, SKEP_RANKS_MAX,
				      ranks);
	if (hidden_params(a->call.function))
		a->call.value[0].bits = (u64)ranks;
	else if (ranks > 1)
		return grid_error_set(OMRPC_E_ARGUMENTS,
				      "%s.%s: no MPI job runs it: build its "
				      "worker program with omrpc-cc-mpi, or "
				      "write Backend \"MPI\" into the "
				      "interface file",
				      a->handle->name, name);
	return 0;
}

static struct grid_args *args_of(struct grid_client *c,
				 const struct skep_handle *m, u32 f, u64 object,
				 int ranks, va_list values)
{
	const struct skep_function *function = &m->module.function[f];
	struct grid_args *a = args_new(m, f, object);
	va_list copy;
	u32 i;

	if (!a)
		return NULL;
	if (set_ranks(a, ranks)) {
		grid_args_free(a);
		return NULL;
	}
	va_copy(copy, values);
	for (i = hidden_params(function); i < function->params; i++)
		value_of(&m->module.param[function->first + i],
			 &a->call.value[i], &copy);
	va_end(copy);
	return args_finish(c, a);
}

static struct grid_args *args_at(struct grid_client *c,
				 const struct skep_handle *m, u32 f, u64 object,
				 void *const *pointer, u32 count)
{
	const struct skep_function *function = &m->module.function[f];
	struct pointers from = {pointer, count};
	struct grid_args *a = args_new(m, f, object);
	const struct skep_param *p;
	u32 i;

	if (!a)
		return NULL;
	/* Python's programs give the number of ranks too. */
	i = hidden_params(function);
	for (i = i && count < function->params; i < function->params; i++) {
		p = &m->module.param[function->first + i];
		if (!value_at(p, &a->call.value[i], &from))
			continue;
		grid_error_set(
			OMRPC_E_ARGUMENTS,
			"argument %s of %s.%s: no pointer to it is given",
			p->name, m->name, function->name);
		grid_args_free(a);
		return NULL;
	}
	if (!from.left)
		return args_finish(c, a);
	grid_error_set(OMRPC_E_ARGUMENTS,
		       "%s.%s: %u arguments are given that it does not have",
		       m->name, function->name, from.left);
	grid_args_free(a);
	return NULL;
}

/* Sending ----------------------------------------------------------------- */

/* The DATA frames of one call. Between begin and end this thread owns the
 * stream. */
struct sending {
	struct grid_mover mover;
	struct grid_stream *stream;
	u64 call, left;		/* bytes that are in no frame yet */
	u32 frame;		/* bytes missing in the current frame */
	const void *unreadable; /* what a frame should have had */
};

static u32 next_length(const struct sending *s)
{
	return s->left < CHUNK ? (u32)s->left : CHUNK;
}

/* Of nothing there is only the frame that ends it. */
static int open_frame(struct sending *s)
{
	s->frame = next_length(s);
	s->left -= s->frame;
	return s->frame ? grid_stream_next(s->stream, SKEP_DATA, 0, s->call,
					   s->frame)
			: 0;
}

/* Other threads may send before this call's next frame. -EFAULT: zeros were
 * sent for what could not be read. */
static int next_frame(struct sending *s, u64 need)
{
	int err = grid_stream_flush(s->stream, &s->unreadable);

	if (!err && s->unreadable)
		return -EFAULT;
	err = grid_stream_end(s->stream) || err ? -EPIPE : 0;
	if (!err)
		err = grid_stream_begin(s->stream,
					sizeof(struct skep_frame) + need);
	if (err)
		s->stream = NULL;
	return err;
}

/* The last frame is empty and goes when all others are right: before it, the
 * call does not run. Afterwards the request may end. */
static int send_last(struct grid_client *c, struct skep_request *r,
		     struct sending *s)
{
	int err = next_frame(s, 0);

	if (err)
		return err;
	grid_request_sent(c, r);
	return grid_stream_next(s->stream, SKEP_DATA, SKEP_LAST, s->call, 0);
}

static int send_bytes(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct sending *s = (struct sending *)mover;
	u64 part;
	int err = 0;

	while (len && !err) {
		if (!s->frame && !s->left)
			return -EPROTO; /* the arguments have grown */
		if (!s->frame)
			err = next_frame(s, next_length(s));
		if (!err && !s->frame)
			err = open_frame(s);
		if (err)
			break;
		part = len < s->frame ? len : s->frame;
		err = grid_stream_push(s->stream, bytes, part, own);
		bytes = (u8 *)bytes + part;
		len -= part;
		s->frame -= (u32)part;
	}
	return err;
}

/* The first frame of a call, or of Initialize. */
struct opening {
	union {
		struct skep_module_init init;
		struct skep_call call;
		struct {
			struct skep_call call;
			u64 tail[2];
		} inner;
		struct skep_datum datum;
	} u;
	const void *head; /* in place of u, or NULL */
	u16 type, flags;
	u32 len;
};

static const void *opening_head(const struct opening *o)
{
	return o->head ? o->head : &o->u;
}

u32 grid_call_tail(const struct grid_args *a, u64 tail[2])
{
	u32 n = 0;

	if (a->outer)
		tail[n++] = a->outer;
	if (a->object)
		tail[n++] = a->object;
	return n;
}

static struct opening opening_of(const struct grid_args *a)
{
	const struct skep_handle *m = a->handle;
	u32 f = (u32)(a->call.function - m->module.function);
	struct opening o = {.head = a->head};

	if (a->head) {
		o.type = SKEP_CALL_KEPT;
		o.len = a->head_len;
	} else if (a->call.function->flags & SKEP_FUNCTION_INIT) {
		o.u.init = (struct skep_module_init){m->number, f, a->in};
		o.type = SKEP_MODULE_INIT;
		o.len = sizeof(o.u.init);
	} else {
		o.u.call = (struct skep_call){f, m->number, a->in, a->out};
		o.type = SKEP_CALL;
		o.len = (u32)sizeof(o.u.call) +
			grid_call_tail(a, o.u.inner.tail) * (u32)sizeof(u64);
	}
	o.flags = (a->outer ? SKEP_INNER : 0) | (a->object ? SKEP_METHOD : 0);
	return o;
}

static int announce_call(struct sending *s, const struct opening *o)
{
	u64 need = sizeof(struct skep_frame) + o->len;
	int err;

	if (s->left)
		need += sizeof(struct skep_frame) + next_length(s);
	err = grid_stream_begin(s->stream, need);
	if (err) {
		s->stream = NULL;
		return err;
	}
	err = grid_stream_next(s->stream, o->type, o->flags, s->call, o->len);
	return err ? err
		   : grid_stream_push(s->stream, opening_head(o), o->len, 0);
}

static int move_args(struct grid_args *a, struct grid_mover *to)
{
	return a->bytes ? grid_bytes_send(a->bytes, to)
			: grid_call_send(&a->call, SKEP_IN, to);
}

/* The parameter that the memory belongs to, or NULL. */
static const struct skep_param *param_at(const struct grid_args *a,
					 const void *at)
{
	const struct skep_param *p;
	const struct grid_value *v;
	u32 i;

	for (i = 0; !a->bytes && i < a->call.function->params; i++) {
		p = &a->handle->module.param[a->call.function->first + i];
		v = &a->call.value[i];
		if (p->mode != SKEP_WORK && v->at && at >= v->at &&
		    (const u8 *)at < (const u8 *)v->at +
					     v->count * grid_type_size(p->type))
			return p;
	}
	return NULL;
}

static int refuse_unreadable(const struct grid_args *a, const void *at)
{
	const struct skep_param *p = a ? param_at(a, at) : NULL;

	return grid_error_set(
		OMRPC_E_ARGUMENTS,
		"%s%s cannot be read: the memory at %p is not this program's, "
		"or was given back",
		p ? "argument " : "what is to be sent", p ? p->name : "", at);
}

/* After -EFAULT the request has ended, and the hub is told to drop what it has.
 * In this order: the hub's answer would else be the reason of the request's
 * end. */
static int end_sending(struct grid_client *c, struct skep_request *r,
		       struct sending *s, int err)
{
	if (s->stream)
		/* if it fails, the reader sees the error too */
		grid_stream_end(&c->stream);
	if (err != -EFAULT)
		return err;
	grid_request_hush(c, r);
	grid_request_end(c, r, refuse_unreadable(r->args, s->unreadable),
			 OmniRpcLastErrorText());
	grid_stream_send(&c->stream, SKEP_CANCEL, s->call, "", 0);
	return err;
}

/* Sends a request that is not kept, from the caller's memory. */
static int send_call(struct grid_client *c, struct skep_request *r)
{
	struct grid_args *a = r->args;
	struct sending s = {{send_bytes}, &c->stream, r->id, a->in, 0, NULL};
	struct opening o = opening_of(a);
	int err;

	err = announce_call(&s, &o);
	if (!err)
		err = open_frame(&s);
	if (!err)
		err = move_args(a, &s.mover);
	if (!err && (s.frame || s.left))
		err = -EPROTO; /* the arguments have shrunk */
	if (!err)
		err = send_last(c, r, &s);
	return end_sending(c, r, &s, err);
}

int grid_data_send(struct grid_client *c, struct skep_request *r)
{
	struct sending s = {{send_bytes},     &c->stream, r->id,
			    r->datum->length, 0,	  NULL};
	struct opening o = {.type = SKEP_KEEP, .len = sizeof(o.u.datum)};
	int err;

	o.u.datum = (struct skep_datum){
		.length = r->datum->length,
		.mode = r->datum->one_node ? SKEP_ONE_NODE : 0,
	};
	err = announce_call(&s, &o);
	if (!err)
		err = open_frame(&s);
	if (!err)
		err = send_bytes(&s.mover, r->memory, r->datum->length, 1);
	if (!err)
		err = send_last(c, r, &s);
	return end_sending(c, r, &s, err);
}

struct keeping {
	struct grid_mover mover;
	u8 *to;
	u64 left;
	const void *unreadable;
};

static int keep_bytes(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct keeping *k = (struct keeping *)mover;

	(void)own;
	if (len > k->left)
		return -EPROTO; /* the arguments have grown */
	if (grid_memory_read(k->to, bytes, len)) {
		k->unreadable = bytes;
		return -EFAULT;
	}
	k->to += len;
	k->left -= len;
	return 0;
}

/* 0, or a code with the error set. *kept is NULL if the arguments are too large
 * to be kept, or changed during the copy. */
static int keep_call(struct grid_client *c, struct grid_args *a,
		     struct grid_kept **kept)
{
	struct opening o = opening_of(a);
	struct keeping k = {{keep_bytes}, NULL, a->in, NULL};
	int code =
		grid_kept_new(c, o.type, opening_head(&o), o.len, a->in, kept);

	if (!*kept)
		return code;
	k.to = (*kept)->bytes;
	if (!move_args(a, &k.mover) && !k.left)
		return 0;
	grid_kept_free(*kept);
	*kept = NULL;
	return k.unreadable ? refuse_unreadable(a, k.unreadable) : 0;
}

/*
 * A call that was sent partly cannot be withdrawn. Here the error is other than
 * -EPIPE only if the program has changed the arguments in the meantime.
 */
static void abandon_call(struct grid_client *c, struct skep_request *r, int err)
{
	grid_request_abandon(c, r);
	if (err != -EPIPE && !grid_error_reported())
		grid_error_set(OMRPC_E_ARGUMENTS,
			       "the arguments changed while they were sent; "
			       "the session is over");
}

/* The hub was lost while a request was being sent that is not kept; or the
 * request has ended, because its arguments cannot be read. */
static void lose_call(struct grid_client *c, struct skep_request *r)
{
	grid_request_hush(c, r);
	grid_request_sent(c, r);
	grid_request_end(c, r, OMRPC_E_NO_HUB, grid_lost);
	grid_request_wait(c, r);
	grid_request_free(c, r);
}

struct skep_request *grid_args_start(struct grid_client *c, u32 f,
				     struct grid_args *a)
{
	struct grid_kept *kept;
	struct skep_request *r;
	int is_init, err, method;
	u64 in, tag, outer;

	if (!a)
		return NULL;
	if (keep_call(c, a, &kept)) {
		grid_args_free(a);
		return NULL;
	}
	tag = a->tag;
	is_init = a->handle->module.function[f].flags & SKEP_FUNCTION_INIT;
	in = a->in;
	outer = a->outer;
	method = a->object != 0;
	r = grid_request_new(c, is_init ? GRID_INIT : GRID_CALL, a);
	if (!r) {
		grid_kept_free(kept);
		return NULL;
	}
	r->info.bytes_in = in;
	r->outer = outer;
	r->method = method;
	err = grid_request_send(c, r, kept, send_call);
	if (!err)
		return r;
	if (err == -EFAULT || (err == -EPIPE && grid_client_keeps(c))) {
		if (!tag) {
			lose_call(c, r);
			return NULL;
		}
		grid_request_end(c, r, OMRPC_E_NO_HUB, grid_lost);
		grid_request_sent(c, r); /* afterwards r may be freed */
		return r;
	}
	if (tag) { /* the reader ends it */
		grid_request_sent(c, r);
		grid_client_cut(c);
		return r;
	}
	abandon_call(c, r, err);
	return NULL;
}

struct skep_request *grid_call_start(struct grid_client *c,
				     const struct skep_handle *module, u32 f,
				     va_list values)
{
	return grid_args_start(c, f, args_of(c, module, f, 0, 0, values));
}

struct skep_request *grid_call_start_ranks(struct grid_client *c,
					   const struct skep_handle *module,
					   u32 f, int ranks, int *lost,
					   va_list values)
{
	struct grid_args *a = args_of(c, module, f, 0, ranks, values);

	if (a)
		a->lost = lost;
	return grid_args_start(c, f, a);
}

struct skep_request *grid_call_start_at(struct grid_client *c,
					const struct skep_handle *module, u32 f,
					void *const *pointer, u32 count)
{
	return grid_call_start_tagged(c, module, f, pointer, count, 0);
}

/* 0, or a code with the error set. */
static int check_elements(struct grid_args *a, const s64 *elements)
{
	const struct skep_function *function = a->call.function;
	const struct skep_param *p;
	u64 count;
	u32 i;

	elements -= hidden_params(function);
	for (i = hidden_params(function); i < function->params; i++) {
		p = &a->handle->module.param[function->first + i];
		if (p->mode == SKEP_WORK || grid_type_text(p->type) ||
		    p->type == SKEP_MASTER_FUNCTION ||
		    (p->type & ~SKEP_TYPE_UNSIGNED) == SKEP_CHAR ||
		    grid_call_count(&a->call, i, &count) ||
		    (u64)elements[i] == count)
			continue;
		return grid_error_set(OMRPC_E_ARGUMENTS,
				      "argument %s of %s.%s has %lld elements "
				      "and must have %llu",
				      p->name, a->handle->name, function->name,
				      (long long)elements[i],
				      (unsigned long long)count);
	}
	return 0;
}

struct skep_request *grid_call_start_fortran(struct grid_client *c,
					     const struct skep_handle *module,
					     u32 f, u64 object,
					     void *const *pointer,
					     const s64 *elements, u32 count)
{
	struct grid_args *a = args_at(c, module, f, object, pointer, count);

	if (a && elements && check_elements(a, elements)) {
		grid_args_free(a);
		a = NULL;
	}
	if (a)
		a->by_address = 1;
	return grid_args_start(c, f, a);
}

struct skep_request *grid_call_start_tagged(struct grid_client *c,
					    const struct skep_handle *module,
					    u32 f, void *const *pointer,
					    u32 count, u64 tag)
{
	return grid_call_start_hooked(c, module, f, 0, pointer, count, tag,
				      NULL);
}

struct skep_request *
grid_call_start_hooked(struct grid_client *c, const struct skep_handle *module,
		       u32 f, u64 object, void *const *pointer, u32 count,
		       u64 tag, const struct grid_hook *hook)
{
	struct grid_args *a = args_at(c, module, f, object, pointer, count);

	if (a) {
		a->tag = tag;
		a->hook = hook;
	}
	return grid_args_start(c, f, a);
}

struct skep_request *grid_method_start(struct grid_client *c,
				       const struct grid_object *o,
				       const char *name, va_list *values,
				       void *const *pointer, u32 count)
{
	int f = grid_object_method(o, name);
	struct grid_args *a;

	if (f < 0)
		return NULL;
	a = values ? args_of(c, o->module, (u32)f, o->number, 0, *values)
		   : args_at(c, o->module, (u32)f, o->number, pointer, count);
	return grid_args_start(c, (u32)f, a);
}
