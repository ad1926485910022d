// SPDX-License-Identifier: MIT

//go:build skep_old_peer

package proto

// Revision of a peer that was not updated. Only tests build it.
const Revision = 1
