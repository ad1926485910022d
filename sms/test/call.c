// SPDX-License-Identifier: MIT
/*
 * The proxy's calls against an image that writes what it likes. The functions
 * of abi/linux are replaced by stubs here: they touch every byte that they are
 * given, and the mail and the pool have holes at both ends. Half of a call is
 * chosen by bytes, so that the fuzzer and the table of cases use the same way.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "abi/include/lin.h"
#include "abi/include/siginfo.h"
#include "sms/proxy/proxy.h"
#include "sms/test/play.h"

#define POOL 0x200000ull
#define HOLE 0x100000ull

struct proxy sms_proxy;
static struct mail_slot *slot;
static struct mail_wakes wakes;
static s32 own = -1; /* a descriptor of the proxy itself */

/* What the stubs saw of the last call. */
static struct {
	u32 moves, gathers;
	u64 bytes;
	char text[MAIL_PATH_SIZE];
	s64 most;      /* a stub transfers no more than that at once; -1: all */
	s64 offset[2]; /* of the first two moves */
	u32 ended, status;
} seen;

static int is_inside(const void *at, u64 len, const u8 *start, u64 size)
{
	u64 offset = (u64)((const u8 *)at - start);

	return (const u8 *)at >= start && offset <= size &&
	       len <= size - offset;
}

/* All of it is the image's, and can be read and written. */
static void touch_bytes(void *at, u64 len)
{
	must(is_inside(at, len, sms_proxy.pool, POOL) ||
	     is_inside(at, len, (u8 *)slot, sizeof(*slot)));
	if (len)
		memset(at, *(u8 *)at, len);
}

static s64 count_moved(const struct abi_io *io)
{
	u64 len = io->len;

	touch_bytes(io->buf, len);
	if (seen.moves < 2)
		seen.offset[seen.moves] = io->offset;
	seen.moves++;
	if (seen.most >= 0 && len > (u64)seen.most)
		len = (u64)seen.most;
	seen.bytes += len;
	return (s64)len;
}

s64 abi_lin_file_read(s32 handle, const struct abi_io *io)
{
	return handle < 0 ? -EBADF : count_moved(io);
}

s64 abi_lin_file_write(s32 handle, const struct abi_io *io)
{
	return handle < 0 ? -EBADF : count_moved(io);
}

s64 abi_lin_file_gather(s32 handle, const struct iovec *part, u32 parts,
			s64 offset)
{
	s64 done = 0;
	u32 i;

	must(parts >= 1 && parts <= MAIL_PARTS);
	must(offset == ABI_CURRENT || offset == ABI_APPEND);
	seen.gathers++;
	for (i = 0; i < parts; i++)
		done += count_moved(&(struct abi_io){part[i].iov_base,
						     part[i].iov_len, offset});
	return handle < 0 ? -EBADF : done;
}

/* Ends within its size, or strlen reads beyond the caller's stack. */
static void take_text(const char *text)
{
	u64 len = strlen(text);

	must(len < MAIL_PATH_SIZE);
	memcpy(seen.text, text, len + 1);
}

s64 abi_lin_file_open(struct abi_open *open)
{
	take_text(open->path);
	open->handle = 7;
	open->type = 0100000;
	return 0;
}

s64 abi_lin_file_close(s32 handle)
{
	return handle < 0 ? -EBADF : 0;
}

s64 abi_lin_file(s32 handle, struct abi_file_op *op)
{
	if (handle < 0)
		return -EBADF;
	if (op->verb == ABI_FILE_STAT)
		memset(op->stat, 1, sizeof(*op->stat));
	if (op->verb == ABI_FILE_STATFS)
		memset(op->statfs, 1, sizeof(*op->statfs));
	must(op->verb != ABI_FILE_READDIR);
	return 0;
}

