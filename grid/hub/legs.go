// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"skep/grid/move"
	"skep/grid/proto"
	"skep/grid/session"
)

// A leg is one process of a job. The job's lock guards all but write's frames.
type leg struct {
	job    *job
	number move.Leg
	node   string
	id     string // of its exec
	x      *execution
	conn   io.ReadWriteCloser // nil: the node has not connected yet
	out    frameBox
	dead   bool
	ready  bool
	early  bool // it takes an image before it is to start from it
	fits   bool // its node knows FITS
	passed bool // it was sent one
	cpu    string
	base   uint64 // input that an earlier leg had read
	sent   uint64 // beyond that
	taken  uint64

	image  *io.PipeWriter // the blob that arrives
	stored chan storedImage
	ahead  *leg // gets it too: it is to go on from it
}

type storedImage struct {
	digest string
	owner  string
	err    error
}

// openLeg asks a node to prepare a leg. The lock is held.
func (j *job) openLeg(number move.Leg, node string) {
	v := j.req
	v.Node = node
	if _, leg, _ := j.machine.State(); j.legs[leg] != nil {
		v.cpu = j.legs[leg].cpu
	}
	l := &leg{job: j, number: number, node: node, id: session.NewID().String()}
	j.legs[number] = l
	x, err := j.hub.newExec(l.id, v, operator)
	if err != nil {
		if x != nil {
			j.hub.endExec(l.id, x)
		}
		l.dead = true
		go j.happen(func(now time.Time) []move.Action { return j.machine.Refused(now, number, err.Error()) })
		return
	}
	l.x = x
	go l.serve()
}

func (l *leg) serve() {
	defer l.job.hub.endExec(l.id, l.x)
	why := l.receive()
	l.abortImage()
	l.job.happen(func(now time.Time) []move.Action {
		l.kill()
		return l.job.machine.Lost(now, l.number, why)
	})
}

// receive takes the node's frames until its stream ends, and says why that was.
func (l *leg) receive() string {
	conn, why := l.job.hub.awaitAgent(l.x, nil)
	if why != "" {
		return why
	}
	defer conn.Close()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-done:
		case <-l.x.ended:
			time.AfterFunc(l.job.hub.cfg.execDrain, func() { conn.Close() }) // what was written before is on its way
		}
	}()
	l.job.mu.Lock()
	l.conn = conn
	if l.dead {
		conn.Close()
	}
	l.job.mu.Unlock()
	buf := make([]byte, proto.ExecFrameMax)
	for {
		kind, p, err := proto.ReadExec(conn, buf)
		if err == nil {
			err = l.take(kind, p)
		}
		if err != nil {
			select {
			case <-l.x.ended:
				return l.x.why
			default:
				return fmt.Sprintf("the stream of the node broke (%v)", err)
			}
		}
	}
}

// take takes one frame.
func (l *leg) take(kind proto.ExecType, p []byte) error {
	j := l.job
	switch kind {
	case proto.ExecStdout, proto.ExecStderr:
		return l.output(kind, p)
	case proto.ExecReady:
		var v proto.ExecCPU
		if err := json.Unmarshal(p, &v); err != nil || len(v.CPU) > proto.TextMax {
			return errors.New("its answer cannot be read")
		}
		j.happen(func(now time.Time) []move.Action {
			l.cpu, l.early, l.fits, l.ready = v.CPU, v.Early, v.Fits, true
			return j.machine.Ready(now, l.number)
		})
	case proto.ExecStarted:
		j.happen(func(now time.Time) []move.Action { return l.started(now) })
	case proto.ExecTaken:
		return l.takeTaken(p)
	case proto.ExecFrozen:
		j.mu.Lock()
		defer j.mu.Unlock()
		if _, leg, _ := j.machine.State(); leg == l.number {
			j.mark, j.frozen = j.held.size, time.Now()
		}
	case proto.ExecImage:
		return l.takeImage(p)
	case proto.ExecSaved:
		return l.takeSaved(p)
	case proto.ExecUnsaved:
		var v proto.ExecWhy
		if err := json.Unmarshal(p, &v); err != nil {
			return err
		}
		l.abortImage()
		j.happen(func(now time.Time) []move.Action {
			return j.machine.NotSaved(now, l.number, move.Serial(v.Serial), truncateText(v.Text))
		})
	case proto.ExecLeave:
		go j.leave(move.OwnerNeeds)
	case proto.ExecFits:
		j.mu.Lock()
		defer j.mu.Unlock()
		if state, leg, _ := j.machine.State(); state == move.Freezing && l.number == j.machine.Target() && j.legs[leg].fits {
			j.legs[leg].send(proto.ExecFits, nil)
		}
	case proto.ExecExit, proto.ExecFailed, proto.ExecRefused:
		j.happen(func(now time.Time) []move.Action { return l.ended(now, kind, bytes.Clone(p)) })
	default:
		return fmt.Errorf("a frame of type %d", kind)
	}
	return nil
}

