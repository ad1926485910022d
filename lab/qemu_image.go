// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"skep/internal/atomicfile"
)

// imageMax limits the size of an unpacked kernel; Debian's have less than 70 MiB.
const imageMax = 512 << 20

// plainImage returns the path of the ELF file inside the compressed image of kernel k,
// unpacked once into the build folder. QEMU boots the ELF file directly (PVH); unpacking
// in the emulator would take up to eight seconds at each boot. An image that is not packed
// like Debian's is booted unchanged.
func (m *Machine) plainImage(k *Kernel) (string, error) {
	info, err := os.Stat(k.Image())
	if err != nil {
		return "", err
	}
	dir := filepath.Join(m.Build, "lab", ".kernel")
	// The name depends on the image, so an older unpacked file is never used.
	name := fmt.Sprintf("%s-%x-%x", k.Release, info.Size(), info.ModTime().UnixNano())
	path := filepath.Join(dir, name)
	if exists(path) {
		return path, nil
	}
	packed, err := os.ReadFile(k.Image())
	if err != nil {
		return "", err
	}
	plain, err := UnpackImage(packed)
	if errors.Is(err, errPacking) {
		return k.Image(), nil
	}
	if err != nil {
		return "", fmt.Errorf("unpack %s: %w", k.Image(), err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	old, _ := filepath.Glob(filepath.Join(dir, k.Release+"-*"))
	torn, _ := filepath.Glob(filepath.Join(dir, ".new-*"))
	for _, t := range torn { // another process may be writing a recent one
		if info, err := os.Stat(t); err == nil && time.Since(info.ModTime()) > time.Hour {
			old = append(old, t)
		}
	}
	for _, o := range old {
		os.Remove(o)
	}
	return path, atomicfile.Write(path, plain, 0o644)
}

// errPacking says that an image is packed by an unsupported method.
var errPacking = errors.New("packed in an unknown way")

// UnpackImage returns the ELF file inside a compressed image, by the kernel's
// boot protocol: the setup header says where the payload is, whose last four
// bytes are its length when unpacked.
func UnpackImage(b []byte) ([]byte, error) {
	if len(b) < 0x264 || string(b[0x202:0x206]) != "HdrS" {
		return nil, errPacking
	}
	sectors := uint64(b[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	from := (sectors+1)*512 + uint64(binary.LittleEndian.Uint32(b[0x248:]))
	length := uint64(binary.LittleEndian.Uint32(b[0x24c:]))
	if length < 8 || from+length > uint64(len(b)) {
		return nil, errors.New("its header points outside of it: remove its folder and run make kernels")
	}
	payload := b[from : from+length-4]
	size := binary.LittleEndian.Uint32(b[from+length-4:])
	if size > imageMax {
		return nil, fmt.Errorf("its header speaks of %d bytes: remove its folder and run make kernels", size)
	}
	plain, err := unpackPayload(payload, int64(size))
	if err != nil {
		return nil, err
	}
	if len(plain) != int(size) || !bytes.HasPrefix(plain, []byte("\x7fELF")) {
		return nil, errors.New("what it holds is no kernel of the stated length: remove its folder and run make kernels")
	}
	return plain, nil
}

// unpackPayload unpacks a payload; it returns at most size bytes.
func unpackPayload(payload []byte, size int64) ([]byte, error) {
	switch {
	case bytes.HasPrefix(payload, []byte("\xfd7zXZ\x00")):
		xz := exec.Command("xz", "-dc", "--single-stream")
		xz.Stdin = bytes.NewReader(payload)
		var complaint strings.Builder
		xz.Stderr = &complaint
		pipe, err := xz.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := xz.Start(); err != nil {
			return nil, fmt.Errorf("%w: run make setup", err)
		}
		plain, err := io.ReadAll(io.LimitReader(pipe, size+1))
		pipe.Close()
		if e := xz.Wait(); err == nil && e != nil && int64(len(plain)) < size {
			err = fmt.Errorf("xz: %w: %s", e, strings.TrimSpace(complaint.String()))
		}
		return plain, err
	case bytes.HasPrefix(payload, []byte("\x28\xb5\x2f\xfd")):
		d, err := zstd.NewReader(bytes.NewReader(payload), zstd.WithDecoderMaxMemory(imageMax))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return io.ReadAll(io.LimitReader(d, size+1))
	}
	return nil, errPacking
}