s64 abi_lin_file_list(s32 handle, struct abi_dirent *to, u32 room, u64 next)
{
	if (handle < 0)
		return -EBADF;
	touch_bytes(to, room * sizeof(*to));
	memset(to, (u8)next, room * sizeof(*to));
	return room;
}

s64 abi_lin_path(struct abi_path_op *op)
{
	take_text(op->path);
	take_text(op->path2);
	if (op->verb == ABI_PATH_STAT)
		memset(op->stat, 2, sizeof(*op->stat));
	if (op->verb == ABI_PATH_STATFS)
		memset(op->statfs, 2, sizeof(*op->statfs));
	if (op->verb != ABI_PATH_READLINK)
		return 0;
	must(op->len <= MAIL_PATH_SIZE);
	memset(op->buf, 3, op->len);
	return (s64)op->len;
}

s64 abi_lin_sock_open(u32 domain, u32 type, u32 protocol)
{
	return domain + type + protocol ? 9 : -EINVAL;
}

s64 abi_lin_sock(s32 handle, struct abi_sock_op *op)
{
	touch_bytes(op->buf, op->len);
	return handle < 0 ? -EBADF : 0;
}

int sms_own_is(s32 handle)
{
	return handle >= 0 && handle == own;
}

/* No pointer of the image's arrives. */
s64 sms_family(struct abi_family_op *op)
{
	take_text(op->path);
	must(!op->text && !op->unlocked);
	memset(op->info, 4, sizeof(*op->info));
	memset(op->usage, 5, sizeof(op->usage));
	return op->verb;
}

void sms_serve_end(u32 status)
{
	seen.ended++;
	seen.status = status;
}

void sms_proxy_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(seen.text, sizeof(seen.text), format, args);
	va_end(args);
}

static u8 *between_holes(u64 bytes)
{
	u8 *at = mmap(NULL, bytes + 2 * HOLE, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must(at != MAP_FAILED &&
	     !mprotect(at + HOLE, bytes, PROT_READ | PROT_WRITE));
	return at + HOLE;
}

static void reset_slot(void)
{
	if (!slot) {
		slot = (struct mail_slot *)between_holes(sizeof(*slot));
		sms_proxy.pool = between_holes(POOL);
		sms_proxy.pool_bytes = POOL;
		wakes.cancel = eventfd(0, EFD_NONBLOCK);
		wakes.child = eventfd(0, EFD_NONBLOCK);
		must(wakes.cancel >= 0 && wakes.child >= 0);
	}
	memset(&seen, 0, sizeof(seen));
	seen.most = -1;
}

static s64 serve_call(u32 op)
{
	slot->op = op;
	slot->state = MAIL_CALL;
	sms_serve_call(slot, &wakes);
	return slot->result;
}

/* Everything that an image can write, from bytes: the head of the slot, then
 * parts, then data. */
int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ size)
{
	struct bytes b = {data, size};
	u64 one = 1, n;

	reset_slot();
	take_bytes(&b, slot, __builtin_offsetof(struct mail_slot, part));
	seen.most = slot->zero & 1 ? (s64)(slot->zero >> 1) : -1;
	slot->parts = slot->parts >> 31 ? slot->parts : slot->parts % 260;
	n = slot->parts < MAIL_PARTS ? slot->parts : MAIL_PARTS;
	take_bytes(&b, slot->part, n * sizeof(slot->part[0]));
	take_bytes(&b, slot->data, 256);
	take_bytes(&b, slot->data + MAIL_PATH, 64);
	take_bytes(&b, slot->data + MAIL_BULK, sizeof(slot->data) - MAIL_BULK);
	/* No handle of this process's own, and no wait without an end. */
	slot->handle |= 1 << 20;
	((struct abi_poll *)(slot->data + MAIL_BULK))->handle |= 1 << 20;
	must(write(wakes.cancel, &one, sizeof(one)) == sizeof(one));
	n = slot->op % (MAIL_OPS + 2);
	if (!serve_call((u32)n) && n == MAIL_PIPE)
		for (n = 0; n < 2; n++)
			close(((s32 *)(slot->data + MAIL_BULK))[n]);
	must(read(wakes.cancel, &one, sizeof(one)) == sizeof(one) ||
	     errno == EAGAIN);
	return 0;
}