// started is called with the lock held.
func (l *leg) started(now time.Time) []move.Action {
	j := l.job
	if _, leg, _ := j.machine.State(); leg == l.number && l.number > 1 {
		j.moves++
		j.pause += now.Sub(j.frozen)
		j.account.Start = int64(now.Sub(j.frozen)) - j.account.Store
		j.tell("job %s runs on %s", j.name, j.hub.nodeName(l.node))
	}
	return j.machine.Started(now, l.number)
}

// ended is called with the lock held.
func (l *leg) ended(now time.Time, kind proto.ExecType, p []byte) []move.Action {
	j := l.job
	state, leg, _ := j.machine.State()
	if leg != l.number || state == move.Starting {
		if kind == proto.ExecExit {
			return j.machine.Lost(now, l.number, "the node ended it without starting it")
		}
		if leg == l.number {
			j.why = kind
		}
		list := j.machine.Refused(now, l.number, truncateText(string(p)))
		j.why = proto.ExecGone
		return list
	}
	j.exit = append([]byte{byte(kind)}, p...)
	return j.machine.Exited(l.number)
}

func (l *leg) output(kind proto.ExecType, p []byte) error {
	j := l.job
	if len(p) == 0 {
		return nil
	}
	j.mu.Lock()
	_, leg, _ := j.machine.State()
	counts, holds := leg == l.number && !j.ended, j.machine.Holds()
	var err error
	if counts && holds {
		var b bytes.Buffer
		proto.WriteExec(&b, kind, p)
		if err = j.held.append(b.Bytes()); err == nil && j.held.size > heldFull {
			j.do(j.machine.Full(time.Now()))
		}
	}
	j.mu.Unlock()
	if counts && !holds {
		j.write(kind, p)
	}
	if err != nil {
		j.tell("job %s: its output cannot be held until the next checkpoint: %v", j.name, err)
		j.happen(func(time.Time) []move.Action { return j.machine.Stop() })
	}
	return nil
}

func (l *leg) takeTaken(p []byte) error {
	if len(p) != 8 {
		return errors.New("a count of its input that cannot be read")
	}
	l.job.mu.Lock()
	defer l.job.mu.Unlock()
	n := binary.LittleEndian.Uint64(p)
	if n > l.sent {
		return errors.New("it took more input than it was sent")
	}
	l.taken = n
	l.job.more.Broadcast()
	return nil
}

// takeImage passes a part of an image to the blob store, and to the target of a move.
func (l *leg) takeImage(p []byte) error {
	if l.image == nil {
		l.ahead = l.findAhead()
		r, w := io.Pipe()
		l.image, l.stored = w, make(chan storedImage, 1)
		owner := "image " + session.NewID().String()
		go func() {
			digest, _, err := l.job.hub.blobs.Put(r, owner)
			r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
			l.stored <- storedImage{digest, owner, err}
		}()
	}
	l.image.Write(p) // an error comes with storedImage
	if l.ahead != nil {
		if !l.ahead.out.await() {
			l.ahead = nil
			return nil
		}
		l.ahead.send(proto.ExecImage, bytes.Clone(p))
	}
	return nil
}

// findAhead returns the leg that is to go on from the image that begins now, and can take it
// while it arrives. If it turns out to be another one, its digest says so, so each leg gets one only.
func (l *leg) findAhead() *leg {
	j := l.job
	j.mu.Lock()
	defer j.mu.Unlock()
	state, number, _ := j.machine.State()
	to := j.waiting()
	if state != move.Freezing || number != l.number || to == nil {
		return nil
	}
	to.passed = true
	return to
}

