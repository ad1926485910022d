/* SPDX-License-Identifier: MIT */
/* The requests of terminals that the host carries out: ioctl_tty(2). No state.
 */
#include "terminal.h"
#include "desc.h"
#include "fd.h"
#include "ops.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

#define TIOCGPTPEER 0x5441
#define TERMIOS_LEN 36 /* the kernel's struct termios of x86-64 */

enum way { VALUE, IN, OUT }; /* of the argument */

static const struct request {
	u32 number;
	u8 len, way;
} requests[] = {
	{0x5401, TERMIOS_LEN, OUT}, /* TCGETS */
	{0x5402, TERMIOS_LEN, IN},  /* TCSETS */
	{0x5403, TERMIOS_LEN, IN},  /* TCSETSW */
	{0x5404, TERMIOS_LEN, IN},  /* TCSETSF */
	{0x5409, 0, VALUE},	    /* TCSBRK */
	{0x540a, 0, VALUE},	    /* TCXONC */
	{0x540b, 0, VALUE},	    /* TCFLSH */
	{0x540c, 0, VALUE},	    /* TIOCEXCL */
	{0x540d, 0, VALUE},	    /* TIOCNXCL */
	{0x540e, 0, VALUE},	    /* TIOCSCTTY */
	{0x5411, 4, OUT},	    /* TIOCOUTQ */
	{0x5413, 8, OUT},	    /* TIOCGWINSZ */
	{0x5414, 8, IN},	    /* TIOCSWINSZ */
	{0x5420, 4, IN},	    /* TIOCPKT */
	{0x5422, 0, VALUE},	    /* TIOCNOTTY */
	{0x5425, 0, VALUE},	    /* TCSBRKP */
	{0x80045430, 4, OUT},	    /* TIOCGPTN */
	{0x40045431, 4, IN},	    /* TIOCSPTLCK */
	{0x80045438, 4, OUT},	    /* TIOCGPKT */
	{0x80045439, 4, OUT},	    /* TIOCGPTLCK */
};

static const struct request *find_request(u32 number)
{
	u32 i;

	for (i = 0; i < sizeof(requests) / sizeof(*requests); i++)
		if (requests[i].number == number)
			return &requests[i];
	return 0;
}

static s64 ask_host(struct abi_call *c, struct abi_desc *d, u32 request,
		    s32 value, char *text, u32 len)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_TERMINAL,
				   .handle = d->handle,
				   .options = request,
				   .pid = value,
				   .text = text,
				   .text_len = len};

	return c->p->host->family(&op, c->t->index);
}

/* Opens the other side of a pseudo-terminal; the argument: flags of open(2). */
static s64 open_peer(struct abi_call *c, struct abi_desc *d)
{
	struct abi_right r = {.type = ABI_S_IFCHR, .flags = (u32)c->a[2]};
	struct abi_desc *peer;
	s64 n = ask_host(c, d, TIOCGPTPEER,
			 (s32)(r.flags | ABI_O_CLOEXEC | ABI_O_NONBLOCK), 0, 0);

	if (n < 0)
		return n;
	r.handle = (s32)n;
	r.flags &= ABI_O_ACCMODE | ABI_O_NONBLOCK;
	n = abi_fd_describe(c->p, &r, &peer);
	return n < 0 ? n
		     : abi_desc_install(c->p, peer, 0,
					(u32)c->a[2] & ABI_O_CLOEXEC);
}

s64 abi_terminal_control(struct abi_call *c, struct abi_desc *d)
{
	const struct request *r = find_request((u32)c->a[1]);
	char argument[TERMIOS_LEN];
	u32 peer = (u32)c->a[1] == TIOCGPTPEER;
	s64 n;

	if ((!r && !peer) || !abi_forks(c->p))
		return -LINUX_ENOSYS;
	if (!abi_desc_ops(d)->handle || d->type != ABI_S_IFCHR)
		return -LINUX_ENOTTY;
	if (peer)
		return open_peer(c, d);
	if (r->way == IN && abi_user_get(c->p, argument, c->a[2], r->len))
		return -LINUX_EFAULT;
	n = ask_host(c, d, r->number, (s32)c->a[2],
		     r->way == VALUE ? 0 : argument, r->len);
	if (n >= 0 && r->way == OUT &&
	    abi_user_put(c->p, c->a[2], argument, r->len))
		return -LINUX_EFAULT;
	return n;
}