#ifndef SMS_FUZZ
#include "tests/tap.h"

static void set_part(u32 i, u64 offset, u64 length)
{
	slot->part[i] = (struct mail_part){offset, length};
	slot->parts = i + 1;
}

static s64 read_parts(u64 len)
{
	slot->handle = 3;
	slot->arg[0] = len;
	slot->arg[1] = 0;
	return serve_call(MAIL_FILE_READ);
}

static void test_parts(void)
{
	reset_slot();
	set_part(0, 0, POOL);
	tap_ok(read_parts(POOL) == (s64)POOL, "parts: all of the pool");
	set_part(0, POOL - 16, 16);
	set_part(1, POOL, 0);
	tap_ok(read_parts(100) == 16, "parts: up to its end");
	set_part(0, POOL - 16, 17);
	tap_ok(read_parts(100) == -EFAULT, "parts: a byte behind the pool");
	set_part(0, POOL + 1, 0);
	tap_ok(read_parts(100) == -EFAULT, "parts: an offset behind the pool");
	set_part(0, ~0ull, 16);
	tap_ok(read_parts(100) == -EFAULT, "parts: the largest offset");
	set_part(0, 16, ~0ull);
	tap_ok(read_parts(100) == -EFAULT, "parts: a length that wraps");
	set_part(0, 0, 64);
	set_part(1, POOL, 1);
	seen.moves = 0;
	tap_ok(read_parts(100) == -EFAULT && !seen.moves,
	       "parts: a later bad part refuses all");
	slot->parts = MAIL_PARTS + 1;
	tap_ok(read_parts(100) == -EFAULT,
	       "parts: one more than fits is refused");
	slot->parts = ~0u;
	tap_ok(read_parts(100) == -EFAULT,
	       "parts: the largest count is refused");
}

static void test_lengths(void)
{
	reset_slot();
	set_part(0, 0, 64);
	set_part(1, 128, 64);
	tap_ok(read_parts(100) == 100,
	       "lengths: a read gets no more than it requested");
	reset_slot();
	seen.most = 10;
	tap_ok(read_parts(100) == 10 && seen.moves == 1,
	       "lengths: nothing is read after a short part");
	reset_slot();
	set_part(0, 0, 64);
	set_part(1, 128, 64);
	slot->handle = 3;
	slot->arg[0] = 128;
	slot->arg[1] = (1ull << 63) - 65;
	tap_ok(serve_call(MAIL_FILE_READ) == 64,
	       "lengths: a read ends at the largest offset");
	reset_slot();
	set_part(0, 0, 64);
	slot->handle = 3;
	slot->arg[0] = 64;
	slot->arg[1] = (1ull << 63) - 64;
	tap_ok(serve_call(MAIL_FILE_READ) == -EINVAL &&
		       serve_call(MAIL_FILE_WRITE) == -EINVAL,
	       "lengths: an offset that a read would pass is refused");
	reset_slot();
	set_part(0, 0, 64);
	set_part(1, 128, 64);
	slot->handle = 3;
	slot->arg[0] = 100;
	slot->arg[1] = (u64)ABI_CURRENT;
	seen.gathers = 0;
	tap_ok(serve_call(MAIL_FILE_WRITE) == 100 && seen.gathers == 1,
	       "lengths: one write call where other processes may write");
	reset_slot();
	slot->parts = 0;
	tap_ok(read_parts(MAIL_BULK_SIZE) == (s64)MAIL_BULK_SIZE,
	       "lengths: all of the slot's own");
	tap_ok(read_parts(MAIL_BULK_SIZE + 1) == -EFAULT,
	       "lengths: a byte behind the slot");
	tap_ok(read_parts(~0ull) == -EFAULT, "lengths: the largest");
}

