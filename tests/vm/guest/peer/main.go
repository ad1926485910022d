// SPDX-License-Identifier: MIT

//go:build linux

// Peer is a Go program of this computer that runs in guests: it talks to
// itself at another place and prints TAP. As `serve` it answers until it is
// killed; `bytes ADDRESS MIB` and `delay ADDRESS` are its two questions.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"
)

const port = ":7117"

var count, failed int

func printCheck(good bool, format string, args ...any) {
	count++
	word := ""
	if !good {
		word = "not "
		failed = 1
	}
	fmt.Printf("%sok %d - %s\n", word, count, fmt.Sprintf(format, args...))
}

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		err = servePeer()
	case len(os.Args) == 4 && os.Args[1] == "bytes":
		err = runTransfer(os.Args[2], os.Args[3])
	case len(os.Args) == 3 && os.Args[1] == "delay":
		err = measureDelay(os.Args[2])
	default:
		err = fmt.Errorf("usage: peer serve | bytes ADDRESS MIB | delay ADDRESS")
	}
	if err != nil {
		fmt.Printf("Bail out! %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("1..%d\n", count)
	os.Exit(failed)
}

// servePeer answers datagrams with themselves, and streams with the digest of what
// they said and then as many bytes of its own.
func servePeer() error {
	udp, err := net.ListenPacket("udp", port)
	if err != nil {
		return err
	}
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			udp.WriteTo(buf[:n], from)
		}
	}()
	tcp, err := net.Listen("tcp", port)
	if err != nil {
		return err
	}
	for {
		c, err := tcp.Accept()
		if err != nil {
			return err
		}
		if err := answerStream(c); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
		}
		c.Close()
	}
}

// noiseReader returns the same everywhere for the same seed.
func noiseReader(seed byte, size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), size)
}

func noiseDigest(seed byte, size int64) []byte {
	h := sha256.New()
	io.Copy(h, noiseReader(seed, size))
	return h.Sum(nil)
}

func answerStream(c net.Conn) error {
	var size int64
	if err := binary.Read(c, binary.LittleEndian, &size); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.CopyN(h, c, size); err != nil {
		return err
	}
	if _, err := c.Write(h.Sum(nil)); err != nil {
		return err
	}
	_, err := io.Copy(c, noiseReader(2, size))
	return err
}

// dialPeer tries until the other side is there.
func dialPeer(address string) (c net.Conn, err error) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if c, err = net.DialTimeout("tcp", address+port, time.Second); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func runTransfer(address, mib string) error {
	n, err := strconv.Atoi(mib)
	if err != nil {
		return err
	}
	size := int64(n) << 20
	c, err := dialPeer(address)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := binary.Write(c, binary.LittleEndian, size); err != nil {
		return err
	}
	if _, err := io.Copy(c, noiseReader(1, size)); err != nil {
		return err
	}
	theirs := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c, theirs); err != nil {
		return err
	}
	printCheck(bytes.Equal(theirs, noiseDigest(1, size)), "%d MiB arrived at %s as they were sent", n, address)
	h := sha256.New()
	got, err := io.Copy(h, c)
	if err != nil {
		return err
	}
	printCheck(got == size && bytes.Equal(h.Sum(nil), noiseDigest(2, size)), "%d MiB arrived from %s as they were sent", n, address)
	return nil
}

// measureDelay sends datagrams until some were answered and some were lost.
func measureDelay(address string) error {
	c, err := net.Dial("udp", address+port)
	if err != nil {
		return err
	}
	defer c.Close()
	sent, back := 0, 0
	least := time.Hour
	buf := make([]byte, 16)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && (back < 10 || back == sent); {
		began := time.Now()
		binary.LittleEndian.PutUint64(buf, uint64(sent))
		// Before the server is there, the kernel refuses for it.
		if _, err := c.Write(buf[:8]); err != nil {
			continue
		}
		sent++
		c.SetReadDeadline(began.Add(300 * time.Millisecond))
		n, err := c.Read(buf)
		if err == nil && n == 8 && binary.LittleEndian.Uint64(buf) == uint64(sent-1) {
			back++
			least = min(least, time.Since(began))
		}
	}
	fmt.Printf("# %d sent, %d back, the fastest in %v\n", sent, back, least)
	printCheck(back >= 10, "datagrams come back from %s", address)
	printCheck(least >= 40*time.Millisecond && least < time.Hour, "none is faster than two delays of 20 ms")
	printCheck(back < sent, "some get lost")
	return nil
}
