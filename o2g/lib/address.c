// SPDX-License-Identifier: MIT
/* Names and addresses. Pure functions, except for the list of this host's
 * addresses. */
#include "address.h"
#include "error.h"
#include "o2g.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The fields of the two address families. */
struct view {
	u8 *bytes;
	u32 length;
	u16 *port; /* network order */
};

static int view_address(struct o2g_address *a, struct view *view)
{
	struct sockaddr_in *in = (void *)&a->storage;
	struct sockaddr_in6 *in6 = (void *)&a->storage;

	if (a->storage.ss_family == AF_INET) {
		view->bytes = (u8 *)&in->sin_addr;
		view->length = 4;
		view->port = &in->sin_port;
		a->length = sizeof(*in);
		return 0;
	}
	if (a->storage.ss_family == AF_INET6) {
		view->bytes = (u8 *)&in6->sin6_addr;
		view->length = 16;
		view->port = &in6->sin6_port;
		a->length = sizeof(*in6);
		return 0;
	}
	return -EAFNOSUPPORT;
}

int o2g_address_of_name(struct o2g_address *out, const struct o2g_name *name)
{
	struct view view;

	memset(out, 0, sizeof(*out));
	if ((name->location.family != 4 && name->location.family != 6) ||
	    name->location.port == 0 || name->location.zero)
		return -EINVAL;
	out->storage.ss_family =
		name->location.family == 4 ? AF_INET : AF_INET6;
	view_address(out, &view);
	memcpy(view.bytes, name->location.address, view.length);
	*view.port = htons(name->location.port);
	return 0;
}

int o2g_address_to_name(struct o2g_name *name, const struct o2g_address *from,
			const struct o2g_id *id)
{
	struct o2g_address copy = *from;
	struct view view;

	memset(name, 0, sizeof(*name));
	if (view_address(&copy, &view))
		return -EAFNOSUPPORT;
	name->location.family = view.length == 4 ? 4 : 6;
	name->location.port = ntohs(*view.port);
	memcpy(name->location.address, view.bytes, view.length);
	name->id = *id;
	return 0;
}

const char *o2g_address_text(char out[O2G_ADDRESS_TEXT],
			     const struct o2g_address *address)
{
	struct o2g_address copy = *address;
	char host[INET6_ADDRSTRLEN];
	struct view view;

	if (view_address(&copy, &view))
		return "?";
	inet_ntop(copy.storage.ss_family, view.bytes, host, sizeof(host));
	snprintf(out, O2G_ADDRESS_TEXT, view.length == 4 ? "%s:%u" : "[%s]:%u",
		 host, ntohs(*view.port));
	return out;
}

void o2g_address_set_port(struct o2g_address *address, u16 port)
{
	struct view view;

	if (view_address(address, &view) == 0)
		*view.port = htons(port);
}

void o2g_address_set_any(struct o2g_address *address)
{
	struct view view;

	if (view_address(address, &view) == 0)
		memset(view.bytes, 0, view.length);
}

