// SPDX-License-Identifier: MIT

//go:build !skep_old_peer

package proto

// Revision of the protocol in this package. Peers with unequal revisions refuse each other.
const Revision = 2
