// SPDX-License-Identifier: MIT

package part

// mostBacklog is how many bytes of output are kept that no console has shown.
const mostBacklog = 256 << 10

// A backlog is output that no console has confirmed, in order. What does not fit is
// dropped from its beginning, and counted.
type backlog struct {
	bytes   []byte
	dropped uint64
}

// room returns how much add takes without dropping anything.
func (b *backlog) room() int { return max(0, mostBacklog-len(b.bytes)) }

func (b *backlog) add(p []byte) { b.bytes = append(b.bytes, p...) }

// trim drops the oldest bytes that are too many.
func (b *backlog) trim() {
	if over := len(b.bytes) - mostBacklog; over > 0 {
		b.dropped += uint64(over)
		b.remove(over)
	}
}

// remove forgets the first n bytes.
func (b *backlog) remove(n int) {
	b.bytes = b.bytes[:copy(b.bytes, b.bytes[n:])]
}