/* The position of each part of a transfer in the file. */
static void test_offsets(void)
{
	static const struct {
		s64 at, second;
		const char *name;
	} c[] = {{0, 64, "from its start"},
		 {1000, 1064, "from further on"},
		 {ABI_STREAM, ABI_STREAM, "of a stream"}};
	u32 i, writes;

	for (i = 0; i < 2 * sizeof(c) / sizeof(c[0]); i++) {
		writes = i & 1;
		reset_slot();
		set_part(0, 0, 64);
		set_part(1, 128, 64);
		slot->handle = 3;
		slot->arg[0] = 128;
		slot->arg[1] = (u64)c[i / 2].at;
		tap_ok(serve_call(writes ? MAIL_FILE_WRITE : MAIL_FILE_READ) ==
				       128 &&
			       seen.moves == 2 &&
			       seen.offset[0] == c[i / 2].at &&
			       seen.offset[1] == c[i / 2].second,
		       "offsets: two parts %s are %s", c[i / 2].name,
		       writes ? "written" : "read");
	}
}

static int all_is(const u8 *at, u64 len, u8 what)
{
	while (len && *at == what)
		at++, len--;
	return !len;
}

static void test_objects(void)
{
	struct abi_file_op *file = (void *)slot->data;
	struct abi_path_op *path = (void *)slot->data;
	u8 *out = slot->data + MAIL_BULK;
	u32 verb;

	reset_slot();
	slot->handle = 3;
	for (verb = ABI_FILE_STAT; verb <= ABI_FILE_PIPE_SIZE; verb++) {
		u64 size = verb == ABI_FILE_STAT     ? sizeof(struct abi_stat)
			   : verb == ABI_FILE_STATFS ? sizeof(struct abi_statfs)
						     : 0;

		if (verb == ABI_FILE_READDIR)
			continue;
		memset(out, 0, MAIL_PATH_SIZE);
		*file = (struct abi_file_op){.verb = verb};
		tap_ok(!serve_call(MAIL_FILE) && all_is(out, size, 1) &&
			       all_is(out + size, MAIL_PATH_SIZE - size, 0),
		       "objects: of file operation %u, and no byte more", verb);
	}
	memset(out, 9, MAIL_PATH_SIZE);
	*file = (struct abi_file_op){.verb = ABI_FILE_STAT};
	slot->handle = -1;
	tap_ok(serve_call(MAIL_FILE) == -EBADF &&
		       all_is(out, MAIL_PATH_SIZE, 0),
	       "objects: none of a file that is not open");
	*path = (struct abi_path_op){.verb = ABI_PATH_STAT};
	tap_ok(!serve_call(MAIL_NAME) &&
		       all_is(out, sizeof(struct abi_stat), 2),
	       "objects: of a name");
	slot->data[MAIL_PATH] = 0;
	tap_ok(!serve_call(MAIL_FILE_OPEN) &&
		       ((struct abi_open *)slot->data)->handle == 7 &&
		       ((struct abi_open *)slot->data)->type == 0100000,
	       "objects: handle and kind of an open file");
}

static void test_directory(void)
{
	u8 *out = slot->data + MAIL_BULK;
	u64 size = MAIL_ENTRIES * sizeof(struct abi_dirent);

	reset_slot();
	slot->handle = 3;
	memset(out, 0, MAIL_BULK_SIZE);
	*(struct abi_file_op *)slot->data =
		(struct abi_file_op){.verb = ABI_FILE_READDIR};
	((struct abi_dirent *)out)->next = 77;
	tap_ok(serve_call(MAIL_FILE) == MAIL_ENTRIES && all_is(out, size, 77) &&
		       all_is(out + size, MAIL_BULK_SIZE - size, 0),
	       "directory: many entries from a cookie on, and no byte more");
}

