// SPDX-License-Identifier: MIT

package rolls

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
	"skep/internal/atomicfile"
	"skep/internal/cli"
)

// ErrNoRoll says that the hub has no roll of an update.
var ErrNoRoll = errors.New("there is no roll of this update: 'skep update rolls' lists them")

// A Hub keeps rolls in a folder, one file for each update's name. What must survive is on
// disk before a node is told of it.
type Hub struct {
	dir string
	now func() time.Time // monotonic
	say func(name, text string)

	mu      sync.Mutex
	journal *journal
	rolls   map[string]*record
	damaged map[string]damage // by the name of the file
	harmed  *harmed
}

// A damage is a record that cannot be read. Its file stays until an operator forgets it:
// whether the update harmed a node is not known any more, so no roll of it may begin.
type damage struct {
	at  time.Time // of the file
	why error
}

const (
	ceiling   = 30 * time.Second // how far a stored roll's clock may run on
	askEvery  = 5 * time.Second  // a node that does not report is told of the roll
	extension = ".json"
)

// OpenHub reads the rolls of a folder, and creates it if it is missing. A record that
// cannot be read is listed as damaged, and its nodes get no orders. say gets a line for
// each event; it must not call the Hub.
func OpenHub(dir string, now func() time.Time, say func(name, text string)) (*Hub, error) {
	h := &Hub{dir: dir, now: now, say: say, rolls: map[string]*record{}, damaged: map[string]damage{}}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if h.journal = openJournal(dir); h.journal.why != nil {
		say("audit", h.journal.why.Error())
	}
	if h.harmed = openHarmed(dir); h.harmed.why != nil {
		say("harmed", h.harmed.why.Error())
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+extension))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), extension)
		r, err := readRecord(file, name)
		if err == nil {
			err = r.resumeAudit(h.journal, now())
		}
		if err != nil {
			d := damage{why: fmt.Errorf("the record %s is damaged: restore it and restart the hub, or remove it by 'skep update rolls --forget %s': %w", file, name, err)}
			if info, err := os.Lstat(file); err == nil {
				d.at = info.ModTime()
			}
			h.damaged[name] = d
			say(name, d.why.Error())
			continue
		}
		h.begin(r, r.Ceiling)
		h.rolls[name] = r
	}
	return h, nil
}

// readRecord reads the record of an update's roll.
func readRecord(file, name string) (*record, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if err := r.Spec.Check(); err != nil {
		return nil, err
	}
	h := r.Roll
	if h == nil || h.Nodes == nil || r.Spec.Name != name {
		return nil, errors.New("it is not the record of this roll")
	}
	if err := checkPlan(&h.Plan, &r.Spec); err != nil {
		return nil, err
	}
	if h.State > roll.Stopped || h.Begun < 0 || h.Begun > len(h.Plan.Waves) || r.Ceiling < 0 || len(h.Nodes) > nodesMax {
		return nil, errors.New("a number is out of range")
	}
	for node, m := range h.Nodes {
		if m == nil {
			return nil, fmt.Errorf("it knows nothing of the node %.80q", node)
		}
	}
	return r, nil
}

func (h *Hub) begin(r *record, base time.Duration) {
	r.base, r.began, r.asked = base, h.now(), map[string]time.Time{}
	r.written = markOf(r.Roll)
}

func (h *Hub) clock(r *record) time.Duration { return r.base + h.now().Sub(r.began) }

// settle stores a roll if it changed. If it cannot be stored, the roll gives no orders:
// the leases end, and the roll goes on when it can be stored again.
func (h *Hub) settle(r *record, of string) {
	ahead := ceiling
	if r.over() {
		ahead *= 4
	}
	entries := r.turn(h.now())
	if of == "" { // what nodes did is written with the next tick, not with each report
		entries = append(entries, r.steps(h.now())...)
	}
	late := h.clock(r)+ceiling/2 > r.Ceiling
	if !late && len(entries) == 0 && r.broken == nil && !r.changed(of) {
		return
	}
	lines := r.describe()
	for _, text := range lines {
		r.note(h.now(), text)
	}
	if late {
		r.Ceiling = h.clock(r) + ahead
	}
	if err := h.store(r, entries); err != nil {
		if r.broken == nil {
			h.say(r.Spec.Name, fmt.Sprintf("the roll is held, because it cannot be stored: %v", err))
		}
		r.broken = err
		return
	}
	r.broken = nil
	r.written = markOf(r.Roll)
	for _, text := range lines {
		h.say(r.Spec.Name, text)
	}
}

