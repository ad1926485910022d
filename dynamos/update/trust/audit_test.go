// SPDX-License-Identifier: MIT

//go:build linux

package trust

import (
	"testing"
	"time"
)

// A hubLog is an audit log as an honest hub keeps it.
type hubLog struct {
	records []Record
	lines   []string
}

func (l *hubLog) add(a Record) {
	var last *Record
	if n := len(l.records); n > 0 {
		last = &l.records[n-1]
	}
	a.After(last)
	l.records, l.lines = append(l.records, a), append(l.lines, a.String())
}

// arpLog is the log of a roll: operators ordered it, and node n1 applied and committed it.
func arpLog(t *testing.T) (*hubLog, State) {
	t.Helper()
	p := arpPackage()
	roll, err := Describe(signedText(p.Encode(), alice, bob), start)
	if err != nil {
		t.Fatal(err)
	}
	l, node := &hubLog{}, newNode(t, fleetKeys())
	l.add(roll)
	for _, verb := range []string{VerbApplied, VerbCommit} {
		a := Record{Time: start, Who: "n1", What: verb, Line: "arp", Sequence: 7, Content: contentA}
		node = node.Report(&a)
		l.add(a)
	}
	return l, node
}

// arpDocument returns the only document of the tests' log.
func arpDocument(a *Record) ([]byte, bool) {
	p := arpPackage()
	if a.Content != contentA {
		return nil, true
	}
	return signedText(p.Encode(), alice, bob), true
}

func TestAuditLogIsFollowed(t *testing.T) {
	l, node := arpLog(t)
	for n := range l.lines { // in parts, as they come
		next, err := node.FollowAudit(l.lines[n:n+1], "n1", arpDocument)
		if err != nil {
			t.Fatal(err)
		}
		node = next
	}
	if node.Audit.Number != 3 || node.Audit.Digest != l.records[2].Digest() || len(node.Audit.Own) != 0 {
		t.Errorf("%+v", node.Audit)
	}
}

