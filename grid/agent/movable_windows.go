// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"errors"

	"skep/grid/proto"
)

// A mover says how a node runs programs that can be moved; on Windows none can.
type mover struct{ bee string }

func (*Agent) findMover(string) mover { return mover{} }

func (*Agent) execMovable(context.Context, context.CancelFunc, *proto.Exec, *execStream) (int, error) {
	return 0, errors.New("a node on Windows cannot run movable programs")
}
