// SPDX-License-Identifier: MIT

//go:build skep_former_peer

package proto

// Revision of a peer one release behind. Only tests build it.
const Revision = 2
