/* SPDX-License-Identifier: MIT */
/*
 * An input for the .guest section, so that it has the flags of read-only data;
 * the linker script gives it its size.
 */
	.section .guest,"rb"
	.skip 4096