// Lines that a hub which was taken over forges, with the refusal's sentence.
func TestForgedAuditLines(t *testing.T) {
	at := func(l *hubLog, n int, spoil func(*Record)) { // with a chain that fits again
		old := l.records
		l.records, l.lines = nil, nil
		for i, a := range old {
			if i == n {
				spoil(&a)
			}
			l.add(a)
		}
	}
	for what, c := range map[string]struct {
		forge          func(l *hubLog)
		name, sentence string
	}{
		"a roll that no operator ordered": {func(l *hubLog) { at(l, 0, func(a *Record) { a.Content = contentB }) },
			Forged, "line 1 of the audit log is no act of operators: no signed document belongs to it"},
		"a key that did not sign": {func(l *hubLog) { at(l, 0, func(a *Record) { a.Keys = []string{carol.ID()} }) },
			Forged, "line 1 of the audit log is no act of operators: \"" + carol.ID() + "\" did not sign it"},
		"a key that signed once, named twice": {func(l *hubLog) { at(l, 0, func(a *Record) { a.Keys = []string{alice.ID(), alice.ID()} }) },
			Forged, "line 1 of the audit log is no act of operators: \"" + alice.ID() + "\" did not sign it"},
		"an order without a key": {func(l *hubLog) { at(l, 0, func(a *Record) { a.Keys = nil }) },
			Forged, "line 1 of the audit log is no act of operators: it names no key"},
		"another sequence": {func(l *hubLog) { at(l, 0, func(a *Record) { a.Sequence = 9 }) },
			Forged, "line 1 of the audit log is no act of operators: the signed document says something else"},
		"a revert instead of a roll": {func(l *hubLog) { at(l, 0, func(a *Record) { a.What = VerbRevert }) },
			Forged, "line 1 of the audit log is no act of operators: the signed document says something else"},
		"a node as the one who ordered": {func(l *hubLog) { at(l, 0, func(a *Record) { a.Who = "n1" }) },
			Forged, "line 1 of the audit log is no act of operators: the signed document says something else"},
		"a report that the node did not make": {func(l *hubLog) { at(l, 2, func(a *Record) { a.What = VerbReverted }) },
			Forged, "line 3 of the audit log says that this node reverted sequence 7 of arp, and it did not report that"},
		"another time of a report": {func(l *hubLog) { at(l, 1, func(a *Record) { a.Time = start.Add(time.Hour) }) },
			Forged, "line 2 of the audit log says that this node applied sequence 7 of arp, and it did not report that"},
		"the same report twice": {func(l *hubLog) { l.add(l.records[1]) },
			Forged, "line 4 of the audit log says that this node applied sequence 7 of arp, and it did not report that"},
		"a verb that there is not": {func(l *hubLog) { at(l, 1, func(a *Record) { a.What = "blessed" }) },
			Forged, "line 2 of the audit log says \"blessed\", which nobody can do"},
		"a number left out, in a chain that fits": {func(l *hubLog) {
			a := l.records[2]
			a.Number = 4
			l.lines[2] = a.String()
		}, Forged, "line 4 of the audit log does not follow line 2 that this node saw: the log was rewritten, or lines are missing"},
		"a line left out": {func(l *hubLog) { l.lines = append(l.lines[:1:1], l.lines[2]) },
			Forged, "line 3 of the audit log does not follow line 1 that this node saw: the log was rewritten, or lines are missing"},
		"a line changed in place": {func(l *hubLog) {
			a := l.records[1]
			a.Who = "n2"
			l.lines[1] = a.String()
		}, Forged, "line 3 of the audit log does not follow line 2 that this node saw: the log was rewritten, or lines are missing"},
		"a log that begins anew": {func(l *hubLog) { l.lines = append(l.lines, l.lines...) },
			Forged, "line 1 of the audit log does not follow line 3 that this node saw: the log was rewritten, or lines are missing"},
		"a line of eight words": {func(l *hubLog) { l.lines[1] = "2 a b c d e f g" },
			Malformed, "a line of the audit log has 8 words, not 9"},
		"a number with a zero before it": {func(l *hubLog) { l.lines[0] = "0" + l.lines[0] },
			Malformed, ""},
		"a number with a sign": {func(l *hubLog) { l.lines[0] = "+" + l.lines[0] },
			Malformed, ""},
	} {
		l, node := arpLog(t)
		c.forge(l)
		next, err := node.FollowAudit(l.lines, "n1", arpDocument)
		if c.sentence == "" {
			if Name(err) != c.name {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		refusedAs(t, what, err, c.name, c.sentence)
		if next.Audit.Number != node.Audit.Number || len(next.Audit.Own) != len(node.Audit.Own) {
			t.Errorf("%s: refused, and yet followed to line %d", what, next.Audit.Number)
		}
	}
}

// A hub may show any document of operators for a line. It must be the one that the line is about.
func TestLineOfAnotherDocument(t *testing.T) {
	for what, spoil := range map[string]func(a *Record){
		"another line of updates": func(a *Record) { a.Line = "brp" },
		"another package":         func(a *Record) { a.Content = contentB },
	} {
		l, node := arpLog(t)
		a := l.records[0]
		text, asked := arpDocument(&a)
		if !asked || len(text) == 0 {
			t.Fatal("no document")
		}
		spoil(&a)
		_, err := node.FollowAudit([]string{a.String()}, "n1", func(*Record) ([]byte, bool) { return text, true })
		refusedAs(t, what, err, Forged, "line 1 of the audit log is no act of operators: the signed document says something else")
	}
}

// A key that is not an operator's signs nothing for the log, whatever the hub adds to a document.
func TestStrangersKeyInTheLog(t *testing.T) {
	l, node := arpLog(t)
	p := arpPackage()
	text := signedText(p.Encode(), alice, bob, mallory)
	a := l.records[0]
	a.Keys = []string{mallory.ID()}
	_, err := node.FollowAudit([]string{a.String()}, "n1", func(*Record) ([]byte, bool) { return text, true })
	doc, parseErr := ParseSigned(signedText(p.Encode(), alice, bob, carol))
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	for i := range doc.Signatures {
		if doc.Signatures[i].Public == carol.Public {
			doc.Signatures[i].Bytes[5]++ // carol did not sign this
		}
	}
	a.Keys = []string{carol.ID()}
	_, forged := node.FollowAudit([]string{a.String()}, "n1", func(*Record) ([]byte, bool) { return doc.Encode(), true })
	refusedAs(t, "a signature that is not valid", forged, Forged, "line 1 of the audit log is no act of operators: \""+carol.ID()+"\" did not sign it")
	refusedAs(t, "a stranger's key", err, Forged, "line 1 of the audit log is no act of operators: \""+mallory.ID()+"\" did not sign it")
}

// Every document that operators sign has a line in the log.
func TestEachDocumentHasALine(t *testing.T) {
	p, r, k := arpPackage(), arpRevert(), fleetKeys()
	for want, text := range map[string][]byte{VerbRoll: p.Encode(), VerbRevert: r.Encode(), VerbKeys: k.Encode()} {
		a, err := Describe(signedText(text, alice, bob), start)
		if err != nil || a.What != want || len(a.Keys) != 2 {
			t.Errorf("%s: %+v, %v", want, a, err)
		}
		if again, err := ParseRecord(a.String()); err != nil || again.String() != a.String() {
			t.Errorf("%s: read as %+v, %v", want, again, err)
		}
	}
	if _, err := Describe(signedText([]byte("other 1\n"), alice), start); Name(err) != Malformed {
		t.Error(err)
	}
}