int o2g_address_local(const struct o2g_address *address)
{
	struct o2g_address copy = *address, bound = *address;
	int local, fd = socket(copy.storage.ss_family,
			       SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	o2g_address_set_port(&bound, 0);
	local = !bind(fd, (struct sockaddr *)&bound.storage, bound.length);
	close(fd);
	return local;
}

/* ---- conversion of addresses to names and back ---- */

int o2g_name_make(uint8_t bytes[O2G_NAME_SIZE], const struct sockaddr *from,
		  size_t length)
{
	const struct o2g_id whoever = {0};
	struct o2g_address address = {0};
	struct o2g_name name;
	struct view view;

	if (length > sizeof(address.storage))
		length = sizeof(address.storage);
	memcpy(&address.storage, from, length);
	if (length < sizeof(from->sa_family) || view_address(&address, &view))
		return o2g_error_set(-EAFNOSUPPORT,
				     "not an IPv4 or IPv6 address");
	if (length < address.length || !*view.port)
		return o2g_error_set(-EINVAL, "an address without a port");
	o2g_address_to_name(&name, &address, &whoever);
	memcpy(bytes, &name, sizeof(name));
	return 0;
}

int o2g_name_address(const uint8_t bytes[O2G_NAME_SIZE],
		     struct sockaddr_storage *out, size_t *length)
{
	struct o2g_address address;
	struct o2g_name name;

	memcpy(&name, bytes, sizeof(name));
	if (o2g_address_of_name(&address, &name))
		return o2g_error_set(-EINVAL, "not an endpoint's name");
	*out = address.storage;
	*length = address.length;
	return 0;
}

/* The user's setting for the interface, parsed. */
struct wish {
	const char *interface; /* an interface's name, or 0 */
	u8 bytes[16];
	u32 length; /* bytes of the address: 4, 16, or 0 if there is none */
	u32 bits;
};

static int same_bits(const u8 *a, const u8 *b, u32 bits)
{
	u8 mask = (u8)(0xff00 >> bits % 8);

	return !memcmp(a, b, bits / 8) &&
	       (bits % 8 == 0 || !((a[bits / 8] ^ b[bits / 8]) & mask));
}

static int parse_wish(struct wish *wish, const char *text)
{
	char host[INET6_ADDRSTRLEN];
	const char *slash;
	size_t n;

	memset(wish, 0, sizeof(*wish));
	if (!text || !*text || !strcmp(text, "*"))
		return 0;
	slash = strchr(text, '/');
	n = slash ? (size_t)(slash - text) : strlen(text);
	if (n < sizeof(host)) {
		memcpy(host, text, n);
		host[n] = 0;
		if (inet_pton(AF_INET, host, wish->bytes) == 1)
			wish->length = 4;
		else if (inet_pton(AF_INET6, host, wish->bytes) == 1)
			wish->length = 16;
	}
	if (!wish->length) {
		wish->interface = text;
		return 0;
	}
	wish->bits = wish->length * 8;
	if (!slash && same_bits(wish->bytes, (u8[16]){0}, wish->bits))
		wish->bits = 0; /* any address of the family */
	if (slash) {
		char *end;
		unsigned long bits = strtoul(slash + 1, &end, 10);

		if (end == slash + 1 || *end || bits > wish->bits)
			return -EINVAL;
		wish->bits = (u32)bits;
	}
	return 0;
}

static int link_local(const struct view *v)
{
	return (v->length == 16 && v->bytes[0] == 0xfe &&
		(v->bytes[1] & 0xc0) == 0x80) ||
	       (v->length == 4 && v->bytes[0] == 169 && v->bytes[1] == 254);
}

/* The preference of an address, 0 if it is unusable. IPv4 is preferred to IPv6;
 * loopback is chosen only if there is no other. */
static int rank_interface(const struct wish *wish, const struct ifaddrs *i,
			  const struct view *v)
{
	if (!(i->ifa_flags & IFF_UP) || (link_local(v) && v->length == 16))
		return 0;
	if (wish->length && (wish->length != v->length ||
			     !same_bits(wish->bytes, v->bytes, wish->bits)))
		return 0;
	if (wish->interface && strcmp(wish->interface, i->ifa_name))
		return 0;
	return 1 + (v->length == 4) +
	       4 * !(i->ifa_flags & IFF_LOOPBACK && !wish->interface) +
	       2 * !link_local(v);
}

static int pick_address(struct o2g_address *out, const struct wish *wish)
{
	struct ifaddrs *all, *i;
	int best = 0;

	if (getifaddrs(&all))
		return o2g_error_set(-errno,
				     "can't list this host's addresses: %s%s",
				     strerror(errno),
				     errno == EMFILE || errno == ENFILE
					     ? "; raise `ulimit -n`"
					     : "");
	for (i = all; i; i = i->ifa_next) {
		struct o2g_address a = {0};
		struct view v;
		int family = i->ifa_addr ? i->ifa_addr->sa_family : 0;

		if (family != AF_INET && family != AF_INET6)
			continue;
		memcpy(&a.storage, i->ifa_addr,
		       family == AF_INET ? sizeof(struct sockaddr_in)
					 : sizeof(struct sockaddr_in6));
		if (view_address(&a, &v))
			continue;
		if (rank_interface(wish, i, &v) > best) {
			best = rank_interface(wish, i, &v);
			*out = a;
		}
	}
	freeifaddrs(all);
	return best ? 0 : -EADDRNOTAVAIL;
}

int o2g_address_everywhere(const char *interface)
{
	struct wish wish;

	return !strcmp(interface, "*") ||
	       (!parse_wish(&wish, interface) && wish.length && !wish.bits &&
		!strchr(interface, '/'));
}

int o2g_address_choose(struct o2g_address *out, const char *interface)
{
	struct wish wish;
	int r;

	if (parse_wish(&wish, interface))
		return o2g_error_set(
			-EINVAL,
			"'%s' is not a network: want an interface, "
			"an address, or address/bits",
			interface);
	r = pick_address(out, &wish);
	if (r == -EADDRNOTAVAIL)
		return o2g_error_set(
			r,
			"this host has no address for '%s' that is up: name "
			"one in SKEP_O2G_IFACE (`ip -brief address` lists "
			"them)",
			interface && *interface ? interface : "any interface");
	return r;
}
