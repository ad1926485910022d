// SPDX-License-Identifier: MIT
/*
 * The files, names and sockets of struct abi_host, by the proxy; mail.h
 * describes how. A reply is copied once and checked against the request. A
 * proxy can return false results, as Linux could, but cannot harm sms.
 */
#include "abi/include/siginfo.h"
#include "abi/include/user.h"
#include "kernel.h"

static struct mail_slot *own_slot(void)
{
	struct core *c = sms_core();

	sms_poll_release(c);
	c->listing.left = 0;
	return c->slot;
}

static void *bulk_area(void)
{
	return own_slot()->data + MAIL_BULK;
}

static int is_answered(const struct mail_slot *s)
{
	return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != MAIL_CALL;
}

/* If the proxy has read `notify`, it sends an NMI. This waits for that NMI, so
 * that it does not arrive in the program. */
static void await_nmi(struct core *c)
{
	for (;;) {
		__atomic_store_n(&c->poked, 0, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&c->answered, __ATOMIC_SEQ_CST))
			return;
		sms_halt();
	}
}

/*
 * Each event for this core comes with an NMI, and so does the reply once
 * `notify` is set. `poked` is cleared before the checks, so a later event ends
 * the halt.
 */
static void halt_until_nmi(struct core *c)
{
	struct mail_slot *s = c->slot;

	__atomic_store_n(&c->answered, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&c->poked, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->notify, 1, __ATOMIC_SEQ_CST);
	if (!is_answered(s) && !sms_events_is_here())
		sms_halt();
	if (!__atomic_exchange_n(&s->notify, 0, __ATOMIC_SEQ_CST))
		await_nmi(c);
}

/* Rings the doorbell, and waits for the reply. */
static s64 call_proxy(enum mail_op op, s32 handle)
{
	struct mail_slot *s = own_slot();
	struct core *c = sms_core();

	skep_assert(!c->polling);
	s->op = op;
	s->handle = handle;
	s->cancel = 0;
	s->notify = 0;
	SMS_COUNT(c, forwarded[op]);
	__atomic_store_n(&s->state, MAIL_CALL, __ATOMIC_SEQ_CST);
	sms_cpu_doorbell_call(c);
	while (!is_answered(s)) {
		sms_events_take();
		if (!sms_cpu_poll(&s->state, MAIL_CALL))
			halt_until_nmi(c);
	}
	return *(volatile s64 *)&s->result;
}

/* Returns an errno, or a result from 0 to most; anything else is an error. */
static s64 bound_result(s64 result, u64 most)
{
	if (result < 0)
		return result > -4096 ? result : -LINUX_EIO;
	return (u64)result <= most ? result : -LINUX_EIO;
}

static s64 put_path(u64 where, const char *path)
{
	u64 len = abi_strlen(path) + 1;

	if (len > MAIL_PATH_SIZE)
		return -LINUX_ENAMETOOLONG;
	abi_memcpy(own_slot()->data + where, path, len);
	return 0;
}

/* Big buffers --------------------------------------------------------- */

static int is_program(u64 addr)
{
	return addr < SKEP_ARENA_END;
}

/* Lists the parts of the pool that contain [addr, addr + len); returns the
 * bytes listed, or -EFAULT if there are none. */
static s64 put_parts(u64 addr, u64 len, u32 prot)
{
	struct mail_slot *s = own_slot();
	u64 done = 0, offset, part, end = ~0ull;
	u32 n = 0;

	while (done < len) {
		if (sms_memory_touch(addr + done, prot) <= 0)
			break;
		offset = sms_memory_offset(addr + done, prot, &part);
		if (offset == ~0ull)
			break;
		part = part < len - done ? part : len - done;
		if (offset != end && n == MAIL_PARTS)
			break;
		if (offset != end)
			s->part[n++] = (struct mail_part){offset, 0};
		s->part[n - 1].length += part;
		end = offset + part;
		done += part;
	}
	s->parts = n;
	return done ? (s64)done : -LINUX_EFAULT;
}

