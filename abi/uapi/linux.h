/* SPDX-License-Identifier: MIT */
/*
 * Constants of the Linux ABI for x86-64 that memory and start-up need; file.h,
 * sock.h and time.h have the others. Values are those of the man pages mmap(2),
 * madvise(2), mremap(2), msync(2), mlock(2), getauxval(3).
 */
#ifndef ABI_LINUX_H
#define ABI_LINUX_H

#include "file.h"
#include "sock.h"

/* uname(2): the kernel release whose calls a program may expect. */
#define ABI_OSRELEASE "6.1.0-skep"

#define ABI_MAP_SHARED 0x01
#define ABI_MAP_PRIVATE 0x02
#define ABI_MAP_SHARED_VALIDATE 0x03
#define ABI_MAP_TYPE 0x0f
#define ABI_MAP_FIXED 0x10
#define ABI_MAP_ANONYMOUS 0x20
#define ABI_MAP_32BIT 0x40
#define ABI_MAP_GROWSDOWN 0x0100
#define ABI_MAP_DENYWRITE 0x0800
#define ABI_MAP_EXECUTABLE 0x1000
#define ABI_MAP_LOCKED 0x2000
#define ABI_MAP_NORESERVE 0x4000
#define ABI_MAP_POPULATE 0x8000
#define ABI_MAP_NONBLOCK 0x10000
#define ABI_MAP_STACK 0x20000
#define ABI_MAP_HUGETLB 0x40000
#define ABI_MAP_SYNC 0x80000
#define ABI_MAP_FIXED_NOREPLACE 0x100000

#define ABI_PROT_GROWSDOWN 0x01000000
#define ABI_PROT_GROWSUP 0x02000000

#define ABI_MREMAP_MAYMOVE 1
#define ABI_MREMAP_FIXED 2
#define ABI_MREMAP_DONTUNMAP 4

#define ABI_MS_ASYNC 1
#define ABI_MS_INVALIDATE 2
#define ABI_MS_SYNC 4

#define ABI_MADV_NORMAL 0
#define ABI_MADV_WILLNEED 3
#define ABI_MADV_DONTNEED 4
#define ABI_MADV_FREE 8
#define ABI_MADV_REMOVE 9
#define ABI_MADV_DONTFORK 10
#define ABI_MADV_DOFORK 11
#define ABI_MADV_MERGEABLE 12
#define ABI_MADV_DODUMP 17
#define ABI_MADV_WIPEONFORK 18
#define ABI_MADV_KEEPONFORK 19
#define ABI_MADV_COLD 20
#define ABI_MADV_PAGEOUT 21
#define ABI_MADV_POPULATE_READ 22
#define ABI_MADV_POPULATE_WRITE 23

#define ABI_MCL_CURRENT 1
#define ABI_MCL_FUTURE 2
#define ABI_MCL_ONFAULT 4
#define ABI_MLOCK_ONFAULT 1

#define ABI_AT_NULL 0
#define ABI_AT_PHDR 3
#define ABI_AT_PHENT 4
#define ABI_AT_PHNUM 5
#define ABI_AT_PAGESZ 6
#define ABI_AT_BASE 7
#define ABI_AT_FLAGS 8
#define ABI_AT_ENTRY 9
#define ABI_AT_UID 11
#define ABI_AT_EUID 12
#define ABI_AT_GID 13
#define ABI_AT_EGID 14
#define ABI_AT_PLATFORM 15
#define ABI_AT_HWCAP 16
#define ABI_AT_CLKTCK 17
#define ABI_AT_SECURE 23
#define ABI_AT_RANDOM 25
#define ABI_AT_HWCAP2 26
#define ABI_AT_EXECFN 31
#define ABI_AT_SYSINFO_EHDR 33
#define ABI_AT_MINSIGSTKSZ 51

/* getrlimit(2): the limits that abi itself uses. */
#define ABI_RLIMIT_CPU 0
#define ABI_RLIMIT_FSIZE 1
#define ABI_RLIMIT_DATA 2
#define ABI_RLIMIT_STACK 3
#define ABI_RLIMIT_CORE 4
#define ABI_RLIMIT_NPROC 6
#define ABI_RLIMIT_NOFILE 7
#define ABI_RLIMIT_MEMLOCK 8
#define ABI_RLIMIT_AS 9
#define ABI_RLIMIT_SIGPENDING 11
#define ABI_RLIM_INFINITY (~0ull)

#endif
