// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP_ULP "o2g": nobody but the engine uses the socket's stream. From when the
 * ULP is set until the socket's file is closed, reading, writing, connecting
 * and options that affect the stream are refused, whether the socket is
 * attached or not. A socket cannot become an ordinary one again.
 *
 * The kernel allows one ULP per socket. Other users of sk_user_data (a socket
 * map, KCM) find it in use. The socket has two references to the module: the
 * ULP's, and one as owner of its operations, which the kernel puts after
 * ulp_release() has returned. So an orphan in FIN_WAIT does not pin the module,
 * and no code of the module runs after the last put.
 *
 * icsk_ulp_data points to the link: written with the socket lock, read with it
 * or in RCU.
 *
 * Context: process, calls on the socket, most of them with the socket owned;
 * o2g_ulp_link() any.
 */
#include <linux/ipv6.h>
#include <linux/module.h>
#include <net/inet_common.h>
#include <net/tcp.h>
#include <net/transp_v6.h>

#include "internal.h"

enum { V4, V6, FAMILIES };

static struct proto_ops ours[FAMILIES];
/* IPv6's is known from the first such socket */
static const struct proto_ops *base[FAMILIES];
static DEFINE_MUTEX(making);
static u64 taken; /* sk_user_data points to it, to mark it as in use */

const struct proto_ops *o2g_ulp_base(const struct sock *sk)
{
	return base[sk->sk_socket->ops == &ours[V6] ? V6 : V4];
}

/* ---- operations that users may call ---- */

static int refuse_connect(struct socket *sock, struct sockaddr *address,
			  int length, int flags)
{
	return -EBUSY;
}

static int refuse_listen(struct socket *sock, int backlog)
{
	return -EBUSY;
}

static int refuse_shutdown(struct socket *sock, int how)
{
	return -EBUSY;
}

static int refuse_sendmsg(struct socket *sock, struct msghdr *message,
			  size_t size)
{
	return -EBUSY;
}

static int refuse_sendmsg_locked(struct sock *sk, struct msghdr *message,
				 size_t size)
{
	return -EBUSY;
}

static int refuse_recvmsg(struct socket *sock, struct msghdr *message,
			  size_t size, int flags)
{
	return -EBUSY;
}

static int refuse_mmap(struct file *file, struct socket *sock,
		       struct vm_area_struct *vma)
{
	return -EBUSY;
}

static ssize_t refuse_splice_read(struct socket *sock, loff_t *position,
				  struct pipe_inode_info *pipe, size_t size,
				  unsigned int flags)
{
	return -EBUSY;
}

static int refuse_read_sock(struct sock *sk, read_descriptor_t *desc,
			    sk_read_actor_t actor)
{
	return -EBUSY;
}

static int refuse_read_skb(struct sock *sk, skb_read_actor_t actor)
{
	return -EBUSY;
}

static int refuse_rcvlowat(struct sock *sk, int bytes)
{
	return -EBUSY;
}

/* TCP's options belong to the engine. The address family must not change
 * either, because it tells ulp_release() the operations. */
static int write_option(struct socket *sock, int level, int name,
			sockptr_t value, unsigned int length)
{
	if (level == SOL_TCP || (level == SOL_IPV6 && name == IPV6_ADDRFORM))
		return -EBUSY;
	return o2g_ulp_base(sock->sk)->setsockopt(sock, level, name, value,
						  length);
}

/* One option reads the stream. */
static int read_option(struct socket *sock, int level, int name,
		       char __user *value, int __user *length)
{
	if (level == SOL_TCP && name == TCP_ZEROCOPY_RECEIVE)
		return -EBUSY;
	return o2g_ulp_base(sock->sk)->getsockopt(sock, level, name, value,
						  length);
}

static void detach_socket(struct sock *sk)
{
	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	write_unlock_bh(&sk->sk_callback_lock);
	inet_csk(sk)->icsk_ulp_ops = NULL;
	/* A lingering close must not delay the kernel's shared worker for
	 * closing files. */
	if (current->flags & PF_KTHREAD)
		sock_reset_flag(sk, SOCK_LINGER);
	release_sock(sk);
	module_put(THIS_MODULE);
}

/* The last reference to the file has been dropped, and any link is gone. */
static int ulp_release(struct socket *sock)
{
	const struct proto_ops *stock;
	int r;

	if (!sock->sk)
		return 0; /* an accept() that failed: there is no sock */
	stock = o2g_ulp_base(sock->sk);
	detach_socket(sock->sk);
	r = stock->release(sock);
	module_put(stock->owner);
	return r;
}

