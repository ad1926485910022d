/* SPDX-License-Identifier: MIT */
/*
 * Addresses: names of endpoints, and the address on which an endpoint listens.
 *
 * A name has 40 bytes, little endian: location and id of the endpoint. A name
 * without an id means the endpoint that listens at that location.
 */
#ifndef O2G_LIB_ADDRESS_H
#define O2G_LIB_ADDRESS_H

#include <skep/o2g_wire.h>

#include <sys/socket.h>

struct o2g_name {
	struct o2g_location location;
	struct o2g_id id;
};
SKEP_ASSERT_SIZE(struct o2g_name, 40);

struct o2g_address { /* a socket address of either family */
	struct sockaddr_storage storage;
	socklen_t length;
};

#define O2G_ADDRESS_TEXT 64 /* "[address]:port" */

/* -EINVAL if it is not a name. */
int o2g_address_of_name(struct o2g_address *out, const struct o2g_name *name);
int o2g_address_to_name(struct o2g_name *name, const struct o2g_address *from,
			const struct o2g_id *id);
const char *o2g_address_text(char out[O2G_ADDRESS_TEXT],
			     const struct o2g_address *address);
/* Chooses the address to listen on. `interface`: an interface's name, an
 * address, a network as "address/bits" that contains one of this host's
 * addresses, or 0 or "*" for the first address that other hosts can reach;
 * "0.0.0.0" or "::": the first one of this family. -EADDRNOTAVAIL with
 * o2g_error(). */
int o2g_address_choose(struct o2g_address *out, const char *interface);
/* Whether the endpoint listens on every address, of the family of the one that
 * is chosen. */
int o2g_address_everywhere(const char *interface);
void o2g_address_set_port(struct o2g_address *address, u16 port);
/* Changes it to the wildcard address of its family, with the same port. */
void o2g_address_set_any(struct o2g_address *address);
/* Whether it is an address of this host. */
int o2g_address_local(const struct o2g_address *address);

static inline int o2g_id_known(const struct o2g_id *id)
{
	u8 some = 0;

	for (unsigned i = 0; i < sizeof(id->byte); i++)
		some |= id->byte[i];
	return some != 0;
}

#endif
