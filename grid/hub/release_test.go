// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"io"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// endRun ends the run of m, which got an answer from each agent and said BYE.
func (m *fakeMaster) endRun() {
	m.t.Helper()
	m.send(uapi.TypeBye, 0, nil)
	if err := m.events.End(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// lastEvents reads events until their end and returns log lines, and nodes that were late
// or became silent.
func (m *fakeMaster) lastEvents() (texts, late []string) {
	m.t.Helper()
	for {
		e, err := m.events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return texts, late
		case err != nil:
			m.t.Fatal(err)
		case e.Type == "log":
			texts = append(texts, e.Text)
		case e.Type == "session" && e.State == SessionLate, e.Type == "node" && e.State == NodeSilent:
			late = append(late, e.Name)
		}
	}
}

// releaseTrio runs one call on an agent that answers Release if releases is true.
func releaseTrio(t *testing.T, change func(*Config), releases bool) (*world, *fakeMaster, *fakeAgent) {
	w := newWorld(t, change)
	a := w.join()
	a.connect()
	a.releasing = releases
	a.sendHello(1)
	a.askLeases(1)
	m := w.startBoundMaster()
	m.call(5, []byte("x"))
	a.sendDone(a.nextLease(), []byte("y"))
	m.readResult(5)
	return w, m, a
}

func TestRunEndsAfterTheLastLine(t *testing.T) {
	_, m, a := releaseTrio(t, nil, true)
	m.endRun()
	r := receiveFrom(t, "the release", a.releases)
	a.sendVerb(proto.VerbReleased, proto.Released{Session: "another"}, nil)
	a.sendVerb(proto.VerbLog, proto.Log{Session: r.Session, Text: "the last line"}, nil)
	a.sendVerb(proto.VerbReleased, proto.Released{Session: r.Session}, nil)
	texts, late := m.lastEvents()
	if len(texts) != 1 || texts[0] != "the last line" || len(late) != 0 {
		t.Errorf("%q, late %q", texts, late)
	}
}

// A node of an older release does not report the end, so no run waits for it.
func TestRunEndsWithoutOldNodes(t *testing.T) {
	_, m, a := releaseTrio(t, func(c *Config) { c.release = time.Hour }, false)
	m.endRun()
	receiveFrom(t, "the release", a.releases)
	if texts, late := m.lastEvents(); len(texts)+len(late) != 0 {
		t.Errorf("%q, late %q", texts, late)
	}
}

func TestRunEndsWhenItsNodeGoes(t *testing.T) {
	_, m, a := releaseTrio(t, func(c *Config) { c.release = time.Hour }, true)
	m.endRun()
	receiveFrom(t, "the release", a.releases)
	a.nats.Close()
	if _, late := m.lastEvents(); len(late) != 0 {
		t.Errorf("late %q", late)
	}
}

func TestRunNamesNodesThatDoNotReport(t *testing.T) {
	_, m, a := releaseTrio(t, func(c *Config) {
		c.release = 50 * time.Millisecond
		c.Sched.Silence = time.Hour // which would end the wait as well
	}, true)
	m.endRun()
	receiveFrom(t, "the release", a.releases)
	late := time.AfterFunc(testTimeout, func() { m.events.Close() })
	defer late.Stop()
	if _, late := m.lastEvents(); len(late) != 1 || late[0] != "pc" {
		t.Errorf("late %q", late)
	}
}

// A run whose reader has gone, and whose node does not answer, leaves nothing.
func TestClosedRunKeepsNoRelease(t *testing.T) {
	w, m, a := releaseTrio(t, nil, true)
	m.events.Close()
	receiveFrom(t, "the release", a.releases)
	waitUntil(t, "the end of the run", func() bool {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		return len(w.hub.masters)+len(w.hub.runs) == 0
	})
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if len(w.hub.releases) != 0 {
		t.Errorf("%d releases are kept", len(w.hub.releases))
	}
}

// Remaining masters end with the run.
func TestRunEndsItsMasters(t *testing.T) {
	w, m, a := releaseTrio(t, nil, true)
	if err := m.events.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := receiveFrom(t, "the release", a.releases)
	a.sendVerb(proto.VerbReleased, proto.Released{Session: r.Session}, nil)
	m.lastEvents()
	if n := w.hub.Status().Sessions; n != 0 {
		t.Errorf("%d sessions", n)
	}
	waitUntil(t, "the end of the run", func() bool {
		var p *proto.Problem
		return errors.As(m.events.End(t.Context()), &p)
	})
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if len(w.hub.releases) != 0 {
		t.Errorf("%d releases are kept", len(w.hub.releases))
	}
}

func TestRunEndsWhenItsNodeIsSilent(t *testing.T) {
	w, m, a := releaseTrio(t, func(c *Config) { c.release = time.Hour }, true)
	m.endRun()
	receiveFrom(t, "the release", a.releases)
	w.clock.advance(proto.SilentFor)
	ended := make(chan []string, 1)
	go func() { _, late := m.lastEvents(); ended <- late }()
	if late := receiveFrom(t, "the end of the run", ended); len(late) != 1 {
		t.Errorf("silent: %q", late)
	}
}
