// SPDX-License-Identifier: MIT

package part

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// KernelRelease returns the release in the header of a kernel file of Linux (a bzImage),
// such as 6.1.0-28-amd64.
func KernelRelease(file []byte) (string, error) {
	const magic, pointer, base, most = 0x202, 0x20e, 0x200, 128
	if len(file) < pointer+2 || string(file[magic:magic+4]) != "HdrS" {
		return "", errors.New("it is not a bzImage, as /boot/vmlinuz-... is")
	}
	at := base + int(binary.LittleEndian.Uint16(file[pointer:]))
	if at == base || at >= len(file) {
		return "", errors.New("its header has no release")
	}
	text := file[at:min(at+most, len(file))]
	end := bytes.IndexAny(text, " \x00")
	if end < 1 {
		return "", errors.New("its header has no release")
	}
	return string(text[:end]), nil
}
