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
	"slices"
	"strconv"
	"strings"
	"time"
)

// rpcCall measures the round trip of an empty call: master, hub, agent, worker and back. It
// starts its own hub and node. The peer is a TLS connection of two goroutines of one process,
// without any of these programs in between.
func (b *bench) rpcCall() error {
	figures, raw := map[string][]float64{}, map[string][]float64{}
	for range b.rounds {
		if err := echoTLS(raw); err != nil {
			return err
		}
		f, err := b.runMaster("call", strconv.Itoa(emptyCalls))
		if err != nil {
			return err
		}
		for key, ns := range f {
			figures[key] = append(figures[key], ns)
		}
	}
	fmt.Printf("round trip of an empty call through the hub, %d calls one after another:\n", emptyCalls)
	fmt.Printf("  %-10s %11s %11s\n", "", "skep", "raw TLS")
	for _, key := range []string{"tenth", "median", "ninetieth"} {
		fmt.Printf("  %-10s %8.0f us %8.0f us\n", key, medianOf(figures[key])/1000, medianOf(raw[key])/1000)
	}
	b.writeRecord("result bench=rpc_call op=empty skep_us=%.1f rawTLS_us=%.1f", medianOf(figures["median"])/1000, medianOf(raw["median"])/1000)
	return nil
}

const (
	megabytes  = 500
	emptyCalls = 5000
)

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

// echoTLS adds the nanoseconds of round trips of one int over loopback to the figures.
func echoTLS(figures map[string][]float64) error {
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			io.Copy(conn, conn) // an error ends the reader's side too
			conn.Close()
		}
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	var took []float64
	for one := make([]byte, 4); len(took) < emptyCalls; {
		begin := time.Now()
		if _, err := conn.Write(one); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, one); err != nil {
			return err
		}
		took = append(took, float64(time.Since(begin)))
	}
	slices.Sort(took)
	for key, at := range map[string]int{"tenth": emptyCalls / 10, "median": emptyCalls / 2, "ninetieth": emptyCalls * 9 / 10} {
		figures[key] = append(figures[key], took[at])
	}
	return nil
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