/* A socket's call with two parts of 8 bytes. */
static s64 send_datagram(s32 handle, u32 verb, struct abi_sock_op *op)
{
	set_part(0, 0, 8);
	set_part(1, 64, 8);
	slot->handle = handle;
	op->verb = verb;
	op->len = 16;
	*(struct abi_sock_op *)slot->data = *op;
	return serve_call(MAIL_SOCK);
}

/* Two sockets with names that Linux chose. */
static int open_pair(int s[2], struct sockaddr_un *name, socklen_t *len)
{
	struct sockaddr_un any = {.sun_family = AF_UNIX};
	int i;

	for (i = 0; i < 2; i++) {
		s[i] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (s[i] < 0 ||
		    bind(s[i], (struct sockaddr *)&any, sizeof(any.sun_family)))
			return -1;
	}
	*len = sizeof(*name);
	return getsockname(s[1], (struct sockaddr *)name, len);
}

static void test_datagrams(void)
{
	struct abi_sock_op op = {.addrlen = 0}, *back = (void *)slot->data;
	struct sockaddr_un name;
	char text[32];
	socklen_t len;
	int s[2];

	reset_slot();
	must(!open_pair(s, &name, &len));
	memcpy(op.addr, &name, len);
	op.addrlen = len;
	memcpy(sms_proxy.pool, "01234567", 8);
	memcpy(sms_proxy.pool + 64, "89abcdef", 8);
	tap_ok(send_datagram(s[0], ABI_SOCK_SEND, &op) == 16 &&
		       recv(s[1], text, sizeof(text), MSG_DONTWAIT) == 16 &&
		       !memcmp(text, "0123456789abcdef", 16),
	       "datagrams: two parts are sent as one, to an address");
	must(!connect(s[0], (struct sockaddr *)&name, len));
	op.addrlen = 0;
	tap_ok(send_datagram(s[0], ABI_SOCK_SEND, &op) == 16,
	       "datagrams: without an address go to the connected peer");
	tap_ok(send_datagram(s[1], ABI_SOCK_RECV, &op) == 16 &&
		       !memcmp(sms_proxy.pool + 64, "89abcdef", 8) &&
		       back->addrlen > sizeof(name.sun_family) &&
		       back->addr[0] == AF_UNIX,
	       "datagrams: one is received in two parts, with its address");
	tap_ok(send_datagram(s[1], ABI_SOCK_RECV, &op) == -EAGAIN,
	       "datagrams: a receive does not wait");
	set_part(0, POOL - 16, 16);
	op.verb = ABI_SOCK_SEND;
	op.len = 100;
	*back = op;
	tap_ok(!serve_call(MAIL_SOCK),
	       "datagrams: no byte is written behind a part");
	close(s[0]);
	close(s[1]);
}

