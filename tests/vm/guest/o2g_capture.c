// SPDX-License-Identifier: MIT
/*
 * Counts O2G's frames on the wire while a command runs: captures an interface
 * from before its start, puts the TCP streams together after its end, and
 * reads them from their openings on. Needs root.
 *
 *   o2g_capture INTERFACE BYTES REQUESTS COMMAND...
 *
 * A message of BYTES must have passed, and in all streams together as many
 * REQUEST frames as said, with a GRANT for each.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netpacket/packet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/if_ether.h>

#include <skep/o2g_wire.h>
#include "tests/tap.h"

#define BUFFER (256 << 20) /* of the capturing socket */
#define PACKETS 200000
#define FLOWS 64

struct packet {
	uint32_t from, to; /* addresses and ports, as on the wire */
	uint16_t source, destination;
	uint32_t sequence, length;
	bool syn, ack;
	uint8_t *text;
};

static struct packet packets[PACKETS];
static int count;

/* One direction of a connection. */
struct flow {
	struct packet first;
	bool connector;
	uint8_t *text;
	size_t length;
};

static uint64_t frames[O2G_FRAME_TYPES], wanted;
static int found;

static void exit_failed(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- capturing ---- */

/* Both ways: what leaves is shown to those alone who want all protocols. */
static int listen_on(const char *interface)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = (int)if_nametoindex(interface)};
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = BUFFER;

	if (fd < 0 || !at.sll_ifindex ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    bind(fd, (void *)&at, sizeof(at)))
		exit_failed(interface);
	return fd;
}

static void keep_packet(const uint8_t *bytes, size_t length)
{
	const struct iphdr *ip = (const void *)bytes;
	struct packet *p = &packets[count];
	const struct tcphdr *tcp;
	size_t head;

	if (length < sizeof(*ip) || ip->version != 4 ||
	    ip->protocol != IPPROTO_TCP)
		return;
	head = ip->ihl * 4u;
	tcp = (const void *)(bytes + head);
	if (length < head + sizeof(*tcp))
		return;
	if (length > ntohs(ip->tot_len) && ip->tot_len)
		length = ntohs(ip->tot_len); /* without padding */
	head += tcp->doff * 4u;
	if (head > length || count == PACKETS)
		return;
	*p = (struct packet){.from = ip->saddr,
			     .to = ip->daddr,
			     .source = tcp->source,
			     .destination = tcp->dest,
			     .sequence = ntohl(tcp->seq),
			     .length = (uint32_t)(length - head),
			     .syn = tcp->syn,
			     .ack = tcp->ack,
			     .text = malloc(length - head + 1)};
	if (!p->text)
		exit_failed("malloc");
	memcpy(p->text, bytes + head, p->length);
	count++;
}

/* All that was captured; false: something was lost. */
static bool drain_capture(int fd)
{
	static uint8_t bytes[1 << 17];
	unsigned stats[2] = {0}; /* packets and those that were lost */
	socklen_t length = sizeof(stats);
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		keep_packet(bytes, (size_t)n);
	if (getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, stats, &length))
		exit_failed("PACKET_STATISTICS");
	printf("# %d segments, %u packets lost\n", count, stats[1]);
	return stats[1] == 0 && count < PACKETS;
}

/* ---- streams ---- */

static bool same_flow(const struct packet *a, const struct packet *b)
{
	return a->from == b->from && a->to == b->to && a->source == b->source &&
	       a->destination == b->destination;
}

/* Whatever was sent twice or out of order stands there once, in order. */
static void assemble_flow(struct flow *flow)
{
	uint32_t next = flow->first.sequence + 1;
	bool more = true;
	size_t total = 0;

	for (int i = 0; i < count; i++)
		total += same_flow(&packets[i], &flow->first)
				 ? packets[i].length
				 : 0;
	flow->text = malloc(total + 1);
	if (!flow->text)
		exit_failed("malloc");
	while (more) {
		more = false;
		for (int i = 0; i < count; i++) {
			struct packet *p = &packets[i];
			uint32_t old = next - p->sequence;

			if (!same_flow(p, &flow->first) || p->syn ||
			    (int32_t)old < 0 || old >= p->length)
				continue;
			memcpy(flow->text + flow->length, p->text + old,
			       p->length - old);
			flow->length += p->length - old;
			next = p->sequence + p->length;
			more = true;
		}
	}
}

/* The bytes before the first frame; 0: this is no stream of O2G's. */
static size_t opening_length(const struct flow *flow)
{
	size_t length = flow->connector ? sizeof(struct o2g_hello) +
						  sizeof(struct o2g_proof)
					: sizeof(struct o2g_challenge) +
						  sizeof(struct o2g_welcome);
	uint32_t magic;

	if (flow->length < length)
		return 0;
	memcpy(&magic, flow->text, sizeof(magic));
	return magic == O2G_WIRE_MAGIC ? length : 0;
}

/* True when the stream is frames to its end. */
static bool read_frames(const struct flow *flow, size_t at)
{
	struct o2g_frame frame;

	while (at + sizeof(frame) <= flow->length) {
		memcpy(&frame, flow->text + at, sizeof(frame));
		if (!frame.type || frame.type >= O2G_FRAME_TYPES ||
		    frame.body > O2G_BODY_MAX)
			return false;
		frames[frame.type]++;
		if ((frame.type == O2G_MESSAGE || frame.type == O2G_REQUEST) &&
		    frame.length == wanted)
			found++;
		at += sizeof(frame) + frame.body;
	}
	return at == flow->length;
}

static void read_streams(void)
{
	static struct flow flows[FLOWS];
	int streams = 0, complete = 0, n = 0;

	for (int i = 0; i < count && n < FLOWS; i++) {
		struct flow *flow = &flows[n];
		size_t at;

		if (!packets[i].syn)
			continue;
		n++;
		flow->first = packets[i];
		flow->connector = !packets[i].ack;
		assemble_flow(flow);
		at = opening_length(flow);
		if (!at)
			continue;
		streams++;
		complete += read_frames(flow, at);
	}
	tap_ok(streams >= 2 && complete == streams,
	       "%d streams are frames from opening to end", streams);
}

int main(int argc, char **argv)
{
	int fd, status;
	uint64_t asked;
	pid_t child;

	if (argc < 5)
		return 2;
	wanted = strtoull(argv[2], 0, 10);
	asked = strtoull(argv[3], 0, 10);
	fd = listen_on(argv[1]);
	child = fork();
	if (child == 0) {
		execvp(argv[4], argv + 4);
		_exit(127);
	}
	waitpid(child, &status, 0);
	tap_ok(status == 0, "%s bytes: the job ends well", argv[2]);
	tap_ok(drain_capture(fd), "%s bytes: the capture lost no packet",
	       argv[2]);
	read_streams();
	tap_ok(found == 1, "%s bytes: the message passed", argv[2]);
	tap_ok(frames[O2G_REQUEST] == asked && frames[O2G_GRANT] == asked,
	       "%s bytes: %s round trips", argv[2], argv[3]);
	printf("# messages %llu, pieces %llu, requests %llu, grants %llu, "
	       "credits %llu\n",
	       (unsigned long long)frames[O2G_MESSAGE],
	       (unsigned long long)frames[O2G_PIECE],
	       (unsigned long long)frames[O2G_REQUEST],
	       (unsigned long long)frames[O2G_GRANT],
	       (unsigned long long)frames[O2G_CREDIT]);
	return tap_done();
}
