/* SPDX-License-Identifier: MIT */
/* Linux's socket numbers that differ from Windows', for sock.c, sockopt.c. */
#ifndef BEE_HOST_WINDOWS_SOCK_H
#define BEE_HOST_WINDOWS_SOCK_H

#include "win.h"

#define AF_INET_LINUX 2
#define AF_INET6_LINUX 10

/* SIO_UDP_CONNRESET of mstcpip.h, which not every tool chain has. */
#define SIO_UDP_CONNRESET_CODE 0x9800000C

#endif
