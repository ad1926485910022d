// SPDX-License-Identifier: MIT

package lasting

// A ring keeps up to window bytes in their order.
type ring struct {
	b     []byte // as long as a power of two, or nil
	first int    // where the oldest byte is
	n     int    // how many bytes it has
}

// ringMin is how many bytes a ring has room for at first.
const ringMin = 4 << 10

// free returns how many bytes can be added.
func (r *ring) free() int { return window - r.n }

// add adds bytes, of which there are at most as many as can be.
func (r *ring) add(b []byte) {
	if r.n+len(b) > len(r.b) {
		r.grow(r.n + len(b))
	}
	at := (r.first + r.n) & (len(r.b) - 1)
	copy(r.b, b[copy(r.b[at:], b):])
	r.n += len(b)
}

func (r *ring) grow(n int) {
	size := max(ringMin, len(r.b))
	for size < n {
		size *= 2
	}
	b := make([]byte, size)
	r.copyAt(b, 0)
	r.b, r.first = b, 0
}

// copyAt copies bytes from the one after skip others on, as many as there are and b has room for.
func (r *ring) copyAt(b []byte, skip int) int {
	b = b[:min(len(b), r.n-skip)]
	if len(b) == 0 {
		return 0
	}
	at := (r.first + skip) & (len(r.b) - 1)
	copy(b[copy(b, r.b[at:]):], r.b)
	return len(b)
}

// drop removes the oldest n bytes.
func (r *ring) drop(n int) {
	r.n -= n
	if r.n == 0 {
		r.first = 0
		return
	}
	r.first = (r.first + n) & (len(r.b) - 1)
}

// trim gives the memory of an empty ring back.
func (r *ring) trim() {
	if r.n == 0 {
		*r = ring{}
	}
}