// store adds lines to the audit log, and then stores the roll.
func (h *Hub) store(r *record, entries []trust.Record) error {
	if err := h.journal.add(entries...); err != nil {
		return err
	}
	for _, a := range entries {
		r.audited[a.Who+" "+a.What] = true
	}
	r.logged, r.by = r.Roll.State, ""
	return h.write(r)
}

func (h *Hub) path(name string) string { return filepath.Join(h.dir, name+extension) }

func (h *Hub) write(r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return atomicfile.Write(h.path(r.Spec.Name), text, 0o600)
}

// Begin begins a roll over nodes. It replaces an earlier roll of the same update that is
// over. packages are those of the specification, in its order; nil: nothing is known of them.
// who asks, as the audit log names him.
func (h *Hub) Begin(who string, s Spec, p roll.Plan, nodes []string, packages []*pack.Package) error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := checkPlan(&p, &s); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.rolls[s.Name]
	d, lost := h.damaged[s.Name]
	switch {
	case lost:
		return d.why
	case old != nil && !old.over():
		return fmt.Errorf("a roll of %s is %v: 'skep update rolls --stop %s' stops it", s.Name, old.Roll.State, s.Name)
	case old == nil && len(h.rolls)+len(h.damaged) >= rollsMax:
		return fmt.Errorf("the hub has %d rolls: 'skep update rolls --forget NAME' removes one that is over", len(h.rolls)+len(h.damaged))
	case len(nodes) == 0:
		return errors.New("no node can take kernel updates: 'skep nodes' lists the nodes; a node needs Linux and either 'skep service install kernel' or an agent that runs as root")
	}
	if err := CheckObjects(packages); err != nil {
		return err
	}
	r := &record{Spec: s, Began: h.now().Round(0).UTC(), Roll: roll.NewHub(p, nodes)}
	if err := r.fill(packages); err != nil {
		return err
	}
	if err := h.checkHarm(r); err != nil {
		return err
	}
	for _, other := range h.rolls {
		if other != old && !other.over() && (s.Supersede || other.Spec.Supersede) && r.sharesFunction(other) {
			return fmt.Errorf("a roll of %s, which changes the same functions, is %v: wait until it is done, or stop it by 'skep update rolls --stop %s'",
				other.Spec.Name, other.Roll.State, other.Spec.Name)
		}
	}
	if err := h.harmed.keep(old); err != nil {
		return err
	}
	if err := r.beginAudit(h.journal, h.now(), who); err != nil {
		return err
	}
	h.begin(r, 0)
	r.note(h.now(), fmt.Sprintf("begun for %d nodes", len(nodes)))
	if err := h.write(r); err != nil {
		return fmt.Errorf("the roll cannot be stored: %w", err)
	}
	h.rolls[s.Name] = r
	return nil
}

// checkPlan refuses what cannot end: the kernel ends a trial in time.
func checkPlan(p *roll.Plan, s *Spec) error {
	t := &p.Times
	for _, d := range []time.Duration{t.Lease, t.Fresh, t.Dead, t.Canary, t.Settle, t.Slow} {
		if d <= 0 || d > trialMax {
			return fmt.Errorf("a time of %v is not possible", d)
		}
	}
	need := time.Duration(len(p.Waves)) * (t.Canary + t.Settle)
	switch {
	case len(p.Waves) == 0 || p.Waves[len(p.Waves)-1].Percent != 100:
		return errors.New("the last wave must be all")
	case p.MaxUnavailable < 0 || p.Rules.Errors > 1000:
		return errors.New("a number of the plan is out of range")
	case t.Lease != s.Lease || t.Lease+t.Fresh > 5*time.Second:
		return errors.New("leases must end within five seconds")
	case need >= s.Trial:
		return fmt.Errorf("%d waves take %v at least, and the operators signed a trial of %v: use fewer waves or shorter times, or sign the package with a longer --trial",
			len(p.Waves), need, s.Trial)
	}
	return nil
}

// Report takes what a node says, and returns the answer. name is the node's, as the hub
// knows it. ok is false if there is nothing to answer.
func (h *Hub) Report(name string, v Report) (o Order, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.find(v.ID)
	if r == nil || len(r.Roll.Nodes) >= nodesMax && r.Roll.Nodes[name] == nil {
		return o, false
	}
	v.Report.Node = name
	clean(&v.Report)
	if r.Spec.Supersede && v.Knows < knowsSupersede {
		v.Report.Refused = "its agent does not know --supersede: update skep there"
	}
	r.asked[name] = h.now()
	r.takeFigures(name, &v)
	order := r.Roll.Report(h.clock(r), v.Report)
	h.settle(r, name)
	if r.broken != nil || order.Boot == "" {
		return o, false
	}
	o = Order{Spec: r.Spec, Order: order}
	if v.Seen != nil {
		o.Audit = h.journal.growth(v.Seen.Lines)
	}
	return o, true
}