static int goes_in_parts(const void *buf, u64 len)
{
	return is_program((u64)buf) && len > MAIL_PATH_SIZE;
}

/* Describes the buffer to the proxy; returns how many of its bytes. */
static s64 put_buffer(const void *buf, u64 len, u32 prot)
{
	own_slot()->parts = 0;
	if (len > 0x7ffff000)
		len = 0x7ffff000;
	if (goes_in_parts(buf, len))
		return put_parts((u64)buf, len, prot);
	if (len > MAIL_BULK_SIZE)
		len = MAIL_BULK_SIZE;
	if (prot == ABI_PROT_READ && abi_user_move(bulk_area(), buf, len))
		return -LINUX_EFAULT;
	return (s64)len;
}

/* Copies a reply into a buffer of len bytes; n is at most the result of
 * put_buffer(). */
static s64 get_buffer(void *buf, u64 len, s64 n)
{
	if (n > 0 && !goes_in_parts(buf, len) &&
	    abi_user_move(buf, bulk_area(), (u64)n))
		return -LINUX_EFAULT;
	return n;
}

/* Files --------------------------------------------------------------- */

s64 sms_forward_open(struct abi_open *open)
{
	struct abi_open *to = (void *)own_slot()->data;
	s64 err = put_path(MAIL_PATH, open->path);

	if (err)
		return err;
	to->flags = open->flags;
	to->mode = open->mode;
	to->wait = open->wait;
	err = bound_result(call_proxy(MAIL_FILE_OPEN, -1), 0);
	if (!err) {
		open->handle = *(volatile s32 *)&to->handle;
		open->type = *(volatile u32 *)&to->type;
	}
	return err;
}

s64 sms_forward_close(s32 handle)
{
	return bound_result(call_proxy(MAIL_FILE_CLOSE, handle), 0);
}

static s64 transfer_bytes(enum mail_op op, s32 handle, const struct abi_io *io,
			  u32 prot)
{
	s64 len = put_buffer(io->buf, io->len, prot), n;

	if (len < 0)
		return len;
	own_slot()->arg[0] = (u64)len;
	own_slot()->arg[1] = (u64)io->offset;
	n = bound_result(call_proxy(op, handle), (u64)len);
	return op == MAIL_FILE_READ ? get_buffer(io->buf, io->len, n) : n;
}

/*
 * Transfers all bytes if the file has a position, because many programs take a
 * short read for the end of the file. Streams return what is available.
 */
static s64 transfer_all(enum mail_op op, s32 handle, const struct abi_io *io,
			u32 prot)
{
	struct abi_io part = *io;
	u64 done = 0;
	s64 n;

	do {
		part.buf = (u8 *)io->buf + done;
		part.len = io->len - done;
		n = transfer_bytes(op, handle, &part, prot);
		if (n <= 0)
			return done ? (s64)done : n;
		done += (u64)n;
		part.offset += io->offset >= 0 ? n : 0;
	} while (done < io->len && io->offset != ABI_STREAM);
	return (s64)done;
}

s64 sms_forward_read(s32 handle, const struct abi_io *io)
{
	return transfer_all(MAIL_FILE_READ, handle, io, ABI_PROT_WRITE);
}

s64 sms_forward_write(s32 handle, const struct abi_io *io)
{
	return transfer_all(MAIL_FILE_WRITE, handle, io, ABI_PROT_READ);
}

/* Reads the object that an operation returns at MAIL_BULK. */
static void get_object(void *to, u64 size)
{
	abi_memcpy(to, bulk_area(), size);
}

/* Directories: a reply has many entries, which serve one system call. The next
 * one asks again, because the directory may have changed. */
static int has_entry(const struct core *c, s32 handle, u64 next)
{
	return c->listing.left && c->listing.handle == handle &&
	       c->listing.next == next && c->listing.call == c->count.calls;
}