// waiting returns the target of a move if it takes an image while that arrives, and was sent none
// yet. The lock is held.
func (j *job) waiting() *leg {
	to := j.legs[j.machine.Target()]
	if to == nil || !to.early || to.passed {
		return nil
	}
	return to
}

// awaits reports whether a program that is to be saved waits until its target has said that its
// files fit. The lock is held.
func (l *leg) awaits() bool {
	to := l.job.waiting()
	return to != nil && to.fits && l.fits
}

func (l *leg) abortImage() {
	if l.image == nil {
		return
	}
	l.image.CloseWithError(errors.New("the image is not complete"))
	if s := <-l.stored; s.err == nil {
		l.job.hub.blobs.Discard(s.owner)
	}
	l.image = nil
}

func (l *leg) takeSaved(p []byte) error {
	var v proto.ExecImageEnd
	j := l.job
	if err := json.Unmarshal(p, &v); err != nil || l.image == nil {
		return errors.New("the end of an image that cannot be read")
	}
	l.image.Close()
	s := <-l.stored
	l.image = nil
	if s.err == nil && s.digest != v.Digest {
		j.hub.blobs.Discard(s.owner)
		return errors.New("an image that changed on the way")
	}
	kept := false
	j.happen(func(now time.Time) []move.Action {
		if s.err != nil { // a full disk of the hub's
			l.sendJSON(proto.ExecResume, proto.ExecSave{Serial: v.Serial})
			return j.machine.NotSaved(now, l.number, move.Serial(v.Serial), "the hub cannot store it: "+s.err.Error())
		}
		kept = true // until the machine says Forget
		j.images[s.owner] = savedImage{s.digest, l.base + v.Input}
		j.pause, j.bytes, j.account = time.Duration(v.Pause), v.Bytes, v.Account
		j.account.Store = int64(now.Sub(j.frozen))
		return j.machine.Saved(now, l.number, move.Serial(v.Serial), s.owner)
	})
	if !kept { // the program is over, or it was not stored
		j.hub.blobs.Discard(s.owner)
	}
	return nil
}

// kill ends a leg for good: its node ends the program when the stream breaks. The lock is held.
func (l *leg) kill() {
	if l == nil || l.dead {
		return
	}
	l.dead = true
	l.out.close()
	if l.conn != nil {
		l.conn.Close()
	}
	if l.x != nil {
		l.x.finish("it was ended")
	}
	l.job.more.Broadcast()
}

// send sends a frame after those before it; p must remain.
func (l *leg) send(t proto.ExecType, p []byte) {
	l.out.put(t, p, l.writeFrame)
}

func (l *leg) writeFrame(t proto.ExecType, p []byte) error {
	if l.conn == nil {
		return nil
	}
	err := proto.WriteExec(l.conn, t, p)
	if err != nil {
		l.conn.Close() // its reader says so
	}
	return err
}

func (l *leg) sendJSON(t proto.ExecType, v any) {
	if b, err := json.Marshal(v); err == nil && l != nil {
		l.send(t, b)
	}
}

// start starts a leg, and gives it the input from a position on. The lock is held.
func (l *leg) start(input uint64, t proto.ExecType, p []byte) {
	l.base = input
	l.send(t, p)
	go l.feed()
}

// feed sends input while there is some, at most as much as the node has room for.
func (l *leg) feed() {
	j := l.job
	buf := make([]byte, proto.ExecFrameMax)
	for {
		j.mu.Lock()
		for !l.dead && !j.ended && !l.hasInput() && !l.atEnd() {
			j.more.Wait()
		}
		if l.dead || j.ended {
			j.mu.Unlock()
			return
		}
		end := l.atEnd()
		var p []byte
		var err error
		if !end {
			p, err = j.input.part(int64(l.base+l.sent), buf)
			l.sent += uint64(len(p))
		}
		j.mu.Unlock()
		if err != nil {
			j.tell("job %s: its input cannot be read: %v", j.name, err)
			j.happen(func(time.Time) []move.Action { return j.machine.Stop() })
			return
		}
		l.send(proto.ExecStdin, bytes.Clone(p))
		if end {
			return
		}
	}
}

func (l *leg) hasInput() bool {
	return int64(l.base+l.sent) < l.job.input.size && l.sent-l.taken < proto.ExecWindow
}

func (l *leg) atEnd() bool { return l.job.eof && int64(l.base+l.sent) == l.job.input.size }
