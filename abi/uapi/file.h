/* SPDX-License-Identifier: MIT */
/*
 * Constants and layouts of the Linux ABI for x86-64 that files, descriptors
 * and waiting need: open(2), fcntl(2), stat(2), poll(2), epoll(7), ioctl(2).
 */
#ifndef ABI_LINUX_FILE_H
#define ABI_LINUX_FILE_H

#include <skep/types.h>
#include "time.h"

#define ABI_O_RDONLY 0
#define ABI_O_WRONLY 1
#define ABI_O_RDWR 2
#define ABI_O_ACCMODE 3
#define ABI_O_CREAT 0x40
#define ABI_O_EXCL 0x80
#define ABI_O_NOCTTY 0x100
#define ABI_O_TRUNC 0x200
#define ABI_O_APPEND 0x400
#define ABI_O_NONBLOCK 0x800
#define ABI_O_DSYNC 0x1000
#define ABI_O_ASYNC 0x2000
#define ABI_O_DIRECT 0x4000
#define ABI_O_DIRECTORY 0x10000
#define ABI_O_NOFOLLOW 0x20000
#define ABI_O_NOATIME 0x40000
#define ABI_O_CLOEXEC 0x80000
#define ABI_O_SYNC 0x101000
#define ABI_O_LARGEFILE 0x8000
#define ABI_O_PATH 0x200000
#define ABI_O_TMPFILE 0x410000

#define ABI_S_IFMT 0170000
#define ABI_S_IFSOCK 0140000
#define ABI_S_IFLNK 0120000
#define ABI_S_IFREG 0100000
#define ABI_S_IFBLK 060000
#define ABI_S_IFDIR 040000
#define ABI_S_IFCHR 020000
#define ABI_S_IFIFO 010000

#define ABI_DT_UNKNOWN 0
#define ABI_DT_FIFO 1
#define ABI_DT_CHR 2
#define ABI_DT_DIR 4
#define ABI_DT_BLK 6
#define ABI_DT_REG 8
#define ABI_DT_LNK 10
#define ABI_DT_SOCK 12

#define ABI_AT_FDCWD (-100)
#define ABI_AT_SYMLINK_NOFOLLOW 0x100
#define ABI_AT_REMOVEDIR 0x200
#define ABI_AT_SYMLINK_FOLLOW 0x400
#define ABI_AT_NO_AUTOMOUNT 0x800
#define ABI_AT_EMPTY_PATH 0x1000
#define ABI_AT_EACCESS 0x200
#define ABI_AT_STATX_SYNC 0x6000

#define ABI_F_OK 0
#define ABI_X_OK 1
#define ABI_W_OK 2
#define ABI_R_OK 4

#define ABI_SEEK_SET 0
#define ABI_SEEK_CUR 1
#define ABI_SEEK_END 2
#define ABI_SEEK_DATA 3
#define ABI_SEEK_HOLE 4

#define ABI_F_DUPFD 0
#define ABI_F_GETFD 1
#define ABI_F_SETFD 2
#define ABI_F_GETFL 3
#define ABI_F_SETFL 4
#define ABI_F_GETLK 5
#define ABI_F_SETLK 6
#define ABI_F_SETLKW 7
#define ABI_F_SETOWN 8
#define ABI_F_GETOWN 9
#define ABI_F_DUPFD_CLOEXEC 1030
#define ABI_F_SETPIPE_SZ 0x407
#define ABI_F_GETPIPE_SZ 0x408
#define ABI_F_ADD_SEALS 0x409
#define ABI_F_GET_SEALS 0x40a
#define ABI_FD_CLOEXEC 1
#define ABI_F_RDLCK 0
#define ABI_F_WRLCK 1
#define ABI_F_UNLCK 2
#define ABI_LOCK_SH 1
#define ABI_LOCK_EX 2
#define ABI_LOCK_NB 4
#define ABI_LOCK_UN 8

#define ABI_POLLIN 1
#define ABI_POLLPRI 2
#define ABI_POLLOUT 4
#define ABI_POLLERR 8
#define ABI_POLLHUP 16
#define ABI_POLLNVAL 32
#define ABI_POLLRDNORM 0x40
#define ABI_POLLRDBAND 0x80
#define ABI_POLLWRNORM 0x100
#define ABI_POLLWRBAND 0x200
#define ABI_POLLMSG 0x400
#define ABI_POLLRDHUP 0x2000

