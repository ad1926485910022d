// SPDX-License-Identifier: MIT
/* Checks manifests and runs size code. Owns nothing. */
#include "module.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define STACK_MAX 64
#define PROGRAM_MAX 4096

static const u8 element_size[] = {
	[SKEP_CHAR] = 1,     [SKEP_SHORT] = 2,	     [SKEP_INT] = 4,
	[SKEP_LONG] = 8,     [SKEP_FLOAT] = 4,	     [SKEP_DOUBLE] = 8,
	[SKEP_SCOMPLEX] = 8, [SKEP_DCOMPLEX] = 16,   [SKEP_STRING] = 0,
	[SKEP_FILENAME] = 0, [SKEP_FILEPOINTER] = 0, [SKEP_MASTER_FUNCTION] = 8,
};

u64 grid_type_size(u8 type)
{
	return element_size[type & ~SKEP_TYPE_UNSIGNED];
}

int grid_type_text(u8 type)
{
	return type >= SKEP_STRING && type <= SKEP_FILEPOINTER;
}

int grid_type_integer(u8 type)
{
	type &= (u8)~SKEP_TYPE_UNSIGNED;
	return type >= SKEP_CHAR && type <= SKEP_LONG;
}

/* Bytes of operands, values popped and pushed; there are no jumps. */
struct op {
	u8 operands, pops, pushes;
};

static struct op op_of(u8 code)
{
	switch (code) {
	case SKEP_OP_END:
		return (struct op){0, 1, 0};
	case SKEP_OP_CONST:
		return (struct op){8, 0, 1};
	case SKEP_OP_PARAM:
		return (struct op){1, 0, 1};
	case SKEP_OP_ITEM:
		return (struct op){1, 1, 1};
	case SKEP_OP_NEG:
		return (struct op){0, 1, 1};
	case SKEP_OP_SELECT:
		return (struct op){0, 3, 1};
	}
	return (struct op){0, 2, 1};
}

/* Whether PARAM refers to an IN integer, ITEM to an IN array of integers. */
static int operand_ok(const struct grid_module *m,
		      const struct skep_function *f, const u8 *code)
{
	const struct skep_param *p;

	if (code[0] != SKEP_OP_PARAM && code[0] != SKEP_OP_ITEM)
		return 1;
	if (code[1] >= f->params)
		return 0;
	p = &m->param[f->first + code[1]];
	return p->mode & SKEP_IN && p->mode <= SKEP_INOUT &&
	       grid_type_integer(p->type) &&
	       !p->dims == (code[0] == SKEP_OP_PARAM);
}

static int program_ok(const struct grid_module *m,
		      const struct skep_function *f, u64 at)
{
	u64 start = at, depth = 0;
	struct op op;

	for (;;) {
		if (at >= m->head.code || at - start >= PROGRAM_MAX ||
		    m->code[at] > SKEP_OP_SELECT)
			return 0;
		op = op_of(m->code[at]);
		if (m->head.code - at <= op.operands ||
		    !operand_ok(m, f, m->code + at) || depth < op.pops)
			return 0;
		depth = depth - op.pops + op.pushes;
		if (depth > STACK_MAX)
			return 0;
		if (m->code[at] == SKEP_OP_END)
			return !depth;
		at += 1u + op.operands;
	}
}

static int name_ok(const char name[SKEP_NAME_MAX])
{
	u32 i;

	for (i = 0; i < SKEP_NAME_MAX && name[i]; i++) {
		if (name[i] <= ' ' || name[i] > '~' || name[i] == '/')
			return 0;
	}
	return i && i < SKEP_NAME_MAX;
}

static int dims_ok(const struct grid_module *m, const struct skep_function *f,
		   const struct skep_param *p)
{
	u32 d, i;

	for (d = 0; d < p->dims; d++) {
		const u32 part[] = {p->dim[d].size, p->dim[d].low,
				    p->dim[d].high, p->dim[d].stride};

		if (part[0] == ~0u)
			return 0;
		for (i = 0; i < 4; i++) {
			if (part[i] != ~0u && !program_ok(m, f, part[i]))
				return 0;
		}
	}
	return 1;
}