// find returns the roll with an id.
func (h *Hub) find(id string) *record {
	for _, r := range h.rolls {
		if r.Spec.ID == id {
			return r
		}
	}
	return nil
}

// takeFigures keeps a node's figures while the update is loaded there. They are not stored.
func (r *record) takeFigures(name string, v *Report) {
	switch p := v.Report.Phase; {
	case p < roll.Loaded || p == roll.Reverted:
		delete(r.figures, name)
	case len(v.Functions) > 0:
		list := v.Functions[:min(len(v.Functions), functionsMax)]
		for i := range list {
			list[i].Symbol = cleanText(list[i].Symbol)
		}
		if r.figures == nil {
			r.figures = map[string][]Function{}
		}
		r.figures[name] = list
	}
}

func cleanText(s string) string { return cli.CleanText(strings.Clone(s[:min(len(s), textMax)])) }

// clean bounds a node's texts and numbers.
func clean(r *roll.Report) {
	text := cleanText
	r.Boot, r.Bad, r.Refused, r.Superseded, r.Waits = text(r.Boot), text(r.Bad), text(r.Refused), text(r.Superseded), text(r.Waits)
	r.Phase = min(r.Phase, roll.Reverted)
	if !isDigest(r.Package) {
		r.Package = ""
	}
	r.Inside = r.Inside[:min(len(r.Inside), insideMax)]
	for i := range r.Inside {
		r.Inside[i] = text(r.Inside[i])
	}
}

// Tick advances the rolls. It is called several times a second.
func (h *Hub) Tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for _, r := range h.rolls {
		if now.Sub(r.ticked) < r.rest() {
			continue
		}
		r.ticked = now
		r.Roll.Held = h.superseded(r)
		r.Roll.Tick(h.clock(r))
		h.settle(r, "")
	}
}

// superseded reports whether a later roll replaces the update of this one, so that no other
// node shall get it.
func (h *Hub) superseded(r *record) bool {
	for _, by := range h.rolls {
		if by.Spec.Supersede && by.Began.After(r.Began) && by.Roll.State != roll.Stopped && by.sharesFunction(r) {
			return true
		}
	}
	return false
}

// Unheard returns an order for each roll of which a node must be told, because it did not
// report for a while.
func (h *Hub) Unheard(name string) (list []Order) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for _, r := range h.rolls {
		if at, ok := r.asked[name]; ok && now.Sub(at) < askEvery {
			continue
		}
		r.asked[name] = now
		list = append(list, Order{Spec: r.Spec})
	}
	return list
}

// Actions on a roll.
const (
	ActionPause  = "pause"
	ActionResume = "resume"
	ActionStop   = "stop"
	ActionForget = "forget"
)

// Act changes a roll because somebody asks, whom the audit log names.
func (h *Hub) Act(who, name, action string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, ok := h.damaged[name]; ok {
		if action != ActionForget {
			return d.why
		}
		if err := h.forget(&record{Spec: Spec{Name: name, Package: trust.NoContent}}, who); err != nil {
			return err
		}
		delete(h.damaged, name)
		return nil
	}
	r := h.rolls[name]
	if r == nil {
		return ErrNoRoll
	}
	was := r.Roll.State
	switch action {
	case ActionPause:
		r.Roll.Pause("by an operator")
	case ActionResume:
		r.Roll.Resume()
	case ActionStop:
		r.Roll.Stop("by an operator")
	case ActionForget:
		if !r.over() {
			return fmt.Errorf("the roll of %s is %v: stop it first", name, was)
		}
		if err := h.forget(r, who); err != nil {
			return err
		}
		delete(h.rolls, name)
		return nil
	default:
		return fmt.Errorf("%.40q is not an action on a roll", action)
	}
	if r.Roll.State == was {
		return fmt.Errorf("the roll of %s is %v: it cannot be changed by %s", name, was, action)
	}
	r.by = who
	h.settle(r, "")
	if r.broken != nil {
		return fmt.Errorf("the roll cannot be stored: %w", r.broken)
	}
	return nil
}

// forget removes the record of a roll. Its lines stay in the audit log.
func (h *Hub) forget(r *record, who string) error {
	if err := h.harmed.keep(r); err != nil {
		return err
	}
	if err := h.journal.add(r.line("", h.now(), who, trust.VerbForgot)); err != nil {
		return err
	}
	name := r.Spec.Name
	if err := atomicfile.Remove(h.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Packages returns the digests of the packages of each roll, by name.
func (h *Hub) Packages() map[string][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := map[string][]string{}
	for name, r := range h.rolls {
		m[name] = r.Spec.digests()
	}
	return m
}
