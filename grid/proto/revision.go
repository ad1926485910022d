// SPDX-License-Identifier: MIT

//go:build !skep_old_peer && !skep_former_peer

package proto

// Revision of the messages between hub and nodes in this package. What a peer of the former
// revision would misunderstand raises it; a field that a peer may overlook does not.
const Revision = 3
