// SPDX-License-Identifier: MIT

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"strconv"
	"strings"
	"time"
)

// rpcCall measures the round trip of an empty call: master, hub, agent, worker and back. It
// starts its own hub and node.
func (b *bench) rpcCall() error {
	figures := map[string][]float64{}
	for range b.rounds {
		f, err := b.runMaster("call", "5000")
		if err != nil {
			return err
		}
		for key, ns := range f {
			figures[key] = append(figures[key], ns)
		}
	}
	fmt.Println("round trip of an empty call through the hub, 5000 calls one after another:")
	for _, key := range []string{"tenth", "median", "ninetieth"} {
		fmt.Printf("  %-10s %8.0f us\n", key, medianOf(figures[key])/1000)
	}
	b.writeRecord("result bench=rpc_call op=empty skep_us=%.1f", medianOf(figures["median"])/1000)
	return nil
}

const megabytes = 500

// rpcArgument measures the time from a call until its function has received all of a large
// argument. The peer is one TLS connection on this machine with the same bytes. Rounds
// alternate. The first round of each run also fetches the program, so it is omitted.
func (b *bench) rpcArgument() error {
	var skep, raw []float64
	for range b.rounds {
		ns, err := rawTLS(megabytes * 1000000)
		if err != nil {
			return err
		}
		raw = append(raw, ns)
		f, err := b.runMaster("argument", strconv.Itoa(megabytes), "2")
		if err != nil {
			return err
		}
		skep = append(skep, f["entry1"])
	}
	rate := func(ns float64) float64 { return megabytes / (ns / 1e9) }
	fmt.Printf("an argument of %d MB, from the call to the function's entry:\n", megabytes)
	fmt.Printf("  %-10s %8.0f MB/s\n  %-10s %8.0f MB/s\n", "skep", rate(medianOf(skep)), "raw TLS", rate(medianOf(raw)))
	b.writeRecord("result bench=rpc_argument op=%dMB skep_mbs=%.0f rawTLS_mbs=%.0f", megabytes, rate(medianOf(skep)), rate(medianOf(raw)))
	return nil
}

// runMaster runs the benches' master with a hub of its own.
func (b *bench) runMaster(args ...string) (figures, error) {
	argv := append([]string{b.binPath("skep"), "run", "--state", "none", "--slots", "1",
		"--modules", b.build + "/bench/rpc", "--", b.build + "/bench/rpc/master"}, args...)
	out, err := b.makeCommand(side{}, argv...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	f, _ := parseFigures(out)
	return f, nil
}

// rawTLS sends bytes from one buffer to another over loopback and returns the nanoseconds
// until the last byte has arrived.
func rawTLS(size int) (float64, error) {
	cert, err := selfSigned()
	if err != nil {
		return 0, err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		return 0, err
	}
	defer l.Close()
	sent, got := make([]byte, size), make([]byte, size)
	for i := range sent {
		sent[i], got[i] = byte(i), 1 // so that the pages of both are allocated
	}
	begin := make(chan time.Time, 1)
	failed := make(chan error, 1)
	go func() { failed <- serveOnce(l, sent, begin) }()
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{1}); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(conn, got); err != nil {
		return 0, err
	}
	ns := float64(time.Since(<-begin))
	return ns, <-failed
}

func serveOnce(l net.Listener, sent []byte, begin chan<- time.Time) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return err
	}
	begin <- time.Now()
	_, err = conn.Write(sent)
	return err
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
