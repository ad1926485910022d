/* SPDX-License-Identifier: MIT */
/*
 * Address vectors: a table of names, whose index is the fi_addr_t of both
 * types. Every endpoint of the vector learns a name when it is inserted, so
 * that libo2g can say from the first message on who sent it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prov.h"

static int vector_close(struct fid *fid)
{
	struct vector *vector = (struct vector *)fid;

	if (atomic_load(&vector->users))
		return -FI_EBUSY;
	atomic_fetch_sub(&vector->domain->users, 1);
	pthread_mutex_destroy(&vector->lock);
	free(vector->name);
	free(vector->used);
	free(vector);
	return 0;
}

static int grow_names(struct vector *vector)
{
	size_t room = vector->room ? 2 * vector->room : 64;
	void *name = realloc(vector->name, room * sizeof(*vector->name));
	bool *used;

	if (!name)
		return -FI_ENOMEM;
	vector->name = name;
	used = realloc(vector->used, room * sizeof(*used));
	if (!used)
		return -FI_ENOMEM;
	memset(used + vector->room, 0, (room - vector->room) * sizeof(*used));
	vector->used = used;
	vector->room = room;
	return 0;
}

/* The lowest free index, as tables promise; appending is the common case. */
static size_t free_index(const struct vector *vector)
{
	size_t i = 0;

	if (vector->count == vector->room || !vector->used[vector->count])
		return vector->count;
	while (vector->used[i])
		i++;
	return i;
}

static void forget_index(struct vector *vector, size_t index)
{
	for (struct endpoint *ep = vector->endpoints; ep; ep = ep->next)
		prov_endpoint_forget(ep, index);
}

static int insert_one(struct vector *vector, const uint8_t *name, size_t *index)
{
	int error;

	if (vector->count == vector->room && (error = grow_names(vector)))
		return error;
	*index = free_index(vector);
	for (struct endpoint *ep = vector->endpoints; ep; ep = ep->next)
		if ((error = prov_endpoint_name(ep, *index, name))) {
			forget_index(vector, *index);
			return error;
		}
	memcpy(vector->name[*index], name, O2G_NAME_SIZE);
	vector->used[*index] = true;
	vector->count++;
	return 0;
}

/* One address in the program's format. */
static int insert_address(struct vector *vector, const void *address,
			  size_t *index)
{
	uint8_t name[O2G_NAME_SIZE];
	int error = prov_address_to_name(vector->domain->format, address, name);

	return error ? error : insert_one(vector, name, index);
}

static int av_insert(struct fid_av *fid, const void *names, size_t count,
		     fi_addr_t *address, uint64_t flags, void *context)
{
	struct vector *vector = (struct vector *)fid;
	const size_t size = prov_address_size(vector->domain->format);
	int done = 0;

	if ((flags & ~(FI_MORE | FI_SYNC_ERR)) || (count && !names) ||
	    (flags & FI_SYNC_ERR && !context))
		return -FI_EINVAL;
	if (prov_inherited(vector->domain))
		return -FI_EBADF;
	pthread_mutex_lock(&vector->lock);
	for (size_t i = 0; i < count; i++) {
		size_t index = FI_ADDR_NOTAVAIL;
		int error = insert_address(
			vector, (const char *)names + i * size, &index);

		if (address)
			address[i] = error ? FI_ADDR_NOTAVAIL : index;
		if (flags & FI_SYNC_ERR)
			((int *)context)[i] = -error;
		done += !error;
	}
	pthread_mutex_unlock(&vector->lock);
	return done;
}

/* Any endpoint that listens there; also for names without another address. */
static int av_insertsvc(struct fid_av *fid, const char *node,
			const char *service, fi_addr_t *address, uint64_t flags,
			void *context)
{
	struct vector *vector = (struct vector *)fid;
	const uint32_t format = vector->domain->format;
	struct sockaddr_storage there;
	uint8_t name[O2G_NAME_SIZE];
	int error;

	if (!node || !service)
		return -FI_EINVAL;
	error = prov_address_resolve(node, service, 0, format, &there);
	if (error)
		return error;
	if (format != FI_FORMAT_UNSPEC)
		return av_insert(fid, &there, 1, address, flags, context);
	error = o2g_name_make(name, (struct sockaddr *)&there,
			      prov_address_size(prov_address_format(&there)));
	return error ? error : av_insert(fid, name, 1, address, flags, context);
}