static s64 ask_entries(s32 handle, u64 next)
{
	*(struct abi_file_op *)own_slot()->data =
		(struct abi_file_op){.verb = ABI_FILE_READDIR};
	((struct abi_dirent *)bulk_area())->next = next;
	return bound_result(call_proxy(MAIL_FILE, handle), MAIL_ENTRIES);
}

/* Each further use of the slot overwrites what is left of a reply. */
static s64 read_entry(s32 handle, struct abi_dirent *to)
{
	const struct abi_dirent *from;
	struct core *c = sms_core();
	s64 n;

	if (!has_entry(c, handle, to->next)) {
		n = ask_entries(handle, to->next);
		if (n <= 0)
			return n;
		c->listing.left = (u32)n;
		c->listing.at = 0;
		c->listing.handle = handle;
		c->listing.call = c->count.calls;
	}
	from = (const void *)(c->slot->data + MAIL_BULK);
	abi_memcpy(to, from + c->listing.at, sizeof(*to));
	to->name[sizeof(to->name) - 1] = 0;
	c->listing.at++;
	c->listing.left--;
	c->listing.next = to->next;
	return 1;
}

static s64 operate_file(s32 handle, struct abi_file_op *op)
{
	struct abi_file_op *to = (void *)own_slot()->data;
	u64 most = op->verb == ABI_FILE_WINSIZE	    ? 0xffffffff
		   : op->verb == ABI_FILE_AVAILABLE ? 0x7fffffff
		   : op->verb == ABI_FILE_PIPE_SIZE ? 0x7fffffff
		   : op->verb == ABI_FILE_SEEK	    ? 0x7fffffffffffffff
						    : 0;
	s64 n;

	*to = *op;
	to->stat = 0;
	to->statfs = 0;
	to->dirent = 0;
	n = bound_result(call_proxy(MAIL_FILE, handle), most);
	if (n < 0)
		return n;
	if (op->verb == ABI_FILE_STAT)
		get_object(op->stat, sizeof(*op->stat));
	if (op->verb == ABI_FILE_STATFS)
		get_object(op->statfs, sizeof(*op->statfs));
	return n;
}

s64 sms_forward_file(s32 handle, struct abi_file_op *op)
{
	return op->verb == ABI_FILE_READDIR ? read_entry(handle, op->dirent)
					    : operate_file(handle, op);
}

s64 sms_forward_path(struct abi_path_op *op)
{
	struct abi_path_op *to = (void *)own_slot()->data;
	u64 len = op->verb == ABI_PATH_READLINK ? op->len : 0;
	s64 n = put_path(MAIL_PATH, op->path);

	if (!n && op->path2)
		n = put_path(MAIL_PATH2, op->path2);
	if (n)
		return n;
	*to = *op;
	to->path = to->path2 = 0;
	to->buf = 0;
	to->stat = 0;
	to->statfs = 0;
	if (len > MAIL_PATH_SIZE)
		to->len = len = MAIL_PATH_SIZE;
	n = bound_result(call_proxy(MAIL_NAME, -1), len);
	if (n < 0)
		return n;
	if (op->verb == ABI_PATH_READLINK)
		return get_buffer(op->buf, len, n);
	if (op->verb == ABI_PATH_STAT || op->verb == ABI_PATH_LSTAT)
		get_object(op->stat, sizeof(*op->stat));
	if (op->verb == ABI_PATH_STATFS)
		get_object(op->statfs, sizeof(*op->statfs));
	return n;
}

/* Sockets ------------------------------------------------------------- */

s64 sms_forward_sock_open(u32 domain, u32 type, u32 protocol)
{
	own_slot()->arg[0] = domain;
	own_slot()->arg[1] = type;
	own_slot()->arg[2] = protocol;
	return bound_result(call_proxy(MAIL_SOCK_OPEN, -1), 0x7fffffff);
}

static int gives_buffer(u32 verb)
{
	return verb == ABI_SOCK_SEND || verb == ABI_SOCK_SETOPT;
}