static void test_waits(void)
{
	u64 count = MAIL_BULK_SIZE / sizeof(struct abi_poll), i;
	struct abi_poll *list = (void *)(slot->data + MAIL_BULK);
	struct rlimit files;

	reset_slot();
	list[0] = (struct abi_poll){.handle = wakes.cancel, .events = POLLIN};
	list[1] = (struct abi_poll){.handle = wakes.cancel, .events = POLLOUT};
	list[2] = (struct abi_poll){.handle = -1, .events = POLLOUT};
	slot->arg[0] = 3;
	slot->arg[1] = 0;
	tap_ok(serve_call(MAIL_IO_WAIT) == 1 && !list[0].revents &&
		       list[1].revents == POLLOUT && !list[2].revents,
	       "waits: each handle has its own answer");
	must(!getrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = files.rlim_max;
	must(!setrlimit(RLIMIT_NOFILE, &files));
	for (i = 0; i < count; i++)
		list[i] = (struct abi_poll){.handle = -1};
	slot->arg[0] = count;
	tap_ok(serve_call(MAIL_IO_WAIT) ==
		       (files.rlim_cur > count ? 0 : -EINVAL),
	       "waits: as many as fit, and none behind them");
}

/* An event of children goes to every wait for them of this core, once. */
static void test_children(void)
{
	struct abi_poll *list = (void *)(slot->data + MAIL_BULK);
	u64 one = 1;

	reset_slot();
	list[0] = (struct abi_poll){.handle = MAIL_CHILD, .events = POLLIN};
	list[1] = (struct abi_poll){.handle = -1, .events = POLLIN};
	list[2] = list[0];
	slot->arg[0] = 3;
	slot->arg[1] = 0;
	tap_ok(!serve_call(MAIL_IO_WAIT) && !list[0].revents,
	       "children: nothing has happened");
	must(write(wakes.child, &one, sizeof(one)) == sizeof(one));
	slot->arg[0] = 2;
	list[0].handle = -3;
	tap_ok(!serve_call(MAIL_IO_WAIT) && !list[0].revents,
	       "children: other waits do not take the event");
	slot->arg[0] = 3;
	list[0].handle = MAIL_CHILD;
	tap_ok(serve_call(MAIL_IO_WAIT) == 2 && list[0].revents == POLLIN &&
		       !list[1].revents && list[2].revents == POLLIN,
	       "children: all who wait for them get it");
	tap_ok(!serve_call(MAIL_IO_WAIT) && !list[0].revents,
	       "children: and once");
	must(write(wakes.cancel, &one, sizeof(one)) == sizeof(one));
	tap_ok(serve_call(MAIL_IO_WAIT) == -EINTR,
	       "children: the wait can be cancelled");
}

static void test_family(void)
{
	struct abi_family_op *op = (void *)slot->data;
	u8 *info = slot->data + MAIL_BULK;

	reset_slot();
	memset(slot->data, 0xff, MAIL_BULK);
	op->verb = ABI_FAMILY_WAITID;
	memset(info, 9, 2 * sizeof(struct abi_siginfo));
	tap_ok(serve_call(MAIL_FAMILY) == ABI_FAMILY_WAITID &&
		       strlen(seen.text) == MAIL_PATH_SIZE - 1,
	       "family: a path without a terminator gets one");
	tap_ok(!op->path && !op->info && !op->text && !op->unlocked,
	       "family: no pointer of the proxy's is answered");
	tap_ok(all_is(info, sizeof(struct abi_siginfo), 4) &&
		       all_is(info + sizeof(struct abi_siginfo),
			      sizeof(struct abi_siginfo), 9) &&
		       all_is((u8 *)op->usage, sizeof(op->usage), 5),
	       "family: what a child did, and no byte more");
}

static void test_pipe(void)
{
	s32 *end = (s32 *)(slot->data + MAIL_BULK);
	char byte = 'a';

	reset_slot();
	slot->arg[0] = 0;
	tap_ok(!serve_call(MAIL_PIPE) && write(end[1], &byte, 1) == 1 &&
		       read(end[0], &byte, 1) == 1 &&
		       read(end[0], &byte, 1) < 0 && errno == EAGAIN &&
		       fcntl(end[0], F_GETFD) == FD_CLOEXEC,
	       "pipe: two ends that do not block, and are not inherited");
	close(end[0]);
	close(end[1]);
	slot->arg[0] = SOCK_STREAM;
	tap_ok(!serve_call(MAIL_PIPE) && write(end[0], &byte, 1) == 1 &&
		       read(end[1], &byte, 1) == 1 &&
		       read(end[1], &byte, 1) < 0 && errno == EAGAIN,
	       "pipe: and two sockets");
	close(end[0]);
	close(end[1]);
	slot->arg[0] = 13;
	tap_ok(serve_call(MAIL_PIPE) < 0, "pipe: of no other type");
}

/* The image names a descriptor that is none of the program's. */
static void test_own(void)
{
	struct abi_poll *list = (void *)(slot->data + MAIL_BULK);
	u32 op;

	reset_slot();
	own = wakes.child;
	for (op = MAIL_FILE_CLOSE; op <= MAIL_SOCK; op++) {
		if (op == MAIL_NAME || op == MAIL_SOCK_OPEN)
			continue;
		slot->handle = own;
		slot->arg[0] = 0;
		memset(slot->data, 0, MAIL_BULK);
		tap_ok(serve_call(op) == -EBADF,
		       "own: the proxy's descriptor is none for call %u", op);
	}
	slot->handle = -1;
	slot->arg[0] = 1;
	slot->arg[1] = 0;
	*list = (struct abi_poll){.handle = own, .events = POLLOUT};
	tap_ok(serve_call(MAIL_IO_WAIT) == 1 && list->revents == POLLNVAL,
	       "own: nor can it be waited for");
	own = -1;
}

static void test_texts(void)
{
	struct abi_path_op *op = (void *)slot->data;

	reset_slot();
	memset(slot->data, 'x', MAIL_BULK + 0x1000);
	tap_ok(serve_call(MAIL_FILE_OPEN) == 0 &&
		       strlen(seen.text) == MAIL_PATH_SIZE - 1,
	       "texts: a name without a terminator gets one");
	memset(op, 0, sizeof(*op));
	op->verb = ABI_PATH_RENAME;
	tap_ok(serve_call(MAIL_NAME) == 0,
	       "texts: the second name gets a terminator as well");
	op->verb = ABI_PATH_READLINK;
	op->len = ~0ull;
	op->buf = (void *)8;
	tap_ok(serve_call(MAIL_NAME) == MAIL_PATH_SIZE,
	       "texts: a link is read into the proxy's buffer");
	memset(slot->data + MAIL_BULK, 'y', 0x1000);
	serve_call(MAIL_LOG);
	tap_ok(strlen(seen.text) == 511,
	       "texts: a log line without a terminator gets one");
}

static void test_calls(void)
{
	struct abi_poll *list = (void *)(slot->data + MAIL_BULK);
	u32 op;

	reset_slot();
	tap_ok(serve_call(MAIL_NONE) == -ENOSYS &&
		       serve_call(MAIL_OPS) == -ENOSYS &&
		       serve_call(~0u) == -ENOSYS,
	       "calls: an unknown call is refused");
	slot->arg[0] = MAIL_BULK_SIZE / sizeof(*list) + 1;
	tap_ok(serve_call(MAIL_IO_WAIT) == -EINVAL,
	       "calls: a wait for too many handles is refused");
	slot->arg[0] = 1;
	slot->arg[1] = 0;
	list->handle = wakes.cancel;
	list->events = 4;
	tap_ok(serve_call(MAIL_IO_WAIT) == 1 && list->revents == 4,
	       "calls: a wait is answered");
	slot->arg[0] = 0xabcd0009;
	serve_call(MAIL_EXIT);
	tap_ok(seen.ended == 1 && seen.status == 9,
	       "calls: the end of the program ends the proxy");
	strcpy((char *)list, "a panic");
	serve_call(MAIL_PANIC);
	tap_ok(seen.ended == 2 && seen.status == 126 << 8 &&
		       !strcmp(seen.text, "a panic"),
	       "calls: a panic is reported and ends with status 126");
	slot->handle = -1;
	for (op = MAIL_FILE_CLOSE; op <= MAIL_FILE; op++)
		tap_ok(serve_call(op) < 0,
		       "calls: %u without a handle is refused", op);
}

int main(void)
{
	reset_slot();
	test_parts();
	test_lengths();
	test_offsets();
	test_objects();
	test_directory();
	test_datagrams();
	test_waits();
	test_children();
	test_family();
	test_pipe();
	test_own();
	test_texts();
	test_calls();
	tap_ok(play_random(3000), "random: 3000 slots of random bytes");
	return tap_done();
}
#endif