static int text_ok(const struct skep_param *p)
{
	u32 d;

	for (d = 0; d < p->dims; d++) {
		if (p->dim[d].low != ~0u || p->dim[d].high != ~0u ||
		    p->dim[d].stride != ~0u)
			return 0;
	}
	return p->mode != SKEP_WORK;
}

/* What is wrong with the parameter, or NULL. */
static const char *param_wrong(const struct grid_module *m,
			       const struct skep_function *f,
			       const struct skep_param *p)
{
	u8 type = p->type & (u8)~SKEP_TYPE_UNSIGNED;

	if (!name_ok(p->name))
		return "a parameter has an invalid name";
	if (type < SKEP_CHAR || type > SKEP_MASTER_FUNCTION ||
	    (type != p->type && !grid_type_integer(p->type)))
		return "a parameter has an unknown type";
	if (p->mode < SKEP_IN || p->mode > SKEP_WORK)
		return "a parameter has an unknown mode";
	if (p->dims > SKEP_DIMS_MAX || !dims_ok(m, f, p))
		return "a parameter has a wrong size";
	if (!p->dims && p->mode == SKEP_WORK)
		return "this parameter must be an array";
	if (grid_type_text(p->type) && !text_ok(p))
		return "strings and files must travel whole";
	return NULL;
}

/* Whether sizes may use the parameter's value. */
static int can_size(const struct skep_param *p)
{
	return grid_type_integer(p->type) && !p->dims && p->mode & SKEP_IN &&
	       p->mode <= SKEP_INOUT;
}

/* Whether parameter p of function f can be a function of the master, and what
 * this one refers to is of f. */
static int takes_callback(const struct grid_module *m,
			  const struct skep_function *f,
			  const struct skep_param *p)
{
	const struct skep_param *q, *outer;
	const struct skep_function *g;
	u32 i;

	if (f->flags & ~SKEP_FUNCTION_RANKS || p->mode != SKEP_IN || p->dims ||
	    p->refers >= m->head.functions)
		return 0;
	g = &m->function[p->refers];
	if (!(g->flags & SKEP_FUNCTION_CALLBACK) ||
	    g->params > SKEP_PARAMS_MAX || g->first > m->head.params ||
	    g->params > m->head.params - g->first)
		return 0;
	for (i = 0; i < g->params; i++) {
		q = &m->param[g->first + i];
		if (!q->refers || q->type == SKEP_MASTER_FUNCTION)
			continue;
		if (q->refers > f->params)
			return 0;
		outer = &m->param[f->first + q->refers - 1];
		if (!can_size(outer) || outer->type != q->type)
			return 0;
	}
	return 1;
}

/* What a function of the master can be given: no files, and no complex numbers
 * by value. */
static int fits_callback(const struct skep_param *p)
{
	int value = p->mode == SKEP_IN && !p->dims;

	if (p->refers && (!can_size(p) || p->mode != SKEP_IN))
		return 0;
	if (grid_type_text(p->type))
		return p->type == SKEP_STRING;
	return p->type != SKEP_MASTER_FUNCTION &&
	       !(value &&
		 (p->type == SKEP_SCOMPLEX || p->type == SKEP_DCOMPLEX));
}

static const char *callback_wrong(const struct grid_module *m,
				  const struct skep_function *f,
				  const struct skep_param *p)
{
	if (p->type == SKEP_MASTER_FUNCTION && !takes_callback(m, f, p))
		return "a parameter cannot be a function of the master";
	if (f->flags & SKEP_FUNCTION_CALLBACK)
		return fits_callback(p) ? NULL
					: "a function of the master has a "
					  "parameter that it cannot have";
	return p->refers && p->type != SKEP_MASTER_FUNCTION
		       ? "a parameter refers to something"
		       : NULL;
}

/* Whether the first parameter can be the number of ranks. */
static int takes_ranks(const struct grid_module *m,
		       const struct skep_function *f)
{
	const struct skep_param *p = &m->param[f->first];

	return f->params && !(f->flags & SKEP_FUNCTION_INIT) &&
	       p->type == SKEP_INT && p->mode == SKEP_IN && !p->dims;
}

