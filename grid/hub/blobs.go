// SPDX-License-Identifier: MIT

package hub

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"skep/grid/blob"
)

func openBlobs(cfg Config) (*blob.Store, error) {
	return blob.Open(filepath.Join(cfg.State, "blobs"), cfg.BlobLimit)
}

// putBlob stores what r returns; it is pinned for owner.
func (h *Hub) putBlob(r io.Reader, owner string) (sum [32]byte, err error) {
	text, _, err := h.blobs.Put(r, owner)
	if err != nil {
		return sum, err // says itself when the disk is full
	}
	sum, ok := parseDigest(text)
	if !ok {
		return sum, fmt.Errorf("the store returned %q as a digest", text)
	}
	return sum, nil
}

func (h *Hub) openBlob(sum [32]byte) (*os.File, error) {
	return h.blobs.Open(hex.EncodeToString(sum[:]))
}
