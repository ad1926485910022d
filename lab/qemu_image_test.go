// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// wrapPayload wraps a payload as the kernel's build does.
func wrapPayload(payload []byte, size int) []byte {
	b := make([]byte, 1024+0x100)
	b[0x1f1] = 1
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint32(b[0x248:], 0x100)
	binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(payload)+4))
	b = append(b, payload...)
	return binary.LittleEndian.AppendUint32(b, uint32(size))
}

func kernelText() []byte { return append([]byte("\x7fELF"), bytes.Repeat([]byte("text"), 5000)...) }

func zstdOf(t *testing.T, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(plain)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpackImage(t *testing.T) {
	plain := kernelText()
	xz := exec.Command("xz", "-c", "--check=crc32")
	xz.Stdin = bytes.NewReader(plain)
	packed, err := xz.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, payload := range map[string][]byte{"xz": packed, "zstd": zstdOf(t, plain)} {
		got, err := UnpackImage(wrapPayload(payload, len(plain)))
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestUnpackImage_refused(t *testing.T) {
	plain := kernelText()
	packed := zstdOf(t, plain)
	outside := wrapPayload(packed, len(plain))
	binary.LittleEndian.PutUint32(outside[0x24c:], 1<<30)
	for _, c := range []struct {
		name string
		b    []byte
		why  string
	}{
		{"shorter than it says", wrapPayload(packed, len(plain)+1), "stated length"},
		{"longer than it says", wrapPayload(packed, len(plain)-1), "stated length"},
		{"no ELF file", wrapPayload(zstdOf(t, []byte("MZ text")), 7), "stated length"},
		{"outside of the file", outside, "outside"},
		{"huge", wrapPayload(packed, imageMax+1), "speaks of"},
		{"damaged", wrapPayload(packed[:len(packed)/2], len(plain)), ""},
	} {
		if _, err := UnpackImage(c.b); err == nil || !strings.Contains(err.Error(), c.why) || errors.Is(err, errPacking) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for name, b := range map[string][]byte{"an unknown packing": wrapPayload([]byte("BZh9 text"), 4), "no image": []byte("x")} {
		if _, err := UnpackImage(b); !errors.Is(err, errPacking) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlainImage_cached(t *testing.T) {
	build := t.TempDir()
	k := fakeKernel(t, build)
	m := &Machine{Build: build}
	// An image of unknown format is booted unchanged.
	if got, err := m.plainImage(k); got != k.Image() || err != nil {
		t.Errorf("an empty image: %q, %v", got, err)
	}
	plain := kernelText()
	if err := os.WriteFile(k.Image(), wrapPayload(zstdOf(t, plain), len(plain)), 0o644); err != nil {
		t.Fatal(err)
	}
	path, err := m.plainImage(k)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("%s: %d bytes, %v", path, len(got), err)
	}
	other := append(plain, "more"...)
	if err := os.WriteFile(k.Image(), wrapPayload(zstdOf(t, other), len(other)), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := m.plainImage(k)
	if err != nil || again == path {
		t.Errorf("another image: %q, %v", again, err)
	}
	if exists(path) {
		t.Error("the old image's file is still there")
	}
}

func FuzzUnpackImage(f *testing.F) {
	f.Add(wrapPayload([]byte("\x28\xb5\x2f\xfd"), 4))
	f.Add(wrapPayload([]byte("BZh9"), 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Contains(b, []byte("7zXZ")) {
			t.Skip("would start a program for each input")
		}
		plain, err := UnpackImage(b)
		if err == nil && !bytes.HasPrefix(plain, []byte("\x7fELF")) {
			t.Error("no ELF file passes")
		}
	})
}