/* Whether it can be a class, or a method of one. */
static int class_ok(const struct grid_module *m, const struct skep_function *f)
{
	const u32 class = SKEP_FUNCTION_CLASS, state = SKEP_FUNCTION_STATE;
	u32 of;

	if (f->flags & (class | state))
		return f->flags & class && !(f->flags & ~(class | state)) &&
		       !f->params && !f->of;
	if (!f->of)
		return 1;
	if (f->of > m->head.functions ||
	    f->flags & (SKEP_FUNCTION_INIT | SKEP_FUNCTION_CALLBACK))
		return 0;
	of = m->function[f->of - 1].flags;
	return of & class && !(of & state && f->flags & SKEP_FUNCTION_RANKS);
}

static const char *function_wrong(const struct grid_module *m,
				  const struct skep_function *f)
{
	const char *why;
	u32 i;

	if (!name_ok(f->name) || f->params > SKEP_PARAMS_MAX ||
	    f->first > m->head.params || f->params > m->head.params - f->first)
		return "a function lies outside the tables";
	if (f->flags & ~(SKEP_FUNCTION_INIT | SKEP_FUNCTION_RANKS |
			 SKEP_FUNCTION_CALLBACK | SKEP_FUNCTION_CLASS |
			 SKEP_FUNCTION_STATE))
		return "a function has flags that are not known";
	if (!class_ok(m, f))
		return "a class or a method is not what it can be";
	if (f->flags & SKEP_FUNCTION_CALLBACK &&
	    f->flags != SKEP_FUNCTION_CALLBACK)
		return "a function of the master has other flags too";
	for (i = 0; i < f->params; i++) {
		why = param_wrong(m, f, &m->param[f->first + i]);
		if (!why)
			why = callback_wrong(m, f, &m->param[f->first + i]);
		if (why)
			return why;
	}
	if (f->flags & SKEP_FUNCTION_RANKS && !takes_ranks(m, f))
		return "a function does not begin with the number of its ranks";
	return NULL;
}

int grid_module_open(struct grid_module *m, const void *bytes, u64 len,
		     const char **why)
{
	const u8 *at = bytes;
	u64 need;
	u32 i;

	*why = "the manifest is cut short";
	if (len < sizeof(m->head))
		return -EINVAL;
	memcpy(&m->head, at, sizeof(m->head));
	*why = "the manifest is of another revision: rebuild the worker";
	if (m->head.magic != SKEP_MODULE_MAGIC ||
	    m->head.revision != SKEP_MODULE_REVISION)
		return -EINVAL;
	need = sizeof(m->head) +
	       (u64)m->head.functions * sizeof(struct skep_function) +
	       (u64)m->head.params * sizeof(struct skep_param) + m->head.code;
	*why = "the manifest's tables do not fit its length";
	if (need != len || m->head.code > SKEP_CODE_MAX ||
	    !name_ok(m->head.name))
		return -EINVAL;
	at += sizeof(m->head);
	m->function = (const void *)at;
	at += (u64)m->head.functions * sizeof(struct skep_function);
	m->param = (const void *)at;
	m->code = at + (u64)m->head.params * sizeof(struct skep_param);
	for (i = 0; i < m->head.functions; i++) {
		*why = function_wrong(m, &m->function[i]);
		if (*why)
			return -EINVAL;
	}
	return 0;
}

int grid_module_find(const struct grid_module *m, const char *name)
{
	const struct skep_function *f;
	u32 i;

	for (i = 0; i < m->head.functions; i++) {
		f = &m->function[i];
		if (!(f->flags &
		      (SKEP_FUNCTION_CALLBACK | SKEP_FUNCTION_CLASS)) &&
		    !grid_module_state(m, f) && !strcmp(f->name, name))
			return (int)i;
	}
	return -ENOENT;
}

const struct skep_function *grid_module_state(const struct grid_module *m,
					      const struct skep_function *f)
{
	const struct skep_function *of;

	if (!f->of)
		return NULL;
	of = &m->function[f->of - 1];
	return of->flags & SKEP_FUNCTION_STATE ? of : NULL;
}

int grid_module_class(const struct grid_module *m, const char *name)
{
	u32 i;

	for (i = 0; i < m->head.functions; i++) {
		if (m->function[i].flags & SKEP_FUNCTION_CLASS &&
		    !strcmp(m->function[i].name, name))
			return (int)i;
	}
	return -ENOENT;
}

