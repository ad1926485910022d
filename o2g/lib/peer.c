// SPDX-License-Identifier: MIT
/* The peers of an endpoint, by id and by number. The endpoint's `lock` guards
 * them. */
#include "endpoint.h"
#include "error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ids are random, and only authenticated ones are stored: any of their bytes
 * can serve as the hash. */
static struct o2g_peer **bucket_of_id(struct o2g *o2g, const struct o2g_id *id)
{
	u32 at = (id->byte[0] | (u32)id->byte[1] << 8) % O2G_PEER_TABLE;

	return &o2g->by_id[at];
}

static struct o2g_seat **bucket_of_location(struct o2g *o2g,
					    const struct o2g_location *location)
{
	u32 sum = location->port;

	for (unsigned i = 0; i < sizeof(location->address); i++)
		sum = sum * 31 + location->address[i];
	return &o2g->by_location[sum % O2G_PEER_TABLE];
}

static int same_location(const struct o2g_location *a,
			 const struct o2g_location *b)
{
	return !memcmp(a, b, sizeof(*a));
}

struct o2g_peer *o2g_peer_find(struct o2g *o2g, const struct o2g_id *id)
{
	struct o2g_peer *peer = *bucket_of_id(o2g, id);

	o2g_assert_locked(&o2g->lock);
	while (peer && memcmp(&peer->name.id, id, sizeof(*id)))
		peer = peer->chain;
	return peer;
}

/* The address of a lost peer may be used by another peer. */
static struct o2g_peer *find_location(struct o2g *o2g,
				      const struct o2g_location *location)
{
	struct o2g_seat *seat = *bucket_of_location(o2g, location);

	while (seat && (!same_location(&seat->location, location) ||
			seat->peer->state == O2G_PEER_LOST))
		seat = seat->next;
	return seat ? seat->peer : 0;
}

static void leave_seat(struct o2g *o2g, struct o2g_seat *seat)
{
	struct o2g_seat **at = bucket_of_location(o2g, &seat->location);

	while (*at != seat)
		at = &(*at)->next;
	*at = seat->next;
}

static void take_seat(struct o2g *o2g, struct o2g_peer *peer,
		      struct o2g_seat *seat,
		      const struct o2g_location *location)
{
	struct o2g_seat **at;

	if (seat->peer)
		leave_seat(o2g, seat);
	at = bucket_of_location(o2g, location);
	seat->location = *location;
	seat->peer = peer;
	seat->next = *at;
	*at = seat;
}

static void move_location(struct o2g *o2g, struct o2g_peer *peer,
			  const struct o2g_location *location)
{
	peer->name.location = *location;
	take_seat(o2g, peer, &peer->named_seat, location);
}

static void take_id(struct o2g *o2g, struct o2g_peer *peer,
		    const struct o2g_id *id)
{
	peer->name.id = *id;
	peer->chain = *bucket_of_id(o2g, id);
	*bucket_of_id(o2g, id) = peer;
}

static struct o2g_peer *make_peer(struct o2g *o2g, const struct o2g_name *name)
{
	struct o2g_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return 0;
	peer->number = O2G_NO_PEER;
	peer->next = o2g->everybody;
	o2g->everybody = peer;
	move_location(o2g, peer, &name->location);
	if (o2g_id_known(&name->id))
		take_id(o2g, peer, &name->id);
	return peer;
}

static int settle_id(struct o2g *o2g, struct o2g_peer *peer,
		     const struct o2g_id *id)
{
	if (o2g_id_known(&peer->name.id))
		return memcmp(&peer->name.id, id, sizeof(*id)) ? -EACCES : 0;
	if (o2g_peer_find(o2g, id))
		return -EEXIST;
	take_id(o2g, peer, id);
	return 0;
}

int o2g_peer_settle(struct o2g *o2g, struct o2g_peer *peer,
		    const struct o2g_id *id,
		    const struct o2g_location *location)
{
	int r = settle_id(o2g, peer, id);

	o2g_assert_locked(&o2g->lock);
	if (r == 0 && !same_location(&peer->name.location, location))
		take_seat(o2g, peer, &peer->own_seat, location);
	return r;
}

