/* SPDX-License-Identifier: MIT */
/* Constants and layouts for sockets: socket(2), socket(7), tcp(7), recv(2). */
#ifndef ABI_LINUX_SOCK_H
#define ABI_LINUX_SOCK_H

#include <skep/types.h>

#define ABI_AF_UNSPEC 0
#define ABI_AF_UNIX 1
#define ABI_AF_INET 2
#define ABI_AF_INET6 10
#define ABI_AF_NETLINK 16
#define ABI_SOCK_STREAM 1
#define ABI_SOCK_DGRAM 2
#define ABI_SOCK_RAW 3
#define ABI_SOCK_SEQPACKET 5
#define ABI_SOCK_TYPE_MASK 0xf
#define ABI_SOCK_TYPE_MASK 0xf
#define ABI_SOCK_NONBLOCK 0x800
#define ABI_SOCK_CLOEXEC 0x80000

#define ABI_SOL_SOCKET 1
#define ABI_SO_DEBUG 1
#define ABI_SO_REUSEADDR 2
#define ABI_SO_TYPE 3
#define ABI_SO_ERROR 4
#define ABI_SO_DONTROUTE 5
#define ABI_SO_BROADCAST 6
#define ABI_SO_SNDBUF 7
#define ABI_SO_RCVBUF 8
#define ABI_SO_KEEPALIVE 9
#define ABI_SO_OOBINLINE 10
#define ABI_SO_LINGER 13
#define ABI_SO_REUSEPORT 15
#define ABI_SO_PASSCRED 16
#define ABI_SO_PEERCRED 17
#define ABI_SO_RCVLOWAT 18
#define ABI_SO_SNDLOWAT 19
#define ABI_SO_RCVTIMEO 20
#define ABI_SO_SNDTIMEO 21
#define ABI_SO_RCVTIMEO_NEW 66
#define ABI_SO_SNDTIMEO_NEW 67
#define ABI_SO_ACCEPTCONN 30
#define ABI_SO_RCVTIMEO_NEW 66
#define ABI_SO_SNDTIMEO_NEW 67
#define ABI_SO_PROTOCOL 38
#define ABI_SO_DOMAIN 39
#define ABI_SO_TIMESTAMP 29

#define ABI_IPPROTO_IP 0
#define ABI_IPPROTO_TCP 6
#define ABI_IPPROTO_UDP 17
#define ABI_IPPROTO_IPV6 41
#define ABI_TCP_NODELAY 1
#define ABI_TCP_MAXSEG 2
#define ABI_TCP_CORK 3
#define ABI_TCP_KEEPIDLE 4
#define ABI_TCP_KEEPINTVL 5
#define ABI_TCP_KEEPCNT 6
#define ABI_TCP_INFO 11
#define ABI_TCP_QUICKACK 12
#define ABI_TCP_USER_TIMEOUT 18
#define ABI_IPV6_V6ONLY 26

#define ABI_MSG_OOB 1
#define ABI_MSG_PEEK 2
#define ABI_MSG_DONTROUTE 4
#define ABI_MSG_CTRUNC 8
#define ABI_MSG_TRUNC 32
#define ABI_MSG_DONTWAIT 0x40
#define ABI_MSG_EOR 0x80
#define ABI_MSG_WAITALL 0x100
#define ABI_MSG_NOSIGNAL 0x4000
#define ABI_MSG_MORE 0x8000
#define ABI_MSG_WAITFORONE 0x10000
#define ABI_MSG_CMSG_CLOEXEC 0x40000000
#define ABI_MSG_ERRQUEUE 0x2000
#define ABI_SCM_RIGHTS 1
#define ABI_SCM_CREDENTIALS 2
#define ABI_SHUT_RD 0
#define ABI_SHUT_WR 1
#define ABI_SHUT_RDWR 2
#define ABI_SOMAXCONN 4096

struct abi_msghdr {
	u64 name;
	u32 namelen, pad1;
	u64 iov, iovlen, control, controllen;
	u32 flags, pad2;
};
SKEP_ASSERT_SIZE(struct abi_msghdr, 56);

struct abi_mmsghdr {
	struct abi_msghdr hdr;
	u32 len, pad;
};
SKEP_ASSERT_SIZE(struct abi_mmsghdr, 64);

#endif
