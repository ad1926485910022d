// SPDX-License-Identifier: GPL-2.0-only
/*
 * Links: sockets that an engine reads and writes, from attaching to their end.
 * See internal.h for locking.
 *
 * Three things end a link: its stream (rx.c, tx.c), the program (close), or an
 * attach that failed. The conn ends first, as soon as nobody uses it without
 * the lock. Then close or reap_work detaches the link: first the socket's
 * callbacks, then the work, then the file.
 *
 * Context: attaching and detaching in process context, with `control`. What
 * needs the engine's lock may be called wherever that is held, also in a
 * softirq with the socket not owned (state_changed()).
 */
#include <linux/file.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>
#include <net/tcp.h>

#include "internal.h"

#define LOOK_TIME (5 * HZ) /* between two checks for progress */
/* Checks without progress before a peer counts as dead. */
#define SILENT_MAX 6

#define SOCKET_BYTES 4096 /* kernel memory that is charged for a socket */

static void free_link(struct kref *ref)
{
	struct o2g_link *link = container_of(ref, struct o2g_link, ref);

	o2g_sealed_free(link->sealed);
	o2g_memory_uncharge(link->engine, link->charged);
	atomic64_dec(&o2g_totals.links);
	o2g_engine_put(link->engine);
	kfree_rcu(link, rcu);
}

void o2g_link_put(struct o2g_link *link)
{
	kref_put(&link->ref, free_link);
}

void o2g_link_want(void *ctx, struct o2g_conn *conn)
{
	struct o2g_link *link = o2g_conn_host(conn);
	struct o2g_engine *engine = ctx;

	lockdep_assert_held(&engine->lock);
	if (link->over)
		return;
	if (link->tx_busy)
		link->tx_again = true;
	else if (list_empty(&link->tx_here))
		list_add_tail(&link->tx_here, &engine->tx);
}

/* ---- the end of a conn ---- */

static void end_conn(struct o2g_link *link)
{
	struct o2g_engine *engine = link->engine;

	lockdep_assert_held(&engine->lock);
	/* After the peer's BYE it does not matter how the stream ended. */
	if (o2g_conn_bye_received(link->conn) && link->error != -EPROTO)
		link->error = 0;
	o2g_conn_end(link->conn, link->error);
	link->conn = NULL;
	wake_up_all(&engine->wait);
	if (!engine->closed)
		queue_work(engine->workers, &engine->reap_work);
}

void o2g_link_end(struct o2g_link *link, int error)
{
	lockdep_assert_held(&link->engine->lock);
	if (link->over)
		return;
	link->over = true;
	link->error = error;
	if (!link->tx_busy)
		list_del_init(&link->tx_here);
	list_del_init(&link->blocked_here);
	if (!link->users)
		end_conn(link);
}

void o2g_link_use(struct o2g_link *link)
{
	lockdep_assert_held(&link->engine->lock);
	link->users++;
}

void o2g_link_unuse(struct o2g_link *link)
{
	lockdep_assert_held(&link->engine->lock);
	if (!--link->users && link->over && link->conn)
		end_conn(link);
}

void o2g_link_bye(struct o2g_link *link)
{
	lockdep_assert_held(&link->engine->lock);
	if (!link->over)
		o2g_conn_bye(link->conn);
}

bool o2g_link_finished(const struct o2g_link *link)
{
	lockdep_assert_held(&link->engine->lock);
	/* In these states the peer has acknowledged our FIN, or never will. */
	return link->over ||
	       (link->shut &&
		(1 << READ_ONCE(link->sk->sk_state)) &
			(TCPF_FIN_WAIT2 | TCPF_TIME_WAIT | TCPF_CLOSE));
}

/* ---- dead peers ---- */

/* Whether nothing was acknowledged since the last check. TCP_USER_TIMEOUT would
 * also end connections to a program that does not read although its kernel
 * answers. An idle stream relies on TCP's keepalive, if the program enabled
 * it. */
static bool peer_silent(const struct sock *sk)
{
	return (READ_ONCE(tcp_sk(sk)->packets_out) ||
		READ_ONCE(inet_csk(sk)->icsk_probes_out)) &&
	       tcp_jiffies32 - READ_ONCE(tcp_sk(sk)->rcv_tstamp) >= LOOK_TIME;
}

static bool under_way(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->write_seq) !=
	       READ_ONCE(tcp_sk(sk)->snd_una);
}