/* A peer with this name, or one that was only known by its location. */
static struct o2g_peer *find_name(struct o2g *o2g, const struct o2g_name *name)
{
	struct o2g_peer *peer = o2g_peer_find(o2g, &name->id);

	if (peer)
		return peer;
	peer = find_location(o2g, &name->location);
	return peer && settle_id(o2g, peer, &name->id) == 0 ? peer : 0;
}

struct o2g_peer *o2g_peer_proven(struct o2g *o2g, const struct o2g_id *id,
				 const struct o2g_location *location)
{
	const struct o2g_name name = {.location = *location, .id = *id};
	struct o2g_peer *peer = find_name(o2g, &name);

	o2g_assert_locked(&o2g->lock);
	if (!peer)
		return make_peer(o2g, &name);
	if (!same_location(&peer->name.location, location))
		take_seat(o2g, peer, &peer->own_seat, location);
	return peer;
}

void o2g_peer_set(struct o2g_peer *peer, enum o2g_peer_state state)
{
	__atomic_store_n(&peer->state, (u8)state, __ATOMIC_RELEASE);
}

void o2g_peer_lose(struct o2g *o2g, struct o2g_peer *peer, int error)
{
	o2g_assert_locked(&o2g->lock);
	if (peer->state == O2G_PEER_DIALED)
		o2g->unsent++;
	o2g_peer_set(peer, O2G_PEER_LOST);
	o2g->peers_lost++;
	if (peer->number != O2G_NO_PEER)
		o2g->ops->lost(o2g->engine, peer->number, error);
}

void o2g_peer_free_all(struct o2g *o2g)
{
	struct o2g_peer *peer;

	while ((peer = o2g->everybody)) {
		o2g->everybody = peer->next;
		free(peer);
	}
	free(o2g->by_number);
	o2g->by_number = 0;
}

/* Starts what a peer needs whose state is at most `most`: dials it, or expects
 * its connection. */
static void nudge_peer(struct o2g *o2g, u32 number, enum o2g_peer_state most,
		       void (*how)(struct o2g *o2g, struct o2g_peer *peer))
{
	struct o2g_peer *peer;

	if (number >= __atomic_load_n(&o2g->peers, __ATOMIC_ACQUIRE))
		return; /* the engine refuses the operation */
	peer = o2g->by_number[number];
	if (__atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) > most)
		return;
	pthread_mutex_lock(&o2g->lock);
	if (peer->state <= most)
		how(o2g, peer);
	pthread_mutex_unlock(&o2g->lock);
}

void o2g_peer_need(struct o2g *o2g, u32 number)
{
	nudge_peer(o2g, number, O2G_PEER_EXPECTED, o2g_opener_dial);
}

void o2g_peer_expect(struct o2g *o2g, u32 number)
{
	nudge_peer(o2g, number, O2G_PEER_IDLE, o2g_opener_expect);
}

u32 o2g_peer_known(struct o2g *o2g, u32 number)
{
	if (number == O2G_NO_PEER)
		return O2G_ANY;
	if (number < __atomic_load_n(&o2g->peers, __ATOMIC_ACQUIRE) &&
	    !__atomic_load_n(&o2g->by_number[number]->named, __ATOMIC_RELAXED))
		return O2G_ANY;
	return number;
}

/* Assigns a number when the peer connects, not when the program names it: if
 * the peer ends before that, the engine must know whose messages it has
 * buffered. An open link has no number if too many were assigned this way, or
 * without memory. */
