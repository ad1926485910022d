// SPDX-License-Identifier: MIT

//go:build !skep_old_peer

package proto

// Revision of all that this package describes. Unequal ones do not talk.
const Revision = 2