static void liveness_work(struct work_struct *work)
{
	struct o2g_link *link =
		container_of(work, struct o2g_link, look_work.work);

	o2g_engine_lock(link->engine);
	link->silent = peer_silent(link->sk) ? link->silent + 1 : 0;
	if (link->silent >= SILENT_MAX)
		o2g_link_end(link, -ETIMEDOUT);
	else if (under_way(link->sk))
		o2g_link_watch(link);
	o2g_engine_unlock(link->engine, NULL);
}

void o2g_link_watch(struct o2g_link *link)
{
	lockdep_assert_held(&link->engine->lock);
	if (!link->over && !delayed_work_pending(&link->look_work))
		queue_delayed_work(link->engine->workers, &link->look_work,
				   LOOK_TIME);
}

/* ---- hooks ---- */

/* Called for FIN, RST, a timeout, and the acknowledgement of our FIN. Data
 * received before is valid, so a worker reads to the end. */
static void state_changed(struct sock *sk)
{
	struct o2g_link *link;

	rcu_read_lock();
	link = o2g_ulp_link(sk);
	if (link) {
		link->state_change(sk);
		spin_lock_bh(&link->engine->lock);
		o2g_rx_later(link, 0);
		spin_unlock_bh(&link->engine->lock);
		wake_up_all(&link->engine->wait);
	}
	rcu_read_unlock();
}

static void hook_socket(struct o2g_link *link)
{
	struct sock *sk = link->sk;

	write_lock_bh(&sk->sk_callback_lock);
	link->data_ready = sk->sk_data_ready;
	link->write_space = sk->sk_write_space;
	link->state_change = sk->sk_state_change;
	o2g_ulp_set(sk, link);
	WRITE_ONCE(sk->sk_data_ready, o2g_rx_ready);
	WRITE_ONCE(sk->sk_write_space, o2g_tx_space);
	WRITE_ONCE(sk->sk_state_change, state_changed);
	write_unlock_bh(&sk->sk_callback_lock);
}

static void unhook_socket(struct o2g_link *link)
{
	struct sock *sk = link->sk;

	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	WRITE_ONCE(sk->sk_data_ready, link->data_ready);
	WRITE_ONCE(sk->sk_write_space, link->write_space);
	WRITE_ONCE(sk->sk_state_change, link->state_change);
	o2g_ulp_set(sk, NULL);
	write_unlock_bh(&sk->sk_callback_lock);
	/* Closing this file may run the release of other files. */
	sock_reset_flag(sk, SOCK_LINGER);
	release_sock(sk);
}

/* ---- attaching ---- */

static int open_socket(struct o2g_link *link, int fd)
{
	link->file = fget(fd);
	if (!link->file)
		return -EBADF;
	link->socket = sock_from_file(link->file);
	link->sk = link->socket ? link->socket->sk : NULL;
	if (link->sk)
		return 0;
	fput(link->file);
	return link->socket ? -EINVAL : -ENOTSOCK;
}

/* The link's memory, with what an encrypted one needs, and its socket. */
static struct o2g_link *allocate_link(const struct o2g_device_attach *a,
				      int *error)
{
	struct o2g_link *link = kzalloc(sizeof(*link), GFP_KERNEL_ACCOUNT);

	*error = -ENOMEM;
	if (!link)
		return NULL;
	if (a->encrypted)
		link->sealed = o2g_sealed_make(a->key_out, a->key_in);
	if (!a->encrypted || link->sealed)
		*error = open_socket(link, a->socket);
	if (!*error)
		return link;
	o2g_sealed_free(link->sealed);
	kfree(link);
	return NULL;
}

static struct o2g_link *create_link(struct o2g_engine *engine,
				    const struct o2g_device_attach *a,
				    int *error)
{
	const u64 bytes = sizeof(struct o2g_link) + SOCKET_BYTES +
			  (a->encrypted ? o2g_sealed_size() : 0);
	struct o2g_link *link;

	*error = o2g_memory_charge(engine, bytes);
	if (*error)
		return NULL;
	link = allocate_link(a, error);
	if (!link) {
		o2g_memory_uncharge(engine, bytes);
		return NULL;
	}
	link->charged = bytes;
	kref_init(&link->ref);
	link->engine = engine;
	o2g_engine_get(engine);
	atomic64_inc(&o2g_totals.links);
	INIT_LIST_HEAD(&link->here);
	INIT_LIST_HEAD(&link->tx_here);
	INIT_LIST_HEAD(&link->blocked_here);
	INIT_DELAYED_WORK(&link->rx_work, o2g_rx_work);
	INIT_DELAYED_WORK(&link->tx_work, o2g_tx_work);
	INIT_DELAYED_WORK(&link->look_work, liveness_work);
	return link;
}

