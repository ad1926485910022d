// SPDX-License-Identifier: MIT

package launch

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A Record mirrors struct o2g_report of <skep/o2g_report.h>.
type Record struct {
	Magic, Revision uint32
	ID              [16]byte
	PID, Engine     uint32

	Sent, SentBytes         uint64
	Received, ReceivedBytes uint64
	Expected, Unexpected    uint64
	Requested, Self         uint64
	Waited, Resent          uint64

	MAC [32]byte
}

const (
	recordMagic    = 0x50473253
	recordRevision = 2
)

// parseRecord decodes a record and verifies its MAC with the job's secret.
func parseRecord(b, secret []byte) (Record, error) {
	var r Record
	if err := binary.Read(bytes.NewReader(b), binary.LittleEndian, &r); err != nil {
		return r, err
	}
	if r.Magic != recordMagic || r.Revision != recordRevision {
		return r, fmt.Errorf("a report of revision %d, this is revision %d", r.Revision, recordRevision)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("o2g report"))
	mac.Write(b[:len(b)-len(r.MAC)])
	if !hmac.Equal(mac.Sum(nil), r.MAC[:]) {
		return r, errors.New("a report without the job's secret")
	}
	return r, nil
}

// A Report is a record and the computer that it came from.
type Report struct {
	Record
	Host string
}

// A Collector receives the reports that endpoints send when they close.
type Collector struct {
	listener net.Listener
	secret   []byte
	work     sync.WaitGroup
	room     chan struct{} // semaphore: one element per open connection

	lock    sync.Mutex
	records map[[16]byte]Report
	conns   map[net.Conn]bool
	closed  bool
}

// recordTime limits how long an unauthenticated peer may keep a connection open.
const recordTime = 5 * time.Second

// recordMax is the number of connections that are read at a time; others stay in
// the kernel's backlog.
var recordMax = 1024

// NewCollector listens on address. secret has 64 hexadecimal digits.
func NewCollector(address, secret string) (*Collector, error) {
	key, err := hex.DecodeString(secret)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Collector{listener: l, secret: key, room: make(chan struct{}, recordMax),
		records: map[[16]byte]Report{}, conns: map[net.Conn]bool{}}
	c.work.Add(1)
	go c.accept()
	return c, nil
}

// Port returns the port that the collector listens on.
func (c *Collector) Port() int { return c.listener.Addr().(*net.TCPAddr).Port }

func (c *Collector) accept() {
	defer c.work.Done()
	for {
		// Wait instead of closing: a rank whose connection is closed would
		// believe that its report was read.
		c.room <- struct{}{}
		conn, err := c.listener.Accept()
		if err == nil && c.addReport(conn) {
			go c.read(conn)
			continue
		}
		<-c.room
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // for example EMFILE: try again
			continue
		}
		conn.Close()
	}
}

func (c *Collector) addReport(conn net.Conn) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.closed {
		return false
	}
	c.conns[conn] = true
	c.work.Add(1)
	return true
}

func (c *Collector) read(conn net.Conn) {
	defer c.work.Done()
	defer func() {
		c.lock.Lock()
		delete(c.conns, conn)
		c.lock.Unlock()
		conn.Close()
		<-c.room
	}()
	conn.SetDeadline(time.Now().Add(recordTime))
	b := make([]byte, binary.Size(Record{}))
	if _, err := io.ReadFull(conn, b); err != nil {
		return
	}
	r, err := parseRecord(b, c.secret)
	if err != nil {
		return // an unauthenticated peer
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.records[r.ID] = Report{r, hostOf(conn)}
}

// hostOf returns the address of a peer, without its port.
func hostOf(conn net.Conn) string {
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	return host
}

// acceptPending waits until those are accepted who connected before. A rank ends when the
// kernel has its report, and on a busy computer this process may not have accepted it yet.
// The kernel keeps the order, so a connection from here is accepted last.
func (c *Collector) acceptPending() {
	end := time.Now().Add(recordTime)
	last, err := net.DialTimeout("tcp", c.listener.Addr().String(), recordTime)
	if err != nil {
		return // nobody can connect
	}
	defer last.Close()
	last.SetDeadline(end)
	last.(*net.TCPConn).CloseWrite()
	last.Read(make([]byte, 1)) // end of file: it was accepted, and has no report
}

// Close stops listening, waits briefly for reports in transit, and returns all
// reports.
func (c *Collector) Close() []Report {
	c.acceptPending()
	c.lock.Lock()
	c.closed = true
	soon := time.Now().Add(time.Second)
	for conn := range c.conns {
		conn.SetDeadline(soon)
	}
	c.lock.Unlock()
	c.listener.Close()
	c.work.Wait()
	var list []Report
	for _, r := range c.records {
		list = append(list, r)
	}
	return list
}

// A Total is what all endpoints of a job reported.
type Total struct {
	Processes         int // ranks, and what they spawned
	Endpoints, Kernel int // Open MPI opens two in a process: one for messages, one for remote memory access
	Sent, SentBytes   uint64
	Expected          uint64
	Requested, Self   uint64
	Waited, Resent    uint64
}

// Sum adds the records.
func Sum(list []Report) Total {
	type process struct {
		host string
		pid  uint32
	}
	var t Total
	known := map[process]bool{}
	for _, r := range list {
		t.Endpoints++
		known[process{r.Host, r.PID}] = true
		if r.Engine == 1 {
			t.Kernel++
		}
		t.Sent += r.Sent
		t.SentBytes += r.SentBytes
		t.Expected += r.Expected
		t.Requested += r.Requested
		t.Self += r.Self
		t.Waited += r.Waited
		t.Resent += r.Resent
	}
	t.Processes = len(known)
	return t
}