static void make_ops(int v, const struct proto_ops *stock)
{
	ours[v] = *stock;
	ours[v].owner = THIS_MODULE;
	ours[v].release = ulp_release;
	ours[v].connect = refuse_connect;
	ours[v].listen = refuse_listen;
	ours[v].shutdown = refuse_shutdown;
	ours[v].setsockopt = write_option;
	ours[v].getsockopt = read_option;
	ours[v].sendmsg = refuse_sendmsg;
	ours[v].sendmsg_locked = refuse_sendmsg_locked;
	ours[v].recvmsg = refuse_recvmsg;
	ours[v].mmap = refuse_mmap;
	ours[v].splice_read = refuse_splice_read;
	ours[v].read_sock = refuse_read_sock;
	ours[v].read_skb = refuse_read_skb;
	ours[v].set_rcvlowat = refuse_rcvlowat;
	o2g_compat_refuse(&ours[v]);
	base[v] = stock;
}

/* ---- setting it ---- */

/* V4 or V6 if it is plain TCP over IPv4 or IPv6 without another ULP or changed
 * callbacks, else -EINVAL. */
static int stock_family(const struct sock *sk)
{
	const struct socket *sock = sk->sk_socket;

	if (!sock || sock->sk != sk || !sock->file)
		return -EINVAL;
	if (sk->sk_prot == &tcp_prot && sock->ops == &inet_stream_ops)
		return V4;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_prot == &tcpv6_prot && sock->ops->family == PF_INET6) {
		mutex_lock(&making);
		if (!base[V6])
			make_ops(V6, sock->ops);
		mutex_unlock(&making);
		if (sock->ops == base[V6])
			return V6;
	}
#endif
	return -EINVAL;
}

static bool socket_open(const struct sock *sk)
{
	return sk->sk_state == TCP_ESTABLISHED ||
	       sk->sk_state == TCP_CLOSE_WAIT;
}

static int ulp_init(struct sock *sk)
{
	int r = stock_family(sk);

	if (r < 0)
		return r;
	if (!socket_open(sk))
		return -ENOTCONN;
	write_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_user_data || tcp_sk(sk)->repair) {
		write_unlock_bh(&sk->sk_callback_lock);
		return -EBUSY;
	}
	rcu_assign_sk_user_data(sk, &taken);
	write_unlock_bh(&sk->sk_callback_lock);
	rcu_assign_pointer(inet_csk(sk)->icsk_ulp_data, NULL);
	__module_get(THIS_MODULE);
	WRITE_ONCE(sk->sk_socket->ops, &ours[r]);
	WRITE_ONCE(sk->sk_rcvlowat, 1);
	return 0;
}

int o2g_ulp_check(const struct sock *sk)
{
	const struct socket *sock = sk->sk_socket;

	sock_owned_by_me(sk);
	if (!sock || (sock->ops != &ours[V4] && sock->ops != &ours[V6]))
		return -EINVAL;
	if (rcu_access_pointer(inet_csk(sk)->icsk_ulp_data))
		return -EBUSY;
	return socket_open(sk) ? 0 : -ENOTCONN;
}

void o2g_ulp_set(struct sock *sk, struct o2g_link *link)
{
	sock_owned_by_me(sk);
	rcu_assign_pointer(inet_csk(sk)->icsk_ulp_data, (void *)link);
}

struct o2g_link *o2g_ulp_link(const struct sock *sk)
{
	return rcu_dereference_check(inet_csk(sk)->icsk_ulp_data,
				     lockdep_sock_is_held(sk));
}

/* Called when a socket is destroyed without ulp_release(): an IPV6_ADDRFORM
 * that was in progress when the ULP was set has replaced our operations by the
 * kernel's. */
static void ulp_replaced(struct sock *sk)
{
	/* the ULP's own reference is put after this call */
	module_put(THIS_MODULE);
}

static struct tcp_ulp_ops ulp = {
	.name = O2G_DEVICE_NAME,
	.owner = THIS_MODULE,
	.init = ulp_init,
	.release = ulp_replaced,
};

int o2g_ulp_register(void)
{
	make_ops(V4, &inet_stream_ops);
	return tcp_register_ulp(&ulp);
}

void o2g_ulp_unregister(void)
{
	tcp_unregister_ulp(&ulp);
}

MODULE_ALIAS_TCP_ULP(O2G_DEVICE_NAME);
