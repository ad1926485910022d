// SPDX-License-Identifier: MIT
/*
 * Peers that a program knows by a socket address alone, as programs for
 * libfabric's tcp provider know theirs.
 */
#include "bed.h"
#include <tests/tap.h>

#include <arpa/inet.h>
#include <netinet/in.h>

static struct o2g *open_at(const char *interface, const char *ports)
{
	struct o2g_options options = bed_options();
	struct o2g *o2g;

	options.interface = interface;
	options.ports = ports;
	options.connect_ms = BED_WAIT;
	if (o2g_open(&o2g, &options))
		bed_die("o2g_open");
	return o2g;
}

static in_port_t port_of(struct o2g *o2g)
{
	struct sockaddr_storage address;
	uint8_t name[O2G_NAME_SIZE];
	size_t length;

	if (o2g_name(o2g, name) || o2g_name_address(name, &address, &length))
		bed_die("o2g_name_address");
	return ((struct sockaddr_in *)&address)->sin_port;
}

/* The number that `at` gives to whoever listens where `to` does. */
static uint32_t located_at(struct o2g *at, struct o2g *to, const char *host)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = port_of(to)};
	uint8_t name[O2G_NAME_SIZE];
	uint32_t peer = O2G_ANY;

	inet_pton(AF_INET, host, &in.sin_addr);
	if (o2g_name_make(name, (struct sockaddr *)&in, sizeof(in)) ||
	    o2g_peer(at, name, &peer))
		bed_die("o2g_peer");
	return peer;
}

/* The same by the address in its name. */
static uint32_t own_address(struct o2g *at, struct o2g *to)
{
	struct sockaddr_storage address;
	uint8_t name[O2G_NAME_SIZE];
	uint32_t peer = O2G_ANY;
	size_t length;

	if (o2g_name(to, name) || o2g_name_address(name, &address, &length) ||
	    o2g_name_make(name, (struct sockaddr *)&address, length) ||
	    o2g_peer(at, name, &peer))
		bed_die("o2g_peer");
	return peer;
}

static uint32_t locate_peer(struct o2g *at, struct o2g *to)
{
	return located_at(at, to, "127.0.0.1");
}

static void close_all(struct o2g *a, struct o2g *b)
{
	o2g_close(a, BED_WAIT);
	o2g_close(b, BED_WAIT);
}

/* One message, and who its receiver says sent it. */
static uint32_t sender_of(struct o2g *from, uint32_t to, struct o2g *at)
{
	static char out = 'x', in;
	struct o2g_event event;

	in = 0;
	bed_recv(at, O2G_ANY, 7, &in, 1);
	bed_send(from, to, 7, &out, 1);
	if (bed_event(from).status)
		bed_die("send");
	event = bed_event(at);
	if (event.status || in != 'x')
		bed_die("receive");
	return event.peer;
}

/* A client knows the server's address, the server learns the client's from its
 * first message. */
static void client_and_server(void)
{
	struct o2g *client = bed_open(), *server = bed_open();
	uint32_t there = locate_peer(client, server), back;
	char in = 0, out = 'y';

	tap_ok(sender_of(client, there, server) == O2G_ANY,
	       "a message goes to whoever listens at an address");
	bed_send(client, there, 8, &out, 1);
	TAP(bed_event(client).status == 0);
	back = locate_peer(server, client);
	bed_recv(server, back, 8, &in, 1);
	TAP(bed_event(server).peer == back);
	tap_ok(in == 'y', "who connected is known by where it listens");
	tap_ok(sender_of(server, back, client) == there,
	       "and its answer comes from the address that was dialled");
	tap_ok(bed_peer(client, server) == there &&
		       bed_peer(server, client) == back,
	       "the name and the address are one peer");
	close_all(client, server);
}

/* The addresses were passed on before anybody connected. */
static void known_before(void)
{
	struct o2g *a = bed_open(), *b = bed_open();
	uint32_t at_a = locate_peer(a, b), at_b = locate_peer(b, a);

	TAP(locate_peer(a, b) == at_a);
	tap_ok(sender_of(a, at_a, b) == at_b,
	       "who was known by address before it connected is recognized");
	close_all(a, b);
	a = bed_open();
	b = bed_open();
	at_a = locate_peer(a, b);
	tap_ok(bed_peer(a, b) == at_a,
	       "the name of who was known by address is the same peer");
	TAP(sender_of(a, at_a, b) == O2G_ANY);
	close_all(a, b);
	a = bed_open();
	b = bed_open();
	at_a = bed_peer(a, b);
	tap_ok(locate_peer(a, b) == at_a,
	       "the address of who was known by name is the same peer");
	close_all(a, b);
}

/* Both dial at once, by address. */
static void test_crossing(void)
{
	int right = 0;

	for (int i = 0; i < 20; i++) {
		struct o2g *a = bed_open(), *b = bed_open();
		uint32_t to_b = locate_peer(a, b), to_a = locate_peer(b, a);
		char out = 'z', in[2] = {0};

		bed_recv(a, to_b, 1, &in[0], 1);
		bed_recv(b, to_a, 1, &in[1], 1);
		bed_send(a, to_b, 1, &out, 1);
		bed_send(b, to_a, 1, &out, 1);
		for (int n = 0; n < 2; n++)
			right += !bed_event(a).status + !bed_event(b).status;
		right += in[0] == 'z' && in[1] == 'z';
		close_all(a, b);
	}
	tap_ok(right == 20 * 5, "two that dial each other by address meet: %d",
	       right);
}