static int try_join(struct o2g_link *link, struct o2g_device_attach *a)
{
	struct o2g_engine *engine = link->engine;
	int r;

	o2g_engine_lock(engine);
	r = o2g_conn_attach(engine->core, a->peer, a->credit_out, a->credit_in,
			    link, &link->conn);
	if (!r) {
		link->number = ++engine->link_number;
		engine->link_count++;
		list_add_tail(&link->here, &engine->links);
		a->link = link->number;
	}
	o2g_engine_unlock(engine, NULL);
	return r;
}

static int join_core(struct o2g_link *link, struct o2g_device_attach *a)
{
	u32 tries = 0;
	int r;

	do
		r = try_join(link, a);
	while (r == -ENOMEM && o2g_memory_again(link->engine, &tries));
	return r;
}

static bool has_stray_key(const struct o2g_device_attach *a)
{
	return !a->encrypted &&
	       (memchr_inv(a->key_out, 0, sizeof(a->key_out)) ||
		memchr_inv(a->key_in, 0, sizeof(a->key_in)));
}

int o2g_link_attach(struct o2g_engine *engine, struct o2g_device_attach *a)
{
	struct o2g_link *link;
	int r;

	lockdep_assert_held(&engine->control);
	if (a->encrypted > 1 || has_stray_key(a))
		return -EINVAL;
	if (engine->link_count >= engine->link_max)
		return -ENOSPC;
	link = create_link(engine, a, &r);
	if (!link)
		return r;
	lock_sock(link->sk);
	r = o2g_ulp_check(link->sk);
	if (!r) {
		link->ops = o2g_ulp_base(link->sk);
		r = join_core(link, a);
	}
	if (!r) {
		hook_socket(link);
		o2g_rx_ready(link->sk); /* reads what arrived before */
	}
	release_sock(link->sk);
	if (!r)
		return 0;
	fput(link->file);
	o2g_link_put(link);
	return r;
}

int o2g_link_identify(struct o2g_engine *engine, u32 number, u32 peer)
{
	struct o2g_link *link, *found = NULL;
	int r = -ENOTCONN; /* it has ended in the meantime */

	lockdep_assert_held(&engine->control);
	list_for_each_entry(link, &engine->links, here) {
		if (link->number == number)
			found = link;
	}
	if (!found)
		return r;
	o2g_engine_lock(engine);
	if (!found->over)
		r = o2g_conn_name(found->conn, peer);
	o2g_engine_unlock(engine, NULL);
	return r;
}

/* ---- detaching ---- */

/* No write starts after the link has ended; this waits for a last one. */
static void stop_work(struct o2g_link *link)
{
	wait_var_event(&link->tx_busy, !READ_ONCE(link->tx_busy));
	cancel_delayed_work_sync(&link->rx_work);
	cancel_delayed_work_sync(&link->tx_work);
	cancel_delayed_work_sync(&link->look_work);
}

void o2g_link_detach(struct o2g_link *link)
{
	struct o2g_engine *engine = link->engine;

	might_sleep();
	unhook_socket(link);
	o2g_engine_lock(engine);
	o2g_link_end(link, -ECONNABORTED);
	o2g_engine_unlock(engine, NULL);
	stop_work(link);
	spin_lock_bh(&engine->lock);
	list_del_init(&link->here);
	/* a closed engine does not empty its list */
	list_del_init(&link->tx_here);
	engine->link_count--;
	spin_unlock_bh(&engine->lock);
	/* Shuts down the stream even if another process has the file open. */
	link->ops->shutdown(link->socket, SHUT_RDWR);
	fput(link->file);
	o2g_link_put(link);
}

void o2g_link_reap(struct work_struct *work)
{
	struct o2g_engine *engine =
		container_of(work, struct o2g_engine, reap_work);
	struct o2g_link *link, *next;

	mutex_lock(&engine->control);
	list_for_each_entry_safe(link, next, &engine->links, here) {
		if (READ_ONCE(link->over))
			o2g_link_detach(link);
	}
	mutex_unlock(&engine->control);
}
