// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
	"skep/internal/uapi"
)

// makeFrame returns one frame of a worker.
func makeFrame(t uapi.FrameType, call uint64, flags uint16, payload []byte) []byte {
	head := make([]byte, uapi.FrameSize)
	uapi.PutFrame(head, uapi.Frame{Type: t, Flags: flags, Call: call, Length: uint32(len(payload))})
	return append(head, payload...)
}

// wireOf returns a wire on which a worker has sent these frames.
func wireOf(frames ...[]byte) *wire {
	return newWire(&stream{Reader: bytes.NewReader(bytes.Join(frames, nil))})
}

func checkText(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

// A worker begins with the HELLO of its protocol and of this revision.
func TestHelloOfAWorker(t *testing.T) {
	hello := func(magic, revision uint32) []byte {
		return makeFrame(uapi.TypeHello, 0, 0, uapi.Append(nil, uapi.Hello{Magic: magic, Revision: revision}))
	}
	for name, c := range map[string]struct {
		frame []byte
		want  string
	}{
		"its own":           {hello(uapi.SessionMagic, uapi.SessionRevision), ""},
		"nothing":           {nil, "EOF"},
		"another frame":     {makeFrame(uapi.TypeReady, 0, 0, make([]byte, 24)), "began with"},
		"another protocol":  {hello(1, uapi.SessionRevision), "link it with skep's worker library"},
		"an older revision": {hello(uapi.SessionMagic, uapi.SessionRevision-1), "build the worker with this version"},
		"a newer revision":  {hello(uapi.SessionMagic, uapi.SessionRevision+1), "update skep on this node"},
		"a short hello":     {makeFrame(uapi.TypeHello, 0, 0, []byte("x")), "1"},
	} {
		checkText(t, name, wireOf(c.frame).exchangeHello(), c.want)
	}
}

// An acknowledgement must not exceed the sent bytes, nor be smaller than an earlier one.
func TestAcknowledgements(t *testing.T) {
	count := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	for name, c := range map[string]struct {
		payload []byte
		want    string
	}{
		"nothing new": {count(10), ""}, "some": {count(15), ""}, "all": {count(20), ""},
		"less than before": {count(9), "between 10 and 20"}, "more than was sent": {count(21), "between 10 and 20"},
		"too short": {make([]byte, 7), "an ACK of 7 bytes"}, "too long": {make([]byte, 9), "an ACK of 9 bytes"},
	} {
		w := wireOf()
		w.acked, w.sent = 10, 20
		checkText(t, name, w.handleAck(c.payload), c.want)
		if c.want == "" && w.acked != binary.LittleEndian.Uint64(c.payload) {
			t.Errorf("%s: acknowledged are %d", name, w.acked)
		}
	}
}

// Keepalives and acknowledgements are not returned as answers. Read data is acknowledged when
// there is enough of it.
func TestReadingAWorker(t *testing.T) {
	large := make([]byte, uapi.AckEvery-uapi.FrameSize-1)
	w := wireOf(makeFrame(uapi.TypePing, 0, 0, nil), makeFrame(uapi.TypeAck, 0, 0, make([]byte, 8)), makeFrame(uapi.TypeData, 7, 1, large), makeFrame(uapi.TypeData, 7, 1, []byte("x")))
	out := &bytes.Buffer{}
	w.rw = struct {
		io.Reader
		io.Writer
		io.Closer
	}{nil, out, io.NopCloser(nil)}
	const ping = uapi.FrameSize // counts as received bytes too
	w.received = 0
	f, err := w.read(nil)
	if err != nil || f.Type != uapi.TypeData || f.Call != 7 || len(f.payload) != len(large) {
		t.Fatalf("%v of %d bytes, %v", f.Type, len(f.payload), err)
	}
	if want := uint64(ping + uapi.AckEvery - 1); w.received != want {
		t.Errorf("%d bytes count, want %d", w.received, want)
	}
	if out.Len() != uapi.FrameSize+8 || binary.LittleEndian.Uint64(out.Bytes()[uapi.FrameSize:]) != w.received {
		t.Errorf("acknowledged in %d bytes: %x", out.Len(), out.Bytes())
	}
	if f, err = w.read(f.payload); err != nil || string(f.payload) != "x" || out.Len() != uapi.FrameSize+8 {
		t.Errorf("%q, %v; %d bytes of acknowledgements", f.payload, err, out.Len())
	}
	if _, err := wireOf(makeFrame(uapi.TypeData, 7, 1, []byte("cut"))[:uapi.FrameSize+1]).read(nil); err == nil {
		t.Error("a frame that is cut was read")
	}
	if _, err := wireOf(makeFrame(uapi.TypeAck, 0, 0, []byte("x"))).read(nil); err == nil {
		t.Error("a broken ACK was read")
	}
}

// Data is sent in parts, of which the last is marked. A failure of the source is not reported as
// one of the worker.
func TestSendingData(t *testing.T) {
	for _, n := range []int{0, 1, 256 << 10, 256<<10 + 1} {
		out := &bytes.Buffer{}
		w := newWire(struct {
			io.Reader
			io.Writer
			io.Closer
		}{strings.NewReader(""), out, io.NopCloser(nil)})
		if err := w.sendData(7, bytes.NewReader(make([]byte, n)), uint64(n)); err != nil {
			t.Fatal(err)
		}
		in, got, parts := wireOf(out.Bytes()), 0, 0
		for last := false; !last; parts++ {
			f, err := in.readFrame(nil)
			if err != nil || f.Call != 7 || f.Type != uapi.TypeData {
				t.Fatalf("%d bytes: %v %v", n, f, err)
			}
			got, last = got+len(f.payload), f.Flags&uapi.FlagLast != 0
		}
		if got != n || (parts == 2) != (n > 256<<10) || parts > 2 {
			t.Errorf("%d bytes came as %d in %d parts", n, got, parts)
		}
		if w.silentFor() > time.Hour || w.unreadFor() != 0 || w.idle.Load() != 0 {
			t.Errorf("silent for %v, unread for %v", w.silentFor(), w.unreadFor())
		}
	}
	var source *sourceError
	if err := wireOf().sendData(7, strings.NewReader("short"), 6); !errors.As(err, &source) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short source: %v", err)
	}
}

