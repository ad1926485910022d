/* SPDX-License-Identifier: MIT */
/* System V IPC of x86-64 Linux: sysvipc(7), ipc(2). */
#ifndef ABI_UAPI_IPC_H
#define ABI_UAPI_IPC_H

#include <skep/types.h>

#define ABI_IPC_RMID 0
#define ABI_IPC_SET 1
#define ABI_IPC_STAT 2
#define ABI_IPC_INFO 3
#define ABI_SHM_LOCK 11
#define ABI_SHM_UNLOCK 12
#define ABI_SHM_STAT 13
#define ABI_SHM_INFO 14
#define ABI_SHM_STAT_ANY 15
#define ABI_SEM_GETPID 11
#define ABI_SEM_GETALL 13
#define ABI_SEM_SETALL 17
#define ABI_SEM_STAT 18
#define ABI_SEM_INFO 19
#define ABI_SEM_STAT_ANY 20
#define ABI_MSG_STAT 11
#define ABI_MSG_INFO 12
#define ABI_MSG_STAT_ANY 13

#define ABI_SHM_RDONLY 010000u
#define ABI_SHM_RND 020000u
#define ABI_SHM_REMAP 040000u
#define ABI_SHM_EXEC 0100000u

struct abi_shmid {
	u8 perm[48];
	u64 size;
	s64 atime, dtime, ctime;
	s32 cpid, lpid;
	u64 attached, unused[2];
};
SKEP_ASSERT_SIZE(struct abi_shmid, 112);

struct abi_semid {
	u8 perm[48];
	u64 otime, unused1, ctime, unused2;
	u64 count, unused3[2];
};
SKEP_ASSERT_SIZE(struct abi_semid, 104);

struct abi_msqid {
	u8 perm[48];
	s64 stime, rtime, ctime;
	u64 bytes, count, most;
	s32 lspid, lrpid;
	u64 unused[2];
};
SKEP_ASSERT_SIZE(struct abi_msqid, 120);

#define ABI_SHMINFO_SIZE 72  /* struct shminfo64, IPC_INFO */
#define ABI_SHM_INFO_SIZE 48 /* struct shm_info */
#define ABI_SEMINFO_SIZE 40
#define ABI_MSGINFO_SIZE 32
#define ABI_SEMBUF_SIZE 6 /* struct sembuf */

#endif
