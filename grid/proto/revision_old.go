// SPDX-License-Identifier: MIT

//go:build skep_old_peer

package proto

// Revision of a peer two releases behind. Only tests build it.
const Revision = 1
