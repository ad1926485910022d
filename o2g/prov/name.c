/* SPDX-License-Identifier: MIT */
/*
 * Names: an endpoint's own, and the two tables between fi_addr_t and libo2g's
 * numbers of peers, guarded by the endpoint's lock.
 */
#include <stdlib.h>

#include "prov.h"

static int grow_peers(struct endpoint *ep, size_t index)
{
	size_t room = ep->peers ? ep->peers : 64;
	uint32_t *peer;

	while (room <= index)
		room *= 2;
	peer = realloc(ep->peer, room * sizeof(*peer));
	if (!peer)
		return -FI_ENOMEM;
	ep->peer = peer;
	while (ep->peers < room)
		peer[ep->peers++] = O2G_ANY;
	return 0;
}

static int grow_addresses(struct endpoint *ep, size_t number)
{
	size_t room = ep->addresses ? ep->addresses : 64;
	fi_addr_t *address;

	while (room <= number)
		room *= 2;
	address = realloc(ep->address, room * sizeof(*address));
	if (!address)
		return -FI_ENOMEM;
	ep->address = address;
	while (ep->addresses < room)
		address[ep->addresses++] = FI_ADDR_NOTAVAIL;
	return 0;
}

int prov_endpoint_name(struct endpoint *ep, size_t index,
		       const uint8_t name[O2G_NAME_SIZE])
{
	uint32_t number;
	int error = o2g_peer(ep->o2g, name, &number);

	if (error < 0)
		return error;
	prov_lock(&ep->lock);
	if (index >= ep->peers)
		error = grow_peers(ep, index);
	if (!error && number >= ep->addresses)
		error = grow_addresses(ep, number);
	if (!error) {
		ep->peer[index] = number;
		if (ep->address[number] == FI_ADDR_NOTAVAIL)
			ep->address[number] = index;
	}
	prov_unlock(&ep->lock);
	return error;
}

/* A name may occur in the vector more than once; the first index is used. */
static fi_addr_t first_place(const struct endpoint *ep, uint32_t number)
{
	for (size_t i = 0; i < ep->peers; i++)
		if (ep->peer[i] == number)
			return i;
	return FI_ADDR_NOTAVAIL;
}

void prov_endpoint_forget(struct endpoint *ep, size_t index)
{
	uint32_t number;

	prov_lock(&ep->lock);
	number = index < ep->peers ? ep->peer[index] : O2G_ANY;
	if (number != O2G_ANY) {
		ep->peer[index] = O2G_ANY;
		if (ep->address[number] == index)
			ep->address[number] = first_place(ep, number);
	}
	prov_unlock(&ep->lock);
}

static int get_name(fid_t fid, void *name, size_t *length)
{
	struct endpoint *ep = (struct endpoint *)fid;
	uint8_t own[O2G_NAME_SIZE];
	size_t room;
	int error;

	if (!length || (*length && !name))
		return -FI_EINVAL;
	room = *length;
	error = o2g_name(ep->o2g, own);
	if (!error)
		error = prov_address_of_name(ep->domain->format, own, name,
					     length);
	if (error < 0)
		return error;
	return room < *length ? -FI_ETOOSMALL : 0;
}

struct fi_ops_cm prov_name_ops = {
	.size = sizeof(prov_name_ops),
	.setname = PROV_REFUSED,
	.getname = get_name,
	.getpeer = PROV_REFUSED,
	.connect = PROV_REFUSED,
	.listen = PROV_REFUSED,
	.accept = PROV_REFUSED,
	.reject = PROV_REFUSED,
	.shutdown = PROV_REFUSED,
	.join = PROV_REFUSED,
};