int o2g_peer_number(struct o2g *o2g, struct o2g_peer *peer)
{
	int self = !memcmp(&peer->name.id, &o2g->identity.id,
			   sizeof(peer->name.id));
	u32 number = o2g->peers;
	int r;

	o2g_assert_locked(&o2g->lock);
	if (peer->number != O2G_NO_PEER)
		return 0;
	if (number >= O2G_PEERS_MAX)
		return o2g_error_set(-ENOSPC,
				     "an endpoint has at most %d peers",
				     O2G_PEERS_MAX);
	r = o2g->ops->peer(o2g->engine, number, self);
	if (r)
		return o2g_error_set(r, "can't add a peer: %s", strerror(-r));
	if (self)
		o2g_peer_set(peer, O2G_PEER_SELF);
	else if (peer->state == O2G_PEER_OPEN &&
		 o2g->ops->identify(o2g->engine, peer->link, number))
		o2g->ops->lost(o2g->engine, number, -ECONNRESET);
	else if (peer->state == O2G_PEER_LOST)
		o2g->ops->lost(o2g->engine, number, -ECONNRESET);
	peer->number = number;
	o2g->by_number[number] = peer;
	__atomic_store_n(&o2g->peers, number + 1, __ATOMIC_RELEASE);
	return 0;
}

/* Whether an address is this endpoint's own. */
static int own_location(const struct o2g *o2g, const struct o2g_name *name)
{
	const struct o2g_location *own = &o2g->name.location;
	struct o2g_address address;

	if (same_location(own, &name->location))
		return 1;
	return own->port == name->location.port &&
	       o2g_address_everywhere(o2g->settings.interface) &&
	       o2g_address_of_name(&address, name) == 0 &&
	       o2g_address_local(&address);
}

/* Finds the peer that the program means; an address identifies it like a
 * name. */
static struct o2g_peer *find_meant(struct o2g *o2g, const struct o2g_name *name)
{
	if (o2g_id_known(&name->id))
		return find_name(o2g, name);
	if (own_location(o2g, name))
		return o2g_peer_proven(o2g, &o2g->name.id, &o2g->name.location);
	return find_location(o2g, &name->location);
}

static int name_peer(struct o2g *o2g, const struct o2g_name *name, u32 *number)
{
	struct o2g_peer *peer = find_meant(o2g, name);
	int r;

	if (!peer)
		peer = make_peer(o2g, name);
	if (!peer)
		return o2g_error_set(-ENOMEM, "no memory for another peer");
	if (peer->named) {
		*number = peer->number;
		return 0;
	}
	if (o2g_id_known(&name->id))
		move_location(o2g, peer, &name->location);
	r = o2g_peer_number(o2g, peer);
	if (r)
		return r;
	*number = peer->number;
	o2g->named++;
	__atomic_store_n(&peer->named, 1, __ATOMIC_RELAXED);
	return 0;
}

int o2g_peer(struct o2g *o2g, const uint8_t bytes[O2G_NAME_SIZE],
	     uint32_t *number)
{
	struct o2g_address address;
	struct o2g_name name;
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	memcpy(&name, bytes, sizeof(name));
	if (o2g_address_of_name(&address, &name))
		return o2g_error_set(
			-EINVAL,
			"these %d bytes are not an endpoint's name: pass the "
			"bytes that o2g_name() returned",
			O2G_NAME_SIZE);
	pthread_mutex_lock(&o2g->lock);
	r = name_peer(o2g, &name, number);
	pthread_mutex_unlock(&o2g->lock);
	return r;
}

int o2g_register_socket(struct o2g *o2g, int socket, uint32_t number,
			int dialled)
{
	int r = o2g_endpoint_alive(o2g);

	if (r) {
		close(socket);
		return r;
	}
	pthread_mutex_lock(&o2g->lock);
	if (number >= o2g->peers ||
	    o2g->by_number[number]->state > O2G_PEER_EXPECTED)
		r = o2g_error_set(
			number >= o2g->peers ? -EHOSTUNREACH : -EISCONN,
			number >= o2g->peers
				? "there is no peer %u: add it with o2g_peer() "
				  "first"
				: "peer %u has a connection, or is being "
				  "dialled: register sockets before sending",
			number);
	else
		r = o2g_opener_adopt(o2g, socket, o2g->by_number[number],
				     dialled);
	pthread_mutex_unlock(&o2g->lock);
	if (r)
		close(socket);
	return r;
}
