// SPDX-License-Identifier: MIT

package launch

import (
	"encoding/hex"
	"net"
	"testing"
	"time"
)

// TestCollectorReadsWhoWaits: a report that arrived before the end counts, though its
// connection is not accepted yet and its rank has ended.
func TestCollectorReadsWhoWaits(t *testing.T) {
	defer func(n int) { recordMax = n }(recordMax)
	recordMax = 1
	secret := NewSecret()
	key, _ := hex.DecodeString(secret)
	c, err := NewCollector("127.0.0.1:0", secret)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]net.Conn
	for i := range conns {
		if conns[i], err = net.Dial("tcp", c.listener.Addr().String()); err != nil {
			t.Fatal(err)
		}
	}
	silent, rank := conns[0], conns[1]
	if _, err := rank.Write(encodeRecord(t, Record{Magic: recordMagic, Revision: recordRevision, ID: [16]byte{1}, Sent: 10}, key)); err != nil {
		t.Fatal(err)
	}
	rank.Close()
	time.AfterFunc(200*time.Millisecond, func() { silent.Close() })
	if total := Sum(c.Close()); total.Endpoints != 1 || total.Sent != 10 {
		t.Errorf("got %+v", total)
	}
}
