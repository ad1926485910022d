// SPDX-License-Identifier: MIT

package lab

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
)

// startMonitor opens a monitor of a QEMU that gives these answers, and returns what it was asked.
func startMonitor(t *testing.T, answers ...string) (*monitor, error, chan string) {
	t.Helper()
	ours, file, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := net.FileConn(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	asked := make(chan string, len(answers))
	go func() {
		defer theirs.Close()
		fmt.Fprintln(theirs, `{"QMP": {"version": {}, "capabilities": []}}`)
		in := bufio.NewReader(theirs)
		for _, a := range answers {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			asked <- strings.TrimSpace(line)
			fmt.Fprintln(theirs, a)
		}
	}()
	m, err := openMonitor(ours)
	return m, err, asked
}

// Events and the greeting are skipped, and the text of a command that fails is the error.
func TestMonitor(t *testing.T) {
	m, err, asked := startMonitor(t, `{"return": {}}`,
		`{"event": "STOP", "timestamp": {}}`+"\n"+`{"return": ""}`,
		`{"return": "Error: no space left\r\n"}`,
		`{"error": {"class": "GenericError", "desc": "no such device"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.typeLine("savevm saved"); err != nil {
		t.Error(err)
	}
	if err := m.typeLine("savevm saved"); err == nil || !strings.HasSuffix(err.Error(), "savevm saved: Error: no space left") {
		t.Error(err)
	}
	if _, err := m.execute("cont", nil); err == nil || !strings.HasSuffix(err.Error(), "cont: no such device") {
		t.Error(err)
	}
	if err := m.typeLine("savevm saved"); err == nil {
		t.Error("a monitor that is gone saves")
	}
	if first, second := <-asked, <-asked; !strings.Contains(first, `"qmp_capabilities"`) || !strings.Contains(second, `"command-line":"savevm saved"`) {
		t.Errorf("asked %s and %s", first, second)
	}
}

// A machine whose QEMU ends at once cannot be saved.
func TestMonitorThatIsGone(t *testing.T) {
	if _, err, _ := startMonitor(t); err == nil {
		t.Error("it is opened")
	}
}
