/* SPDX-License-Identifier: MIT */
/*
 * Address formats. A program that passes a node, a service or an address format
 * gets socket addresses, as with libfabric's tcp provider; one that passes
 * none, such as an MPI, gets libo2g's names of 40 bytes.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prov.h"

size_t prov_address_size(uint32_t format)
{
	switch (format) {
	case FI_SOCKADDR_IN:
		return sizeof(struct sockaddr_in);
	case FI_SOCKADDR_IN6:
		return sizeof(struct sockaddr_in6);
	}
	return O2G_NAME_SIZE;
}

int prov_address_to_name(uint32_t format, const void *address,
			 uint8_t name[O2G_NAME_SIZE])
{
	struct sockaddr_storage copy = {0};

	if (format == FI_FORMAT_UNSPEC) {
		memcpy(name, address, O2G_NAME_SIZE);
		return 0;
	}
	memcpy(&copy, address, prov_address_size(format));
	if (copy.ss_family != (format == FI_SOCKADDR_IN ? AF_INET : AF_INET6))
		return -FI_EINVAL;
	return o2g_name_make(name, (struct sockaddr *)&copy,
			     prov_address_size(format));
}

int prov_address_of_name(uint32_t format, const uint8_t name[O2G_NAME_SIZE],
			 void *out, size_t *length)
{
	const size_t size = prov_address_size(format), room = *length;
	struct sockaddr_storage address;
	const void *from = name;
	size_t have;

	if (format != FI_FORMAT_UNSPEC) {
		if (o2g_name_address(name, &address, &have) || have != size)
			return -FI_EINVAL;
		from = &address;
	}
	*length = size;
	if (room)
		memcpy(out, from, room < size ? room : size);
	return 0;
}

/* "fi_sockaddr_in://127.0.0.1:9228", as other providers write it. */
static void socket_text(uint32_t format, const void *address, char *out,
			size_t room)
{
	const struct sockaddr_in6 *in6 = address;
	const struct sockaddr_in *in = address;
	char host[INET6_ADDRSTRLEN] = "?";

	if (format == FI_SOCKADDR_IN) {
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(out, room, "fi_sockaddr_in://%s:%u", host,
			 ntohs(in->sin_port));
		return;
	}
	inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
	snprintf(out, room, "fi_sockaddr_in6://[%s]:%u", host,
		 ntohs(in6->sin6_port));
}

void prov_address_text(uint32_t format, const void *address,
		       char out[PROV_ADDRESS_TEXT])
{
	const uint8_t *byte = address;
	int n;

	if (format != FI_FORMAT_UNSPEC) {
		socket_text(format, address, out, PROV_ADDRESS_TEXT);
		return;
	}
	n = sprintf(out, "fi_addr_o2g://");
	for (int i = 0; i < O2G_NAME_SIZE; i++)
		n += sprintf(out + n, "%02x", byte[i]);
}

/* ---- arguments of fi_getinfo() ---- */

static int family_of(uint32_t format)
{
	if (format == FI_SOCKADDR_IN)
		return AF_INET;
	return format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_UNSPEC;
}

static int look_up(const char *node, const char *service, int family, int flags,
		   struct sockaddr_storage *out)
{
	const struct addrinfo hints = {.ai_family = family,
				       .ai_socktype = SOCK_STREAM,
				       .ai_flags = flags};
	struct addrinfo *found;

	if (getaddrinfo(node, service, &hints, &found))
		return -FI_ENODATA;
	memset(out, 0, sizeof(*out));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

int prov_address_resolve(const char *node, const char *service, uint64_t flags,
			 uint32_t format, struct sockaddr_storage *out)
{
	int how = flags & FI_SOURCE ? AI_PASSIVE : 0;
	int family = family_of(format);

	if (flags & FI_NUMERICHOST)
		how |= AI_NUMERICHOST;
	if (family != AF_UNSPEC)
		return look_up(node, service, family, how, out);
	/* IPv4 first, as an endpoint without a setting chooses. */
	return look_up(node, service, AF_INET, how, out) &&
			       look_up(node, service, AF_INET6, how, out)
		       ? -FI_ENODATA
		       : 0;
}

static uint16_t *port_of(struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET
		       ? &((struct sockaddr_in *)address)->sin_port
		       : &((struct sockaddr_in6 *)address)->sin6_port;
}

uint32_t prov_address_format(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
}

/* Connecting a datagram socket sets its local address and sends nothing. */
int prov_address_towards(const struct sockaddr_storage *there,
			 struct sockaddr_storage *out)
{
	struct sockaddr_storage to = *there;
	socklen_t length =
		(socklen_t)prov_address_size(prov_address_format(there));
	int error, fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (!*port_of(&to))
		*port_of(&to) = htons(9); /* any will do */
	memset(out, 0, sizeof(*out));
	error = connect(fd, (struct sockaddr *)&to, length) ||
		getsockname(fd, (struct sockaddr *)out, &length);
	close(fd);
	*port_of(out) = 0;
	return error ? -FI_ENODATA : 0;
}

/* ---- the address that an endpoint listens at ---- */

int prov_address_listen(uint32_t format, const void *address,
			struct prov_listen *out)
{
	struct sockaddr_storage copy = {0};
	const struct sockaddr_in6 *in6 = (const void *)&copy;
	const struct sockaddr_in *in = (const void *)&copy;
	unsigned port;

	memcpy(&copy, address, prov_address_size(format));
	if (copy.ss_family != family_of(format))
		return -FI_EINVAL;
	port = ntohs(*port_of(&copy));
	*out = (struct prov_listen){
		.any = format == FI_SOCKADDR_IN
			       ? in->sin_addr.s_addr == htonl(INADDR_ANY)
			       : IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr)};
	if (port)
		snprintf(out->ports, sizeof(out->ports), "%u", port);
	inet_ntop(copy.ss_family,
		  format == FI_SOCKADDR_IN ? (const void *)&in->sin_addr
					   : (const void *)&in6->sin6_addr,
		  out->host, sizeof(out->host));
	return 0;
}
