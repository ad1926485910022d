// SPDX-License-Identifier: MIT

package browser

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"skep/internal/load"
)

// limit is what one step of the browser may take on an idle computer.
const limit = 30 * time.Second

// A tab is one page of a headless Chromium, steered by the DevTools protocol over two
// pipes: messages are JSON and end with a byte of 0.
type tab struct {
	t       *testing.T
	to      *os.File
	from    chan message
	number  int
	session string
	events  []message
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// newTab starts a browser, which ends with the test.
func newTab(t *testing.T, program, dir string) *tab {
	t.Helper()
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--no-proxy-server", "--user-data-dir="+dir, "--remote-debugging-pipe", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
	cmd.ExtraFiles = []*os.File{in, out}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	b := &tab{t: t, to: to, from: make(chan message, 10000)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.read(from)
	}()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		to.Close()
		from.Close()
		<-ended
	})
	var target struct{ TargetID string }
	b.do(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	var session struct{ SessionID string }
	b.do(&session, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = session.SessionID
	for _, domain := range []string{"Page", "Network", "Log", "Runtime"} {
		b.do(nil, domain+".enable", nil)
	}
	return b
}

// read passes on what the browser says, until its end.
func (b *tab) read(from *os.File) {
	defer close(b.from)
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) == nil {
			b.from <- m
		}
	}
}

// do has a command carried out, and reads what it returns. Events that come meanwhile are kept.
func (b *tab) do(result any, method string, params any) {
	b.t.Helper()
	b.number++
	command := map[string]any{"id": b.number, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	number := b.number
	m := b.await(method, func(m message) bool { return m.ID == number })
	if m.Error != nil {
		b.t.Fatalf("%s: %s", method, m.Error.Message)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

// await returns the next message that fits.
func (b *tab) await(what string, fits func(message) bool) message {
	b.t.Helper()
	ctx, cancel := load.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		select {
		case m, ok := <-b.from:
			switch {
			case !ok:
				b.t.Fatalf("%s: the browser ended", what)
			case fits(m):
				return m
			case m.Method != "":
				b.events = append(b.events, m)
			}
		case <-ctx.Done():
			b.t.Fatalf("%s: the browser does not answer", what)
		}
	}
}

// open loads a page and waits until it is whole.
func (b *tab) open(link string) {
	b.t.Helper()
	var got struct{ ErrorText string }
	b.do(&got, "Page.navigate", map[string]any{"url": link})
	if got.ErrorText != "" {
		b.t.Fatalf("%s: %s", link, got.ErrorText)
	}
	b.awaitLoad()
}

func (b *tab) awaitLoad() {
	b.t.Helper()
	for i, m := range b.events {
		if m.Method == "Page.loadEventFired" {
			b.events = append(b.events[:i:i], b.events[i+1:]...)
			return
		}
	}
	b.await("the page", func(m message) bool { return m.Method == "Page.loadEventFired" })
}

// eval returns what an expression of JavaScript has as its value.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	var got struct {
		Result           struct{ Value T }
		ExceptionDetails *struct{ Text string }
	}
	b.do(&got, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	if got.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, got.ExceptionDetails.Text)
	}
	return got.Result.Value
}

// show sets the size of the window in pixels, and whether the user prefers dark pages.
func (b *tab) show(width, height int, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
	b.do(nil, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

// photograph writes what the window shows, as PNG, whose comment is the licence.
func (b *tab) photograph(file string) {
	b.t.Helper()
	var got struct{ Data []byte }
	b.do(&got, "Page.captureScreenshot", map[string]any{"format": "png"})
	const head = 8 + 25 // the signature, and the chunk IHDR
	comment := append([]byte("tEXtLicence\x00"), "SPDX-License-Identifier: MIT"...)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(comment)-4))
	chunk = binary.BigEndian.AppendUint32(append(chunk, comment...), crc32.ChecksumIEEE(comment))
	if len(got.Data) < head {
		b.t.Fatal("the picture is no PNG")
	}
	if err := os.WriteFile(file, slices.Concat(got.Data[:head], chunk, got.Data[head:]), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// drain lists the addresses that the browser asked for, and what it complained of in its log,
// since the last call.
func (b *tab) drain() (requests, complaints []string) {
	for _, m := range b.events {
		switch m.Method {
		case "Network.requestWillBeSent":
			var p struct{ Request struct{ URL string } }
			if json.Unmarshal(m.Params, &p) == nil {
				requests = append(requests, p.Request.URL)
			}
		case "Log.entryAdded", "Runtime.exceptionThrown", "Network.loadingFailed":
			complaints = append(complaints, fmt.Sprintf("%s: %s", m.Method, m.Params))
		}
	}
	b.events = nil
	return requests, complaints
}
