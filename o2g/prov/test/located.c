/* SPDX-License-Identifier: MIT */
/* Nodes, services and socket addresses, as programs for tcp use them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

static int get_info(const char *node, const char *service, uint64_t flags,
		    struct fi_info *hints, struct fi_info **info)
{
	int result = fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints,
				info);

	fi_freeinfo(hints);
	return result;
}

static struct fi_info *format_hint(uint32_t format)
{
	struct fi_info *hints = hints_alloc();

	hints->addr_format = format;
	return hints;
}

static bool is_address(const void *address, size_t length, const char *host,
		       int port)
{
	const struct sockaddr_in *in = address;
	struct in_addr want;

	inet_pton(AF_INET, host, &want);
	return address && length == sizeof(*in) && in->sin_family == AF_INET &&
	       in->sin_port == htons((uint16_t)port) &&
	       in->sin_addr.s_addr == want.s_addr;
}

static void test_offered(void)
{
	struct fi_info *info = NULL;

	CHECK(!get_info("127.0.0.1", "7471", FI_SOURCE, hints_alloc(), &info));
	CHECK(info && info->addr_format == FI_SOCKADDR_IN && !info->dest_addr);
	CHECK(info &&
	      is_address(info->src_addr, info->src_addrlen, "127.0.0.1", 7471));
	fi_freeinfo(info);
	info = NULL;
	CHECK(!get_info(NULL, "7471", FI_SOURCE, hints_alloc(), &info));
	CHECK(info &&
	      is_address(info->src_addr, info->src_addrlen, "0.0.0.0", 7471));
	fi_freeinfo(info);
	info = NULL;
	/* Without a node the destination is this computer, not any address. */
	CHECK(!get_info(NULL, "7471", 0, hints_alloc(), &info));
	CHECK(info && is_address(info->dest_addr, info->dest_addrlen,
				 "127.0.0.1", 7471));
	fi_freeinfo(info);
	info = NULL;
	CHECK(!get_info("127.0.0.1", "7471", 0, hints_alloc(), &info));
	CHECK(info && info->addr_format == FI_SOCKADDR_IN);
	CHECK(info && is_address(info->dest_addr, info->dest_addrlen,
				 "127.0.0.1", 7471));
	CHECK(info &&
	      is_address(info->src_addr, info->src_addrlen, "127.0.0.1", 0));
	fi_freeinfo(info);
	info = NULL;
	CHECK(!get_info(NULL, NULL, 0, format_hint(FI_SOCKADDR), &info));
	CHECK(info && info->addr_format == FI_SOCKADDR_IN);
	fi_freeinfo(info);
	info = NULL;
	CHECK(!get_info(NULL, NULL, 0, hints_alloc(), &info));
	CHECK(info && info->addr_format == FI_FORMAT_UNSPEC &&
	      !info->src_addr && !info->dest_addr);
	fi_freeinfo(info);
}

/* What fi_getinfo() said is a hint that it takes. */
static void test_again(void)
{
	struct fi_info *info = NULL, *second = NULL;

	CHECK(!get_info("127.0.0.1", "7471", 0, hints_alloc(), &info));
	if (!info)
		return;
	CHECK(!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, info, &second));
	CHECK(second && is_address(second->dest_addr, second->dest_addrlen,
				   "127.0.0.1", 7471));
	fi_freeinfo(second);
	fi_freeinfo(info);
}

