// SPDX-License-Identifier: MIT

package proto

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestMessagesRoundTrip(t *testing.T) {
	want := Lease{Call: 1, Fence: 1 << 60, Session: "s", Worker: Worker{Module: "m", Init: "i"}, Length: 3, Inline: true,
		Init: &Init{Function: 1, Blob: "b"}, Name: "line\nbreak"}
	raw := []byte("a\nb\x00")
	b, err := Encode(want, raw)
	if err != nil {
		t.Fatal(err)
	}
	var got Lease
	rest, err := Decode(b, &got)
	if err != nil || !bytes.Equal(rest, raw) || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %q, %v", got, rest, err)
	}
	if _, err := Encode(want, make([]byte, MessageMax)); err == nil {
		t.Error("a message that the engine refuses was made")
	}
	for _, bad := range []string{"", "{}", "{\n", "[]\n", `{"call":-1}` + "\n"} {
		if _, err := Decode([]byte(bad), &got); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestSubjects(t *testing.T) {
	for _, s := range []string{FromNode("abc", VerbAsk), ToNode("abc", VerbAsk)} {
		if id, verb, ok := SplitSubject(s); id != "abc" || verb != VerbAsk || !ok {
			t.Errorf("%s: %q %q %v", s, id, verb, ok)
		}
	}
	for _, s := range []string{"", "skep.v1.node.", "skep.v1.node.abc", "skep.v1.node..ask", "skep.v1.node.abc.", "other.abc.ask"} {
		if _, _, ok := SplitSubject(s); ok {
			t.Errorf("%q was taken", s)
		}
	}
}

func TestCommonRevision(t *testing.T) {
	for _, c := range []struct {
		hub, node, common int
		text              string
	}{
		{3, 3, 3, ""}, {3, 2, 2, ""}, {2, 3, 2, ""}, {1, 1, 1, ""},
		{3, 1, 0, "revision 3 and the node revision 1: update the node's skep"},
		{1, 3, 0, "revision 1 and the node revision 3: update the hub's skep"},
		{1, 0, 0, "update the node's skep"}, {3, -1 << 63, 0, "update the node's skep"}, {3, 1<<63 - 1, 0, "update the hub's skep"},
	} {
		common, p := CommonRevision(c.hub, c.node)
		if common != c.common || (p == nil) != (c.text == "") || p != nil && (p.Code != ProblemRevision || !strings.Contains(p.Text, c.text)) {
			t.Errorf("%d and %d: %d, %+v", c.hub, c.node, common, p)
		}
	}
}

func TestExecFrames(t *testing.T) {
	var stream bytes.Buffer
	if err := WriteExec(&stream, ExecStdout, []byte("out")); err != nil {
		t.Fatal(err)
	}
	WriteExec(&stream, ExecStdin, nil)
	buf := make([]byte, ExecFrameMax)
	if k, b, err := ReadExec(&stream, buf); k != ExecStdout || string(b) != "out" || err != nil {
		t.Errorf("%v %q %v", k, b, err)
	}
	if k, b, err := ReadExec(&stream, buf); k != ExecStdin || len(b) != 0 || err != nil {
		t.Errorf("%v %q %v", k, b, err)
	}
	if _, _, err := ReadExec(&stream, buf); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if WriteExec(&stream, ExecStdout, make([]byte, ExecFrameMax+1)) == nil {
		t.Error("a frame that is too long was written")
	}
	for _, bad := range []string{"\x00\x00\x00\x00\x00", "\x63\x00\x00\x00\x00", "\x03\xff\xff\xff\xff", "\x03\x02\x00\x00\x00a", "\x03\x02"} {
		if _, _, err := ReadExec(strings.NewReader(bad), buf); err == nil || err == io.EOF {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