static void test_itself(void)
{
	struct o2g *a = bed_open(), *all = open_at("*", NULL);

	tap_ok(sender_of(a, locate_peer(a, a), a) == locate_peer(a, a) &&
		       locate_peer(a, a) == bed_peer(a, a),
	       "an endpoint's own address is itself");
	tap_ok(located_at(all, all, "127.0.0.7") == bed_peer(all, all),
	       "so is every address of one that listens on all");
	close_all(a, all);
	a = bed_open();
	all = open_at("0.0.0.0", NULL);
	tap_ok(located_at(all, all, "127.0.0.7") == bed_peer(all, all),
	       "and of one that listens on all of a family");
	TAP(sender_of(a, located_at(a, all, "127.0.0.9"), all) == O2G_ANY);
	close_all(a, all);
}

/* Whether somebody listens at this address with the endpoint's port. */
static int answers_at(struct o2g *o2g, const char *host)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = port_of(o2g)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

	inet_pton(AF_INET, host, &in.sin_addr);
	error = connect(fd, (struct sockaddr *)&in, sizeof(in));
	close(fd);
	return !error;
}

/* Only those that ask for it are reached at other addresses. */
static void test_elsewhere(void)
{
	static const struct {
		const char *interface;
		int everywhere;
	} at[] = {{"lo", 0},	    {"127.0.0.1", 0}, {"127.0.0.0/8", 0},
		  {"0.0.0.0/0", 0}, {"0.0.0.0", 1},   {"*", 1}};
	int right = 0, n = sizeof(at) / sizeof(at[0]);

	for (int i = 0; i < n; i++) {
		struct o2g *o2g = open_at(at[i].interface, NULL);

		right += answers_at(o2g, "127.0.0.9") == at[i].everywhere;
		o2g_close(o2g, 0);
	}
	tap_ok(right == n, "an endpoint listens where it was told to: %d of %d",
	       right, n);
}

/* An endpoint that listens on every address has one name. */
static void test_everywhere(void)
{
	struct o2g *a = bed_open(), *all = open_at("*", NULL);
	uint32_t there = located_at(a, all, "127.0.0.9"), other;
	struct o2g_match to;

	TAP(sender_of(a, there, all) == O2G_ANY);
	tap_ok(bed_peer(a, all) == there,
	       "an address that is not the name's leads to the same peer");
	o2g_close(a, BED_WAIT);
	a = bed_open();
	there = located_at(a, all, "127.0.0.9");
	TAP(sender_of(a, there, all) == O2G_ANY);
	tap_ok(own_address(a, all) == there,
	       "so does the address that the endpoint says is its own");
	other = located_at(a, all, "127.0.0.10");
	to = bed_match(other, 1);
	TAP(other != there && o2g_send(a, &to, "x", 1, 0, 0, NULL) == 0);
	tap_ok(bed_event(a).status == -EEXIST,
	       "a second address of one peer is refused by name");
	tap_ok(sender_of(a, there, all) == O2G_ANY,
	       "and the first one works as before");
	close_all(a, all);
}

/* A server that is started again at the same port is another endpoint. */
static void test_again(void)
{
	struct o2g *a = bed_open(), *b = bed_open();
	uint32_t first = locate_peer(a, b);
	uint8_t name[O2G_NAME_SIZE];
	char ports[16];
	char out = 'x';

	snprintf(ports, sizeof(ports), "%u", ntohs(port_of(b)));
	o2g_name(b, name);
	o2g_close(b, BED_WAIT);
	bed_send(a, first, 1, &out, 1);
	TAP(bed_event(a).status == -ECONNREFUSED);
	b = open_at("lo", ports);
	tap_ok(locate_peer(a, b) != first &&
		       sender_of(a, locate_peer(a, b), b) == O2G_ANY,
	       "a lost peer's place may be taken by another");
	close_all(a, b);
}

static int name_status(int family, unsigned port, size_t length)
{
	struct sockaddr_in in = {.sin_family = (sa_family_t)family,
				 .sin_port = htons((uint16_t)port)};
	uint8_t name[O2G_NAME_SIZE];

	return o2g_name_make(name, (struct sockaddr *)&in, length);
}

static void test_refused(void)
{
	struct sockaddr_storage address;
	uint8_t name[O2G_NAME_SIZE] = {0};
	size_t length;

	TAP(name_status(AF_INET, 1, sizeof(struct sockaddr_in)) == 0);
	TAP(name_status(AF_INET, 0, sizeof(struct sockaddr_in)) == -EINVAL);
	TAP(name_status(AF_INET, 1, 8) == -EINVAL);
	TAP(name_status(AF_INET6, 1, sizeof(struct sockaddr_in)) == -EINVAL);
	TAP(name_status(AF_UNIX, 1, sizeof(struct sockaddr_in)) ==
	    -EAFNOSUPPORT);
	TAP(name_status(AF_INET, 1, 1) == -EAFNOSUPPORT);
	TAP(o2g_name_address(name, &address, &length) == -EINVAL);
}

int main(void)
{
	client_and_server();
	known_before();
	test_crossing();
	test_itself();
	test_everywhere();
	test_elsewhere();
	test_again();
	test_refused();
	return tap_done();
}