static int takes_buffer(u32 verb)
{
	return verb == ABI_SOCK_RECV || verb == ABI_SOCK_GETOPT;
}

/* Copies addresses and lengths from the reply, within the request's limits. */
static s64 sock_answer(struct abi_sock_op *op, struct abi_sock_op *from,
		       u64 asked, s64 n)
{
	u64 len = *(volatile u64 *)&from->len, room = op->len;

	op->handle = *(volatile s32 *)&from->handle;
	op->addrlen = *(volatile u32 *)&from->addrlen;
	if (op->addrlen > sizeof(op->addr))
		op->addrlen = sizeof(op->addr);
	abi_memcpy(op->addr, from->addr, sizeof(op->addr));
	if (op->verb == ABI_SOCK_RECV)
		return get_buffer(op->buf, room, n);
	if (op->verb == ABI_SOCK_GETOPT) {
		op->len = len < asked ? len : asked;
		if (get_buffer(op->buf, room, (s64)op->len) < 0)
			return -LINUX_EFAULT;
	}
	return n;
}

s64 sms_forward_sock(s32 handle, struct abi_sock_op *op)
{
	struct abi_sock_op *to = (void *)own_slot()->data;
	s64 len = 0, n;

	own_slot()->parts = 0;
	if (gives_buffer(op->verb))
		len = put_buffer(op->buf, op->len, ABI_PROT_READ);
	else if (takes_buffer(op->verb))
		len = put_buffer(op->buf, op->len, ABI_PROT_WRITE);
	if (len < 0)
		return len;
	*to = *op;
	to->buf = 0;
	to->len = (u64)len;
	n = bound_result(call_proxy(MAIL_SOCK, handle), (u64)len);
	return n < 0 ? n : sock_answer(op, to, (u64)len, n);
}

/* Processes ----------------------------------------------------------- */

/* The results that sms and abi use; `info` is read and written. */
s64 sms_forward_family(struct abi_family_op *op)
{
	struct abi_family_op *to = (void *)own_slot()->data;
	s64 n = op->path ? put_path(MAIL_PATH, op->path) : 0;

	if (n)
		return n;
	*to = *op;
	to->path = 0;
	to->info = 0;
	to->text = 0;
	to->unlocked = 0;
	if (op->info)
		abi_memcpy(bulk_area(), op->info, sizeof(*op->info));
	n = bound_result(call_proxy(MAIL_FAMILY, -1), 0x7fffffff);
	if (n < 0)
		return n;
	op->pid = *(volatile s32 *)&to->pid;
	op->status = *(volatile s32 *)&to->status;
	abi_memcpy(op->usage, to->usage, sizeof(op->usage));
	if (op->info)
		get_object(op->info, sizeof(*op->info));
	return n;
}

s64 sms_forward_pipe(s32 handle[2], u32 type)
{
	s64 n;

	own_slot()->arg[0] = type;
	n = bound_result(call_proxy(MAIL_PIPE, -1), 0);
	if (!n)
		get_object(handle, 2 * sizeof(*handle));
	return n;
}

/* The end ------------------------------------------------------------- */

static void put_line(const char *line)
{
	abi_strcpy(bulk_area(), line, 512);
}

void sms_forward_log(const char *line)
{
	put_line(line);
	call_proxy(MAIL_LOG, -1);
}

static void halt_core(void)
{
	for (;;)
		__asm__ volatile("cli\n\thlt");
}

void sms_forward_exit(u32 status)
{
	struct mail_ledger *l = sms_core()->ledger;
	u32 i;

	for (i = 0; i < MAIL_CALLS; i++)
		l->refused[i] = abi_count_refused(sms_proc, i);
	own_slot()->arg[0] = status;
	call_proxy(MAIL_EXIT, -1);
	halt_core();
	__builtin_unreachable();
}

void sms_forward_panic(const char *line)
{
	put_line(line);
	call_proxy(MAIL_PANIC, -1);
	halt_core();
	__builtin_unreachable();
}
