// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
)

// nearHub notes what it is asked for.
type nearHub struct{ asked string }

func (h *nearHub) NearArgs(_ context.Context, node string, call, fence uint64) (io.ReadCloser, error) {
	h.asked = fmt.Sprint(node, call, fence)
	return io.NopCloser(strings.NewReader("args")), nil
}

func (h *nearHub) NearResult(_ context.Context, node string, call, fence, n uint64, body io.Reader) error {
	b, err := io.ReadAll(body)
	h.asked = fmt.Sprint(node, call, fence, n, string(b))
	return err
}

// The bytes of calls of a hub in this process need no client, and so no connection.
func TestNearHubNeedsNoConnection(t *testing.T) {
	t.Parallel()
	node, err := openNode(tempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	h := &nearHub{}
	l := &link{node: node, near: h}
	r, err := l.args(t.Context(), 7, 8, 4)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != "args" || h.asked != fmt.Sprint(node.ID(), 7, 8) {
		t.Errorf("%q, %v, asked for %s", b, err, h.asked)
	}
	err = l.result(t.Context(), 7, 8, 3, strings.NewReader("sum"), nil)
	if want := fmt.Sprint(node.ID(), 7, 8, 3, "sum"); err != nil || h.asked != want {
		t.Errorf("%v, gave %s, want %s", err, h.asked, want)
	}
}
