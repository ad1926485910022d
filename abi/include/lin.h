/* SPDX-License-Identifier: MIT */
/*
 * Files, names and sockets of struct abi_host on Linux, for all substrates that
 * have a Linux process for them: bee's own process, and sms' proxy. Handles are
 * file descriptors of that process; 0, 1 and 2 are streams that other processes
 * share.
 */
#ifndef ABI_LIN_H
#define ABI_LIN_H

#include "host.h"

struct iovec;

/* The directory that the guest sees as "/", or NULL; written before the first
 * call. */
extern const char *abi_lin_root;
/* The same without its last slash; "" for /. */
const char *abi_lin_root_text(void);

/* Cannot wait: -EOPNOTSUPP if it would have to. */
s64 abi_lin_file_open(struct abi_open *open);
/* The same in two steps, for a host that can wait in the call itself. */
struct abi_lin_call {
	u64 nr, arg[6];
	u64 how[3]; /* openat2's struct, which arg points to */
};
/* 0, or -errno. `open` must remain valid as long as `to`. */
s64 abi_lin_open_call(struct abi_lin_call *to, const struct abi_open *open);
/* Handles the descriptor of that call: sets handle and type, or closes it. */
s64 abi_lin_opened(struct abi_open *open, int fd);
s64 abi_lin_file_close(s32 handle);
s64 abi_lin_file_read(s32 handle, const struct abi_io *io);
s64 abi_lin_file_write(s32 handle, const struct abi_io *io);
/* Writes several parts at once, at ABI_CURRENT or ABI_APPEND; -errno after an
 * error. */
s64 abi_lin_file_gather(s32 handle, const struct iovec *part, u32 parts,
			s64 offset);
s64 abi_lin_file(s32 handle, struct abi_file_op *op);
/* Several entries of a directory from a cookie on: how many, or 0 at its end.
 * `to` is only written. */
s64 abi_lin_file_list(s32 handle, struct abi_dirent *to, u32 room, u64 next);
s64 abi_lin_splice(const struct abi_splice *op);

/* Whether both are one open file description (dup(2)); 0 if unknown. */
int abi_lin_file_same(s32 a, s32 b);

/* WAIT returns -EAGAIN here; a host that can wait makes the call itself. */
s64 abi_lin_file_lock(s32 handle, struct abi_filelock *lock);
struct abi_lin_lock_call {
	u64 nr, arg[6]; /* the last three are 0 */
	u64 flock[6];	/* room for the kernel's struct, which arg points to */
};
void abi_lin_file_lock_call(struct abi_lin_lock_call *to, s32 handle,
			    const struct abi_filelock *lock);

s64 abi_lin_path(struct abi_path_op *op);
/*
 * Where a guest's path is, for calls that take a folder and a name. Below a
 * root the folder is open and the name is one component; or, if a link at the
 * end was followed, the name is that of the file, which is held open. So if
 * others replace a folder or link afterwards, the place does not change.
 */
#define ABI_LIN_LINK 32
struct abi_lin_place {
	int fd;		  /* what abi_lin_place_close closes, or -1 */
	int dir;	  /* the folder, or AT_FDCWD */
	const char *name; /* in it, or in `link`, or the guest's path */
	char link[ABI_LIN_LINK];
};

/*
 * `follow`: a link at the end is followed, and the result must exist. Otherwise
 * the name need not exist, and the calls must not follow it. 0, or an errno as
 * of open(2), after which there is nothing to close. `guest` must remain valid
 * as long as `to`.
 */
s64 abi_lin_place(const char *guest, u32 follow, struct abi_lin_place *to);
void abi_lin_place_close(struct abi_lin_place *place);

/*
 * The host's path of that place, for operations that take no folder (programs,
 * sockets). If others rename folders before it is used, it may be another
 * file's.
 */
s64 abi_lin_path_host(const char *guest, char *buf, u64 len, u32 follow);
/* The guest's name of an open file: 0, -EXDEV, -ENAMETOOLONG. */
s64 abi_lin_handle_name(s32 handle, char *buf, u64 len);
/* Whether an open file is in procfs or sysfs: 1, 0, or a negative errno.
 * `stat` is the libc's, of that file. */
struct stat;
s64 abi_lin_is_own(int fd, const struct stat *st);
/* After ENOENT of `guest`: ELOOP, if a link on its way leads to what only abi
 * knows, as a number of a descriptor; else ENOENT. */
s64 abi_lin_missing(const char *guest);
/* open(2) of a guest's path: a descriptor, or a negative errno. */
s64 abi_lin_open(const char *guest, u32 flags, u32 mode);
/* Performs that call; -EAGAIN by openat2: a folder on the way was renamed, call
 * again. */
s64 abi_lin_call_open(struct abi_lin_call *to, const char *guest, u32 flags,
		      u32 mode);

/* Pointers to the libc's own structs. */
void abi_lin_stat_from(struct abi_stat *to, const void *st);
void abi_lin_statfs_from(struct abi_statfs *to, const void *sf);
void abi_lin_times_from(void *timespec2, const s64 times[2]);

s64 abi_lin_sock_open(u32 domain, u32 type, u32 protocol);
s64 abi_lin_sock(s32 handle, struct abi_sock_op *op);

/* Says what an open file is. Type 0: none that another process can use, as an
 * eventfd. */
void abi_lin_describe(s32 fd, struct abi_right *to);
/* sendmsg and recvmsg with op->rights; errno as in the libc. */
struct sockaddr;
s64 abi_lin_send(s32 handle, const struct abi_sock_op *op,
		 const struct sockaddr *sa, u32 len);
s64 abi_lin_receive(s32 handle, struct abi_sock_op *op, struct sockaddr *sa,
		    u32 *len);

#endif
