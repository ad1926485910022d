// SPDX-License-Identifier: MIT

package lab

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"
)

// A monitor is QEMU's control channel, with the protocol QMP.
type monitor struct {
	conn net.Conn
	in   *json.Decoder
}

// monitorLimit is how long a command may take; saving a machine writes its memory.
const monitorLimit = 5 * time.Minute

func openMonitor(conn net.Conn) (*monitor, error) {
	m := &monitor{conn: conn, in: json.NewDecoder(conn)}
	_, err := m.execute("qmp_capabilities", nil)
	return m, err
}

// execute runs a command, and returns its result. Events and the greeting are skipped.
func (m *monitor) execute(command string, arguments map[string]string) (json.RawMessage, error) {
	if err := m.conn.SetDeadline(time.Now().Add(monitorLimit)); err != nil {
		return nil, err
	}
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := json.NewEncoder(m.conn).Encode(request); err != nil {
		return nil, fmt.Errorf("QEMU's monitor: %s: %w", command, err)
	}
	for {
		var reply struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := m.in.Decode(&reply); err != nil {
			return nil, fmt.Errorf("QEMU's monitor: %s: %w", command, err)
		}
		if reply.Error != nil {
			return nil, fmt.Errorf("QEMU's monitor: %s: %s", command, reply.Error.Desc)
		}
		if reply.Return != nil {
			return reply.Return, nil
		}
	}
}

// typeLine runs a command that QMP lacks. Such a command fails if it prints anything.
func (m *monitor) typeLine(line string) error {
	said, err := m.execute("human-monitor-command", map[string]string{"command-line": line})
	if err != nil {
		return err
	}
	var text string
	if err := json.Unmarshal(said, &text); err != nil {
		return err
	}
	if text != "" {
		return fmt.Errorf("QEMU's monitor: %s: %s", line, strings.TrimSpace(text))
	}
	return nil
}