static int remove_some(struct fid_av *fid, fi_addr_t *address, size_t count,
		       uint64_t flags)
{
	struct vector *vector = (struct vector *)fid;
	int error = 0;

	if (flags || (count && !address))
		return -FI_EINVAL;
	if (prov_inherited(vector->domain))
		return -FI_EBADF;
	pthread_mutex_lock(&vector->lock);
	for (size_t i = 0; i < count; i++) {
		if (address[i] >= vector->room || !vector->used[address[i]]) {
			error = -FI_EINVAL;
			continue;
		}
		vector->used[address[i]] = false;
		vector->count--;
		forget_index(vector, address[i]);
	}
	pthread_mutex_unlock(&vector->lock);
	return error;
}

static int av_lookup(struct fid_av *fid, fi_addr_t address, void *name,
		     size_t *length)
{
	struct vector *vector = (struct vector *)fid;
	size_t room = length ? *length : 0;
	int error = -FI_EINVAL;

	if (!length || (room && !name))
		return -FI_EINVAL;
	if (prov_inherited(vector->domain))
		return -FI_EBADF;
	pthread_mutex_lock(&vector->lock);
	if (address < vector->room && vector->used[address]) {
		error = prov_address_of_name(vector->domain->format,
					     vector->name[address], name,
					     length);
	}
	pthread_mutex_unlock(&vector->lock);
	return error;
}

static const char *av_straddr(struct fid_av *fid, const void *name,
			      char *buffer, size_t *length)
{
	struct vector *vector = (struct vector *)fid;
	char line[PROV_ADDRESS_TEXT];

	prov_address_text(vector->domain->format, name, line);
	if (buffer && *length)
		snprintf(buffer, *length, "%s", line);
	*length = strlen(line) + 1;
	return buffer;
}

int prov_vector_join(struct vector *vector, struct endpoint *ep)
{
	int error = 0;

	pthread_mutex_lock(&vector->lock);
	for (size_t i = 0; !error && i < vector->room; i++)
		if (vector->used[i])
			error = prov_endpoint_name(ep, i, vector->name[i]);
	if (!error) {
		ep->next = vector->endpoints;
		vector->endpoints = ep;
		atomic_fetch_add(&vector->users, 1);
	}
	pthread_mutex_unlock(&vector->lock);
	return error;
}

void prov_vector_leave(struct vector *vector, struct endpoint *ep)
{
	struct endpoint **at = &vector->endpoints;

	if (prov_inherited(vector->domain)) {
		atomic_fetch_sub(&vector->users, 1);
		return;
	}
	pthread_mutex_lock(&vector->lock);
	while (*at && *at != ep)
		at = &(*at)->next;
	if (*at) {
		*at = ep->next;
		atomic_fetch_sub(&vector->users, 1);
	}
	pthread_mutex_unlock(&vector->lock);
}

static int bind_events(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid, (void)flags;
	return other && other->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = vector_close,
	.bind = bind_events,
	.control = prov_control_refused,
	.ops_open = PROV_REFUSED,
};

static struct fi_ops_av ops = {
	.size = sizeof(ops),
	.insert = av_insert,
	.insertsvc = av_insertsvc,
	.insertsym = PROV_REFUSED,
	.remove = remove_some,
	.lookup = av_lookup,
	.straddr = av_straddr,
	.av_set = PROV_REFUSED,
};

int prov_vector_open(struct fid_domain *domain, struct fi_av_attr *attr,
		     struct fid_av **out, void *context)
{
	struct vector *vector;

	/* A vector shared by processes, reports by event, receive contexts. */
	if (!attr || attr->type > FI_AV_TABLE || attr->rx_ctx_bits)
		return -FI_EINVAL;
	if (attr->name || (attr->flags & ~FI_SYMMETRIC))
		return -FI_ENOSYS;
	vector = calloc(1, sizeof(*vector));
	if (!vector)
		return -FI_ENOMEM;
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	pthread_mutex_init(&vector->lock, NULL);
	vector->domain = (struct domain *)domain;
	atomic_fetch_add(&vector->domain->users, 1);
	vector->fid.fid.fclass = FI_CLASS_AV;
	vector->fid.fid.context = context;
	vector->fid.fid.ops = &fid_ops;
	vector->fid.ops = &ops;
	*out = &vector->fid;
	return 0;
}
