/* SPDX-License-Identifier: MIT */
/*
 * Linux's numbers for sockets that differ from Windows'; sock.c and sockopt.c
 * use them.
 */
#ifndef BEE_HOST_WINDOWS_SOCK_H
#define BEE_HOST_WINDOWS_SOCK_H

#include "win.h"

#define AF_INET_LINUX 2
#define AF_INET6_LINUX 10

/* SIO_UDP_CONNRESET of mstcpip.h, which not every tool chain has. */
#define SIO_UDP_CONNRESET_CODE 0x9800000C

#endif
