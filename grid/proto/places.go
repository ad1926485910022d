// SPDX-License-Identifier: MIT

package proto

// DataMax is the number of bytes that one piece of stored data may have.
const DataMax = 1 << 48

// Places checks where pieces of stored data lie in the bytes of a call, one after the other.
type Places struct {
	Within uint64 // bytes that there are
	end    uint64 // of the piece before
}

// Next reports whether a piece is behind the one before, not too long, and within the bytes.
func (p *Places) Next(offset, length uint64) bool {
	if offset < p.end || length > DataMax || offset > p.Within || length > p.Within-offset {
		return false
	}
	p.end = offset + length
	return true
}
