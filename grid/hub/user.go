// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"net"
	"net/http"
)

// userKey is that of the user's name in a connection's context.
type userKey struct{}

// withUser records who connected to the control socket.
func withUser(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, userKey{}, peerUser(c))
}

// userOf names who asks, as the audit log does: user:UID:NAME.
func userOf(r *http.Request) string {
	if name, ok := r.Context().Value(userKey{}).(string); ok {
		return name
	}
	return "user"
}