/* A name that fi_getname() gave may be the destination; a part of it not. */
static void test_name(void)
{
	struct fi_info *info = NULL, *hints = hints_alloc();
	uint8_t name[NAME_SIZE];
	struct pair p;

	pair_open(&p, NULL);
	end_name(&p.b, name);
	pair_close(&p);
	hints->dest_addr = malloc(NAME_SIZE);
	memcpy(hints->dest_addr, name, NAME_SIZE);
	hints->dest_addrlen = NAME_SIZE;
	CHECK(!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	CHECK(info && info->addr_format == FI_FORMAT_UNSPEC);
	CHECK(info && info->dest_addrlen == NAME_SIZE &&
	      !memcmp(info->dest_addr, name, NAME_SIZE));
	fi_freeinfo(info);
	info = NULL;
	hints->dest_addrlen = NAME_SIZE - 1;
	CHECK(get_info(NULL, NULL, 0, hints, &info) == -FI_ENODATA && !info);
}

/* This host and port 9 as the source or the destination. */
static struct fi_info *address_hint(bool source, const char *host)
{
	struct sockaddr_in *in = calloc(1, sizeof(*in));
	struct fi_info *hints = hints_alloc();

	in->sin_family = AF_INET;
	in->sin_port = htons(9);
	inet_pton(AF_INET, host, &in->sin_addr);
	if (source) {
		hints->src_addr = in;
		hints->src_addrlen = sizeof(*in);
	} else {
		hints->dest_addr = in;
		hints->dest_addrlen = sizeof(*in);
	}
	return hints;
}

/* What is an argument and a hint too is taken from the argument; the other of
 * source and destination from the hint, if it is of the same family. */
static void test_both(void)
{
	struct fi_info *info = NULL, *hints;

	CHECK(!get_info("127.0.0.1", "7471", 0,
			address_hint(false, "127.0.0.2"), &info));
	CHECK(info && is_address(info->dest_addr, info->dest_addrlen,
				 "127.0.0.1", 7471));
	fi_freeinfo(info);
	info = NULL;
	CHECK(!get_info("127.0.0.1", "7471", 0, address_hint(true, "127.0.0.2"),
			&info));
	CHECK(info &&
	      is_address(info->src_addr, info->src_addrlen, "127.0.0.2", 9));
	fi_freeinfo(info);
	info = NULL;
	CHECK(get_info("::1", "7471", 0, address_hint(true, "127.0.0.2"),
		       &info) == -FI_ENODATA);
	hints = address_hint(false, "127.0.0.2");
	hints->addr_format = FI_SOCKADDR_IN6;
	CHECK(get_info(NULL, NULL, 0, hints, &info) == -FI_ENODATA);
	CHECK(!get_info("localhost", "7471", 0, hints_alloc(), &info));
	fi_freeinfo(info);
	info = NULL;
	CHECK(get_info("localhost", "7471", FI_NUMERICHOST, hints_alloc(),
		       &info) == -FI_ENODATA);
	CHECK(!info);
}

static void test_refused(void)
{
	struct fi_info *info = NULL, *hints = format_hint(FI_SOCKADDR_IN6);
	struct sockaddr_in in = {.sin_family = AF_INET};

	CHECK(get_info("127.0.0.1", "7471", 0, hints, &info) == -FI_ENODATA);
	CHECK(get_info("no such host", "7471", FI_NUMERICHOST, hints_alloc(),
		       &info) == -FI_ENODATA);
	CHECK(get_info("::1", "7471", 0, format_hint(FI_SOCKADDR_IN), &info) ==
	      -FI_ENODATA);
	CHECK(get_info(NULL, NULL, 0, format_hint(FI_ADDR_STR), &info) ==
	      -FI_ENODATA);
	hints = format_hint(FI_SOCKADDR_IN);
	hints->dest_addr = calloc(1, sizeof(in));
	memcpy(hints->dest_addr, &in, sizeof(in));
	hints->dest_addrlen = 8;
	CHECK(get_info(NULL, NULL, 0, hints, &info) == -FI_ENODATA);
	hints = format_hint(FI_FORMAT_UNSPEC);
	hints->dest_addr = calloc(1, NAME_SIZE); /* no name of libo2g's */
	hints->dest_addrlen = NAME_SIZE;
	CHECK(get_info(NULL, NULL, 0, hints, &info) == -FI_ENODATA);
	CHECK(!info);
}

/* Reads the next completion of a half. */
static bool read_completion(struct pair *half, fi_addr_t *from)
{
	int64_t deadline = now_ms() + TIMEOUT_MS;
	struct fi_cq_tagged_entry entry;
	ssize_t n;

	do
		n = fi_cq_readfrom(half->a.cq, &entry, 1, from);
	while (n == -FI_EAGAIN && now_ms() < deadline);
	return n == 1;
}

/* The server's port as text, of the name that it gives itself. */
static void port_text(struct pair *server, char text[8])
{
	struct sockaddr_storage name;
	size_t length = sizeof(name);

	CHECK(!fi_getname(&server->a.ep->fid, &name, &length));
	CHECK(length == sizeof(struct sockaddr_in));
	snprintf(text, 8, "%u", ntohs(((struct sockaddr_in *)&name)->sin_port));
}

/* The client knows the server's address, and tells it its own in a message: as
 * fi_pingpong and fabtests do. */
static void exchange_names(struct pair *client, struct pair *server)
{
	uint8_t in[64] = {0}, own[64], back[64];
	size_t length = sizeof(own), found = sizeof(back);
	fi_addr_t there, here, from = 0;
	char byte = 0;

	CHECK(!fi_getname(&client->a.ep->fid, own, &length));
	CHECK(fi_av_insert(client->a.av, client->info->dest_addr, 1, &there, 0,
			   NULL) == 1);
	CHECK(!fi_recv(server->a.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in));
	CHECK(!fi_inject(client->a.ep, own, length, there));
	CHECK(read_completion(server, &from) && from == FI_ADDR_NOTAVAIL);
	CHECK(fi_av_insert(server->a.av, in, 1, &here, 0, NULL) == 1);
	CHECK(!fi_av_lookup(server->a.av, here, back, &found) &&
	      found == length && !memcmp(back, own, length));
	CHECK(!fi_recv(client->a.ep, &byte, 1, NULL, there, &byte));
	CHECK(!fi_inject(server->a.ep, "b", 1, here));
	CHECK(read_completion(client, &from) && from == there && byte == 'b');
	CHECK(!fi_recv(server->a.ep, &byte, 1, NULL, here, &byte));
	CHECK(!fi_inject(client->a.ep, "c", 1, there));
	CHECK(read_completion(server, &from) && from == here && byte == 'c');
}

static void test_meeting(const char *listens, const char *dials)
{
	struct pair server, client;
	char port[8];

	half_open(&server, listens, "0", FI_SOURCE);
	port_text(&server, port);
	half_open(&client, dials, port, 0);
	exchange_names(&client, &server);
	pair_close(&client);
	pair_close(&server);
}

static void name_of(struct pair *half, struct sockaddr_in6 *name)
{
	size_t length = sizeof(*name);

	memset(name, 0, length);
	CHECK(!fi_getname(&half->a.ep->fid, name, &length));
	CHECK(length == (name->sin6_family == AF_INET6
				 ? sizeof(*name)
				 : sizeof(struct sockaddr_in)));
}

/* An endpoint for any address of this computer names one that others reach: by
 * itself, or the one of the user's setting. */
static void test_anywhere(void)
{
	struct fi_info *info = NULL;
	struct sockaddr_in6 name = {0};
	struct pair server;

	CHECK(!setenv("FI_O2G_IFACE", "127.0.0.1", 1));
	half_open(&server, NULL, "0", FI_SOURCE);
	name_of(&server, &name);
	CHECK(is_address(&name, sizeof(struct sockaddr_in), "127.0.0.1",
			 ntohs(name.sin6_port)));
	pair_close(&server);
	CHECK(!unsetenv("FI_O2G_IFACE"));

	if (get_info("::", "0", FI_SOURCE, hints_alloc(), &info)) {
		printf("# no IPv6 here\n");
		return;
	}
	fi_freeinfo(info);
	half_open(&server, "::", "0", FI_SOURCE);
	name_of(&server, &name);
	CHECK(name.sin6_family == AF_INET6 && name.sin6_port);
	CHECK(!IN6_IS_ADDR_UNSPECIFIED(&name.sin6_addr));
	pair_close(&server);
	CHECK(!setenv("FI_O2G_IFACE", "::1", 1));
	half_open(&server, "::", "0", FI_SOURCE);
	name_of(&server, &name);
	CHECK(IN6_IS_ADDR_LOOPBACK(&name.sin6_addr));
	pair_close(&server);
	CHECK(!unsetenv("FI_O2G_IFACE"));
}

/* By a service of its own, which a second one does not get. */
static void test_taken(void)
{
	struct pair server;
	struct fid_ep *ep;
	struct fi_info *info = NULL;
	char port[8];

	half_open(&server, "127.0.0.1", "0", FI_SOURCE);
	port_text(&server, port);
	CHECK(!get_info("127.0.0.1", port, FI_SOURCE, hints_alloc(), &info));
	CHECK(info &&
	      fi_endpoint(server.domain, info, &ep, NULL) == -FI_EADDRINUSE);
	fi_freeinfo(info);
	pair_close(&server);
}

static void test_services(void)
{
	struct pair server, client;
	char port[8], text[64], want[64];
	size_t length = sizeof(text);
	fi_addr_t there;
	char byte = 0;

	half_open(&server, "127.0.0.1", "0", FI_SOURCE);
	port_text(&server, port);
	half_open(&client, NULL, NULL, 0); /* of libo2g's names */
	CHECK(fi_av_insertsvc(client.a.av, "127.0.0.1", port, &there, 0,
			      NULL) == 1);
	CHECK(fi_av_insertsvc(client.a.av, NULL, port, &there, 0, NULL) ==
	      -FI_EINVAL);
	CHECK(!fi_recv(server.a.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, &byte));
	CHECK(!fi_inject(client.a.ep, "s", 1, there));
	CHECK(read_completion(&server, NULL) && byte == 's');
	CHECK(fi_av_straddr(server.a.av, server.info->src_addr, text,
			    &length) == text);
	snprintf(want, sizeof(want), "fi_sockaddr_in://127.0.0.1:0");
	CHECK(!strcmp(text, want) && length == strlen(want) + 1);
	CHECK(fi_av_insertsvc(server.a.av, "127.0.0.1", port, &there, 0,
			      NULL) == 1);
	pair_close(&client);
	pair_close(&server);
}

/* As text, with the port of the one that was asked for. */
static void test_text(const char *host, const char *want)
{
	struct fi_info *info = NULL;
	struct pair half;
	char text[64];
	size_t length = sizeof(text);

	if (get_info(host, "9228", FI_SOURCE, hints_alloc(), &info)) {
		printf("# no %s here\n", host);
		return;
	}
	half_open(&half, host, "0", FI_SOURCE);
	CHECK(fi_av_straddr(half.a.av, info->src_addr, text, &length) == text);
	CHECK(!strcmp(text, want) && length == strlen(want) + 1);
	pair_close(&half);
	fi_freeinfo(info);
}

static void not_addresses(void)
{
	struct sockaddr_in in[2] = {{.sin_family = AF_INET6}};
	int errors[2] = {0};
	fi_addr_t address[2];
	struct pair half;

	half_open(&half, "127.0.0.1", "0", FI_SOURCE);
	in[1].sin_family = AF_INET; /* and no port */
	CHECK(fi_av_insert(half.a.av, in, 2, address, FI_SYNC_ERR, errors) ==
	      0);
	CHECK(errors[0] == FI_EINVAL && errors[1] == FI_EINVAL);
	CHECK(address[0] == FI_ADDR_NOTAVAIL && address[1] == FI_ADDR_NOTAVAIL);
	pair_close(&half);
}

void test_located(void)
{
	test_offered();
	test_again();
	test_name();
	test_refused();
	test_both();
	test_meeting("127.0.0.1", "127.0.0.1");
	test_meeting(NULL, "127.0.0.1");
	test_anywhere();
	test_taken();
	test_services();
	test_text("127.0.0.1", "fi_sockaddr_in://127.0.0.1:9228");
	test_text("::1", "fi_sockaddr_in6://[::1]:9228");
	not_addresses();
}