#define ABI_EPOLLEXCLUSIVE 0x10000000
#define ABI_EPOLLWAKEUP 0x20000000
#define ABI_EPOLLONESHOT 0x40000000
#define ABI_EPOLLET 0x80000000u
#define ABI_EPOLL_CTL_ADD 1
#define ABI_EPOLL_CTL_DEL 2
#define ABI_EPOLL_CTL_MOD 3
#define ABI_EPOLL_CLOEXEC 0x80000

#define ABI_EFD_SEMAPHORE 1
#define ABI_EFD_CLOEXEC 0x80000
#define ABI_EFD_NONBLOCK 0x800
#define ABI_TFD_CLOEXEC 0x80000
#define ABI_TFD_NONBLOCK 0x800
#define ABI_TFD_TIMER_ABSTIME 1
#define ABI_TFD_TIMER_CANCEL_ON_SET 2

#define ABI_RWF_HIPRI 1
#define ABI_RWF_DSYNC 2
#define ABI_RWF_SYNC 4
#define ABI_RWF_NOWAIT 8
#define ABI_RWF_APPEND 16
#define ABI_RENAME_NOREPLACE 1
#define ABI_RENAME_EXCHANGE 2
#define ABI_RENAME_WHITEOUT 4
#define ABI_UTIME_NOW 0x3fffffff
#define ABI_UTIME_OMIT 0x3ffffffe

#define ABI_STATX_BASIC_STATS 0x7ff
#define ABI_STATX_BTIME 0x800
#define ABI_STATX__RESERVED 0x80000000
#define ABI_CLOSE_RANGE_UNSHARE 2
#define ABI_CLOSE_RANGE_CLOEXEC 4
#define ABI_FALLOC_FL_KEEP_SIZE 1

#define ABI_TCGETS 0x5401
#define ABI_TCSETS 0x5402
#define ABI_TCSETSW 0x5403
#define ABI_TCSETSF 0x5404
#define ABI_TIOCGWINSZ 0x5413
#define ABI_TIOCSWINSZ 0x5414
#define ABI_TIOCGPGRP 0x540f
#define ABI_TIOCSPGRP 0x5410
#define ABI_TIOCSCTTY 0x540e
#define ABI_TIOCGSID 0x5429
#define ABI_FIONREAD 0x541b
#define ABI_FIONBIO 0x5421
#define ABI_FIOASYNC 0x5452
#define ABI_FIOCLEX 0x5451
#define ABI_FIONCLEX 0x5450
#define ABI_TIOCOUTQ 0x5411

#define ABI_PIPE_BUF 4096
#define ABI_IOV_MAX 1024

struct abi_iovec {
	u64 base, len;
};

struct abi_pollfd {
	s32 fd;
	u16 events, revents;
};
SKEP_ASSERT_SIZE(struct abi_pollfd, 8);

struct abi_epoll_event {
	u32 events;
	u64 data;
} __attribute__((packed));
SKEP_ASSERT_SIZE(struct abi_epoll_event, 12);

/* struct stat of x86-64 programs. */
struct abi_linux_stat {
	u64 dev, ino, nlink;
	u32 mode, uid, gid, pad;
	u64 rdev, size, blksize, blocks;
	struct abi_timespec atime, mtime, ctime;
	u64 unused[3];
};
SKEP_ASSERT_SIZE(struct abi_linux_stat, 144);

struct abi_statx_time {
	s64 sec;
	u32 nsec, pad;
};

struct abi_linux_statx {
	u32 mask, blksize;
	u64 attributes;
	u32 nlink, uid, gid;
	u16 mode, pad;
	u64 ino, size, blocks, attributes_mask;
	struct abi_statx_time atime, btime, ctime, mtime;
	u32 rdev_major, rdev_minor, dev_major, dev_minor;
	u64 unused[14];
};
SKEP_ASSERT_SIZE(struct abi_linux_statx, 256);

struct abi_linux_statfs {
	u64 type, bsize, blocks, bfree, bavail, files, ffree;
	u32 fsid[2];
	u64 namelen, frsize, flags, unused[4];
};
SKEP_ASSERT_SIZE(struct abi_linux_statfs, 120);

#endif
