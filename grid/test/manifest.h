/* SPDX-License-Identifier: MIT */
/* Manifests for tests, made by hand. */
#ifndef GRID_TEST_MANIFEST_H
#define GRID_TEST_MANIFEST_H

#include <skep/module.h>
#include <string.h>

struct manifest {
	struct skep_module head;
	struct skep_function function[8];
	struct skep_param param[72];
	u8 code[1024];
	u8 bytes[0x4000] __attribute__((aligned(8)));
};

__attribute__((unused)) static void manifest_init(struct manifest *m,
						  const char *name)
{
	memset(m, 0, sizeof(*m));
	m->head.magic = SKEP_MODULE_MAGIC;
	m->head.revision = SKEP_MODULE_REVISION;
	strcpy(m->head.name, name);
}

__attribute__((unused)) static void
manifest_function(struct manifest *m, const char *name, u32 flags)
{
	struct skep_function *f = &m->function[m->head.functions++];

	strcpy(f->name, name);
	f->first = m->head.params;
	f->flags = flags;
}

/* A parameter of the last function. */
__attribute__((unused)) static struct skep_param *
manifest_param(struct manifest *m, const char *name, u8 type, u8 mode)
{
	struct skep_param *p = &m->param[m->head.params++];
	u32 d;

	m->function[m->head.functions - 1].params++;
	strcpy(p->name, name);
	p->type = type;
	p->mode = mode;
	for (d = 0; d < SKEP_DIMS_MAX; d++)
		p->dim[d] = (struct skep_dim){~0u, ~0u, ~0u, ~0u};
	return p;
}

/* Appends size code; answers where it begins. */
__attribute__((unused)) static u32 manifest_code(struct manifest *m,
						 const void *code, u32 len)
{
	u32 at = m->head.code;

	memcpy(m->code + at, code, len);
	m->head.code += len;
	return at;
}

__attribute__((unused)) static u32 manifest_const(struct manifest *m, s64 value)
{
	u8 code[10] = {SKEP_OP_CONST};

	memcpy(code + 1, &value, 8);
	code[9] = SKEP_OP_END;
	return manifest_code(m, code, sizeof(code));
}

__attribute__((unused)) static u32 manifest_scalar(struct manifest *m, u8 param)
{
	const u8 code[] = {SKEP_OP_PARAM, param, SKEP_OP_END};

	return manifest_code(m, code, sizeof(code));
}

/* Lays it out in m->bytes; answers the length. */
__attribute__((unused)) static u64 manifest_done(struct manifest *m)
{
	u8 *to = m->bytes;
	u64 n;

	memcpy(to, &m->head, sizeof(m->head));
	to += sizeof(m->head);
	n = m->head.functions * sizeof(m->function[0]);
	memcpy(to, m->function, n);
	to += n;
	n = m->head.params * sizeof(m->param[0]);
	memcpy(to, m->param, n);
	to += n;
	memcpy(to, m->code, m->head.code);
	return (u64)(to - m->bytes) + m->head.code;
}

#endif