int grid_module_method(const struct grid_module *m, u32 class, const char *name)
{
	u32 i;

	for (i = 0; i < m->head.functions; i++) {
		if (m->function[i].of == class + 1 &&
		    !strcmp(m->function[i].name, name))
			return (int)i;
	}
	return -ENOENT;
}

int grid_module_initialize(const struct grid_module *m)
{
	u32 i;

	for (i = 0; i < m->head.functions; i++) {
		if (m->function[i].flags & SKEP_FUNCTION_INIT)
			return (int)i;
	}
	return -ENOENT;
}

/* Running ---------------------------------------------------------------- */

static s64 integer_at(const void *at, u64 index, u8 type)
{
	const u8 *p = (const u8 *)at + index * grid_type_size(type);
	s64 wide = 0;

	memcpy(&wide, p, grid_type_size(type));
	switch (type) {
	case SKEP_CHAR:
		return (s8)wide;
	case SKEP_SHORT:
		return (s16)wide;
	case SKEP_INT:
		return (s32)wide;
	}
	return wide;
}

static int integer_power(s64 base, s64 exponent, s64 *result)
{
	*result = 1;
	if (exponent < 0 || exponent > 62)
		return -ERANGE;
	while (exponent--) {
		if (__builtin_mul_overflow(*result, base, result))
			return -ERANGE;
	}
	return 0;
}

static int integer_divide(u8 op, s64 a, s64 b, s64 *result)
{
	if (!b || (b == -1 && a == LLONG_MIN))
		return -ERANGE;
	*result = op == SKEP_OP_DIV ? a / b : a % b;
	return 0;
}

static int eval_binary(u8 op, s64 a, s64 b, s64 *r)
{
	switch (op) {
	case SKEP_OP_ADD:
		return __builtin_add_overflow(a, b, r) ? -ERANGE : 0;
	case SKEP_OP_SUB:
		return __builtin_sub_overflow(a, b, r) ? -ERANGE : 0;
	case SKEP_OP_MUL:
		return __builtin_mul_overflow(a, b, r) ? -ERANGE : 0;
	case SKEP_OP_DIV:
	case SKEP_OP_MOD:
		return integer_divide(op, a, b, r);
	case SKEP_OP_POW:
		return integer_power(a, b, r);
	}
	*r = op == SKEP_OP_LT	? a < b
	     : op == SKEP_OP_LE ? a <= b
	     : op == SKEP_OP_GT ? a > b
	     : op == SKEP_OP_GE ? a >= b
	     : op == SKEP_OP_EQ ? a == b
				: a != b;
	return 0;
}

static int eval_item(const struct skep_param *p, const struct grid_value *v,
		     s64 index, s64 *result)
{
	if (!v->at || index < 0 || (u64)index >= v->count)
		return -ERANGE;
	*result = integer_at(v->at, (u64)index, p->type);
	return 0;
}

int grid_module_size(const struct grid_module *m, const struct skep_function *f,
		     const struct grid_value *value, u32 at, s64 *result)
{
	s64 stack[STACK_MAX], *top = stack; /* top: the first free place */
	const u8 *code = m->code + at;
	int err = 0;

	for (; *code != SKEP_OP_END && !err;
	     code += 1 + op_of(*code).operands) {
		switch (*code) {
		case SKEP_OP_CONST:
			memcpy(top++, code + 1, 8);
			break;
		case SKEP_OP_PARAM:
			/* The received value may have more bits than its
			 * type. */
			*top++ = integer_at(&value[code[1]].bits, 0,
					    m->param[f->first + code[1]].type);
			break;
		case SKEP_OP_ITEM:
			err = eval_item(&m->param[f->first + code[1]],
					&value[code[1]], top[-1], &top[-1]);
			break;
		case SKEP_OP_NEG:
			err = eval_binary(SKEP_OP_SUB, 0, top[-1], &top[-1]);
			break;
		case SKEP_OP_SELECT:
			top -= 2;
			top[-1] = top[-1] ? top[0] : top[1];
			break;
		default:
			top--;
			err = eval_binary(*code, top[-1], top[0], &top[-1]);
		}
	}
	*result = err ? 0 : top[-1];
	return err;
}