// A worker that reads nothing is detected while a frame waits for the window.
func TestWindowOfAWorker(t *testing.T) {
	w := wireOf()
	w.sent = uapi.SessionWindow - 10
	if err := w.waitWindow(10); err != nil || w.sent != uapi.SessionWindow || w.unreadFor() != 0 {
		t.Fatalf("the window has room: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- w.waitWindow(1) }()
	waitUntil(t, "a frame that waits", func() bool { return w.unreadFor() > 0 })
	if err := w.handleAck(binary.LittleEndian.AppendUint64(nil, 1)); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil || w.sent != uapi.SessionWindow+1 || w.unreadFor() != 0 {
		t.Errorf("%v, %d sent", err, w.sent)
	}
}

// Answers of a worker that violate the protocol are refused.
func TestAnswersOfAWorker(t *testing.T) {
	result := func(n uint64) []byte {
		return makeFrame(uapi.TypeResult, 7, 0, uapi.Append(nil, uapi.Result{Length: n}))
	}
	data := func(call uint64, last uint16, text string) []byte {
		return makeFrame(uapi.TypeData, call, last, []byte(text))
	}
	failed := (&uapi.Error{Code: uapi.EWorker, Text: "no good"}).Encode()
	for name, c := range map[string]struct {
		frames [][]byte
		want   string
	}{
		"whole":                {[][]byte{result(4), data(7, 0, "ab"), data(7, 1, "cd")}, ""},
		"nothing":              {[][]byte{result(0), data(7, 1, "")}, ""},
		"fewer bytes":          {[][]byte{result(4), data(7, 1, "ab")}, "fewer bytes"},
		"more bytes":           {[][]byte{result(1), data(7, 1, "ab")}, "more bytes"},
		"an empty part":        {[][]byte{result(1), data(7, 0, "")}, "an empty part"},
		"another call's part":  {[][]byte{result(1), data(8, 1, "a")}, "inside a result"},
		"a stream that ends":   {[][]byte{result(1)}, "EOF"},
		"another call":         {[][]byte{makeFrame(uapi.TypeResult, 8, 0, nil)}, "of another call"},
		"another frame":        {[][]byte{makeFrame(uapi.TypeReady, 7, 0, nil)}, "where RESULT was due"},
		"a broken result":      {[][]byte{makeFrame(uapi.TypeResult, 7, 0, []byte("x"))}, "1"},
		"too much":             {[][]byte{result(11), data(7, 1, "")}, "announced a result of 11 bytes where the interface of f and its arguments allow 10"},
		"an error":             {[][]byte{makeFrame(uapi.TypeError, 7, 0, failed)}, "no good"},
		"a broken error":       {[][]byte{makeFrame(uapi.TypeError, 7, 0, []byte("x"))}, "1"},
		"an end instead of it": {nil, "EOF"},
	} {
		w := &worker{agent: &Agent{}, wire: wireOf(c.frames...)}
		l := &proto.Lease{Call: 7, Name: "f", Result: 10}
		a, err := w.run(t.Context(), l, strings.NewReader(""))
		var text []byte
		if err == nil {
			text, err = io.ReadAll(a)
		}
		checkText(t, name, err, c.want)
		sum := sha256.Sum256([]byte("abcd"))
		if name == "whole" && (string(text) != "abcd" || a.digestHex() != fmt.Sprintf("%x", sum)) {
			t.Errorf("%q, %s", text, a.digestHex())
		}
	}
	w := &worker{agent: &Agent{}, wire: wireOf(result(4))}
	_, err := w.run(t.Context(), &proto.Lease{Call: 7, Length: 5, Result: 10}, strings.NewReader("cut"))
	var source *sourceError
	if !errors.As(err, &source) {
		t.Errorf("arguments that are cut: %v", err)
	}
}

// Each answer needs bee's proof.
func TestProofOfBee(t *testing.T) {
	under := &Agent{bee: "bee"}
	for name, c := range map[string]struct {
		agent *Agent
		proof uapi.Proof
		want  string
	}{
		"without bee":         {&Agent{}, uapi.Proof{}, ""},
		"as it should be":     {under, uapi.Proof{Nonce: 9, Calls: 6}, ""},
		"no call more":        {under, uapi.Proof{Nonce: 9, Calls: 5}, ""},
		"fewer calls":         {under, uapi.Proof{Nonce: 9, Calls: 4}, "no system calls were counted"},
		"another nonce":       {under, uapi.Proof{Nonce: 8, Calls: 6}, "answer to the nonce is wrong"},
		"no calls in the end": {under, uapi.Proof{Nonce: 9}, "no system calls were counted"},
	} {
		w := &worker{agent: c.agent, nonce: 9, calls: 5}
		checkText(t, name, w.checkProof(c.proof), c.want)
		if c.want == "" && c.agent == under && w.calls != c.proof.Calls {
			t.Errorf("%s: %d calls", name, w.calls)
		}
		w.calls = 0
		ready := makeFrame(uapi.TypeReady, 0, 0, uapi.Append(nil, uapi.Ready{Proof: c.proof}))
		w.wire = wireOf(ready)
		if c.proof.Calls != 4 {
			checkText(t, name+", ready", w.waitReady(), c.want)
		}
	}
	for name, c := range map[string]struct {
		frame []byte
		want  string
	}{
		"an error": {makeFrame(uapi.TypeError, 0, 0, (&uapi.Error{Text: "no good"}).Encode()), "no good"},
		"a result": {makeFrame(uapi.TypeResult, 0, 0, nil), "where READY was due"},
		"broken":   {makeFrame(uapi.TypeReady, 0, 0, []byte("x")), "1"}, "the end": {nil, "EOF"},
	} {
		checkText(t, name, (&worker{agent: &Agent{}, wire: wireOf(c.frame)}).waitReady(), c.want)
	}
}

// bee's report must be of this run and of this program.
func TestReportsOfBee(t *testing.T) {
	a := &Agent{bee: "bee", reports: tempDir(t)}
	w := &worker{agent: a, nonce: 0x1f, dir: "w", id: proto.Worker{Module: "abc"}}
	for text, want := range map[string]string{
		"version 1\nnonce 1f\ncalls 10\nsha256_file abc\n": "", "nonce 1f\r\ncalls 10\r\nsha256_file abc\r\n": "",
		"nonce 2f\ncalls 10\nsha256_file abc\n": "is of another run", "nonce 1f\ncalls 10\nsha256_file abd\n": "another program",
		"nonce 1f\ncalls 10\n": "lacks nonce, calls or digest", "nonce x\ncalls 10\nsha256_file abc\n": "invalid syntax",
		"nonce 1f\ncalls x\nsha256_file abc\n": "invalid syntax", "": "lacks nonce",
	} {
		if err := os.WriteFile(w.reportFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		checkText(t, text, w.checkDigest(), want)
	}
	os.Remove(w.reportFile())
	checkText(t, "none", w.checkDigest(), "bee left no report")
	w.agent = &Agent{}
	checkText(t, "without bee", w.checkDigest(), "")
	if w.reportFile() != "" {
		t.Errorf("a report without bee: %q", w.reportFile())
	}
}

// bee's exit codes are converted to the guest's end, as a shell reports it.
func TestEndsOfPrograms(t *testing.T) {
	for _, c := range []struct {
		e      exit
		signal int
		status int
		text   string
	}{
		{exit{}, 0, 0, "exit status 0"}, {exit{Code: 128}, 0, 128, "exit status 128"}, {exit{Code: 129}, 1, 129, "signal 1 (SIGHUP)"},
		{exit{Code: 192}, 64, 192, "signal 64 (no common one)"}, {exit{Code: 193}, 0, 193, "exit status 193"},
		{exit{Signal: 9}, 9, 137, "signal 9 (SIGKILL)"}, {exit{Code: 137, Error: "lost"}, 0, 126, "lost"},
	} {
		got := c.e.underBee()
		if got.Signal != c.signal || got.status() != c.status || !strings.Contains(got.String(), c.text) {
			t.Errorf("%+v: %+v, %d, %s", c.e, got, got.status(), got)
		}
	}
}

// The message of each limit says how much was used, and who can raise the limit.
func TestExcessSaysWhoCanRaiseIt(t *testing.T) {
	owner := proto.Limits{Memory: 1 << 20, Processes: 10}
	for _, c := range []struct {
		e    excess
		want string
	}{
		{excess{proto.LimitMemory, 3 << 20, 1 << 20}, "it used 3 MiB of memory, more than the 1 MiB allowed; the node's owner can raise it with --limit-memory"},
		{excess{proto.LimitMemory, 3 << 20, 1 << 19}, "more than the 512 KiB allowed; ask for more with --memory"},
		{excess{proto.LimitProcesses, 12, 10}, "it used 12 processes and threads, more than the 10 allowed; the node's owner"},
		{excess{proto.LimitCPU, 1.25, 1}, "it used 1.25s of processor time, more than the 1s allowed; ask for more with --cpu-time"},
		{excess{proto.LimitWall, 61, 60}, "it used 1m1s of time, more than the 1m0s allowed"},
		{excess{proto.LimitDisk, 3 << 40, 1023}, "it used 3 TiB of disk, more than the 1023 B allowed"},
	} {
		checkText(t, "excess", errors.New(c.e.message(owner)), c.want)
	}
	if e := wallExcess(2*time.Second, 3*time.Second); e.Limit != proto.LimitWall || e.Used != 3 || e.Allowed != 2 {
		t.Errorf("%+v", e)
	}
	for n, want := range map[float64]string{1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 50: "1024 TiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%v is %s", n, got)
		}
	}
}

// The error for a node that cannot join or was refused says what to do.
func TestWhyThereIsNoHub(t *testing.T) {
	refused := &proto.Problem{Code: proto.ProblemToken, Text: "used up"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("post: %w", refused), "used up"}, {fmt.Errorf("tls: %w", ident.ErrWrongHub), ident.ErrWrongHub.Error()},
		{io.ErrUnexpectedEOF, "the hub at h:1 cannot be reached: is `skep up` running there"},
	} {
		if err := joinError("h:1", c.err); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	message, err := proto.Encode(proto.Stop{Text: "removed"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	silent, _ := proto.Encode(proto.Stop{}, nil)
	var p *proto.Problem
	if err := stopReason(message); !errors.As(err, &p) || p.Code != proto.ProblemToken || p.Text != "removed" {
		t.Errorf("%v", err)
	}
	for _, message := range [][]byte{silent, nil, []byte("x")} {
		if err := stopReason(message); errors.As(err, &p) || err == nil || !strings.Contains(err.Error(), "asked this node to stop") {
			t.Errorf("%q: %v", message, err)
		}
	}
}

// An error response that is not the hub's Problem is reported by its HTTP status.
func TestProblemsOfTheHub(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{404, "", errNoPath.Error()}, {500, "", "the hub answered 500"}, {500, `{"text": "full"}`, "full"}, {404, `{"text": "no call"}`, "no call"},
		{500, `{"text": ""}`, "the hub answered 500"}, {500, "x", "the hub answered 500"},
	} {
		resp := &http.Response{StatusCode: c.status, Status: fmt.Sprint(c.status), Body: io.NopCloser(strings.NewReader(c.body))}
		checkText(t, c.body, checkResponse(resp, 200), c.want)
	}
}

// A line is passed on whole, or cut with a mark. Characters that a file name cannot have become
// underscores.
func TestLinesOfAWorker(t *testing.T) {
	var said []string
	l := newLines(func(text string) { said = append(said, text) })
	for _, part := range []string{"one\r\ntw", "o\n", strings.Repeat("x", lineMax) + "\n", strings.Repeat("y", lineMax) + "z\n", "\n", "bee: first\nbee: last\n", "b\xffd\n", "rest"} {
		l.Write([]byte(part))
	}
	l.flush()
	want := []string{"one", "two", strings.Repeat("x", 1024), strings.Repeat("y", 1024) + " ...", "", "bee: first", "bee: last", "b?d", "rest"}
	if strings.Join(said, "\n") != strings.Join(want, "\n") || l.lastSentence() != "bee: last" {
		t.Errorf("%q, %q", said, l.lastSentence())
	}
	said = nil
	for range linesMax + 5 {
		l.Write([]byte("much\n"))
	}
	l.second = l.second.Add(-time.Second)
	l.Write([]byte("later\n"))
	if n := len(said); n < 2 || said[n-1] != "later" || !strings.HasPrefix(said[n-2], "(") || n > linesMax+2 {
		t.Errorf("%d lines: %q", n, said[max(n-3, 0):])
	}
	if name := keptName("aZ09/.é-" + strings.Repeat("x", 100)); name != "aZ09____"+strings.Repeat("x", 55) {
		t.Errorf("%q", name)
	}
}

// The first 256 KiB and the last 512 KiB of a worker's output are kept; the lines between them
// are counted.
func TestKeptBytes(t *testing.T) {
	dir := tempDir(t)
	k, err := newKeeper(dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 1023)
	for range 256 + 3*256 + 1 {
		k.add(line)
	}
	k.close()
	for part, want := range map[string]int64{".head": 256 << 10, ".before": 256 << 10, ".tail": 1 << 10} {
		if info, err := os.Stat(k.base + part); err != nil || info.Size() != want {
			t.Errorf("%s: %v, %v", part, info, err)
		}
	}
	if text, _ := os.ReadFile(k.base + ".gap"); string(text) != "(512 lines were here and are lost)\n" {
		t.Errorf("%q", text)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "*")); len(list) != 4 {
		t.Errorf("%q", list)
	}
}
