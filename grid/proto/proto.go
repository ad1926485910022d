// SPDX-License-Identifier: MIT

// Package proto defines the messages between hub and agent: the paths of the
// HTTP API and the messages on the engine's subjects. A message is one line of
// JSON, then raw bytes. All of it is untrusted until Check has accepted it.
package proto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"skep/dynamos/update/roll"
	"skep/internal/uapi"
)

// ALPN names on the one port.
const (
	ALPNNats = "skep-nats/1"
	ALPNHTTP = "http/1.1"
)

// DefaultPort is where `skep up` listens.
const DefaultPort = 4860

// Bounds.
const (
	InlineMax  = 256 << 10 // bytes of arguments or result inside a message
	MessageMax = 1 << 20   // bytes of a message, the engine's limit
	JoinMax    = 64 << 10  // bytes of a join request's body
	NameMax    = 63        // bytes of a node's name
	TextMax    = 4 << 10   // bytes of an error's or a log line's text
	DigestsMax = 256       // blobs named in one Ask
	IdleMax    = 4096      // idle workers named in one Ask
)

// Times for detecting lost nodes and workers.
const (
	BeatEvery  = 3 * time.Second
	SilentFor  = 12 * time.Second
	WorkerMute = 12 * time.Second // a busy worker that sends nothing for this long is killed
)

// Paths of the HTTP API. Exec is hijacked: after "101" both sides write exec
// frames (ExecFrame) until EXIT.
const (
	PathJoin  = "/v1/join"
	PathLogin = "/v1/login" // of users
	PathRenew = "/v1/renew"
	PathClaim = "/v1/claim"
	PathEpoch = "/v1/epoch"
	// Of standbys.
	PathStandby = "/v1/standby"
	PathCopy    = "/v1/standby/copy"
	PathYield   = "/v1/standby/yield"
	pathBlob    = "/v1/blob/"
	pathCall    = "/v1/call/"
	pathExec    = "/v1/exec/"
)

// Patterns for http.ServeMux.
const (
	PatternJoin   = "POST " + PathJoin
	PatternLogin  = "POST " + PathLogin
	PatternRenew  = "POST " + PathRenew
	PatternClaim  = "POST " + PathClaim
	PatternEpoch  = "POST " + PathEpoch
	PatternBlob   = "GET " + pathBlob + "{digest}"
	PatternArgs   = "GET " + pathCall + "{call}/args"
	PatternResult = "PUT " + pathCall + "{call}/result"
	PatternBack   = "POST " + pathCall + "{call}/callback"
	PatternExec   = "POST " + pathExec + "{exec}/stream"
)

// TrailerDigest is the HTTP trailer with the SHA-256 of a streamed body, hex.
const TrailerDigest = "Skep-Digest"

// PathBlob returns the path of a blob; digest is in hex.
func PathBlob(digest string) string { return pathBlob + digest }

// PathArgs returns the path of a leased call's arguments.
func PathArgs(call, fence uint64) string {
	return fmt.Sprintf("%s%d/args?fence=%d", pathCall, call, fence)
}

// PathResult returns the path of a leased call's result.
func PathResult(call, fence uint64) string {
	return fmt.Sprintf("%s%d/result?fence=%d", pathCall, call, fence)
}

// PathCallback returns the path on which a leased call calls its master. The body is the
// payload of CALLBACK, and the answer's that of RETURN.
func PathCallback(call, fence uint64) string {
	return fmt.Sprintf("%s%d/callback?fence=%d", pathCall, call, fence)
}

// PathExec returns the path of the stream of one program that `skep exec` started. fence is that
// of its lease, or 0 for a program without one.
func PathExec(id string, fence uint64) string {
	if fence == 0 {
		return pathExec + id + "/stream"
	}
	return fmt.Sprintf("%s%s/stream?fence=%d", pathExec, id, fence)
}

// A Verb is the last part of a subject.
type Verb string

// Verbs. Those of the agent are published below skep.v1.node.<id>., those of
// the hub go to skep.v1.to.<id>., which only that node may subscribe to.
const (
	VerbHello    Verb = "hello" // request; the hub replies with Welcome
	VerbBeat     Verb = "beat"
	VerbAsk      Verb = "ask"
	VerbDone     Verb = "done"   // followed by the result's bytes, if inline
	VerbFailed   Verb = "failed" //
	VerbLog      Verb = "log"
	VerbReleased Verb = "released"
	VerbLeave    Verb = "leave" // request, with Leave: the agent was told to end, and its calls begin anew elsewhere
	VerbRoll     Verb = "roll"  // of both: a report about a kernel update, and the order that answers it

	VerbLease   Verb = "lease" // followed by the arguments, if inline
	VerbCancel  Verb = "cancel"
	VerbRelease Verb = "release"
	VerbForget  Verb = "forget" // stored data that the session does not need any more
	VerbResume  Verb = "resume" // a lease that the node carried goes on
	VerbExec    Verb = "exec"
	VerbStop    Verb = "stop"
	VerbHubs    Verb = "hubs" // where else the hub may be
)

// Subjects.
const (
	FromNodes = "skep.v1.node.*.*" // what the hub subscribes to
	fromNode  = "skep.v1.node."
	toNode    = "skep.v1.to."
)

// FromNode returns the subject on which a node publishes verb.
func FromNode(id string, verb Verb) string { return fromNode + id + "." + string(verb) }

// ToNode returns the subject of messages with this verb to a node ("*" for all).
func ToNode(id string, verb Verb) string { return toNode + id + "." + string(verb) }

// SplitSubject returns the node and the verb of a subject of either direction.
func SplitSubject(subject string) (id string, verb Verb, ok bool) {
	for _, prefix := range []string{fromNode, toNode} {
		rest, found := bytes.CutPrefix([]byte(subject), []byte(prefix))
		if !found {
			continue
		}
		node, name, found := bytes.Cut(rest, []byte("."))
		return string(node), Verb(name), found && len(node) > 0 && len(name) > 0
	}
	return "", "", false
}

// Join is the body of a join request.
type Join struct {
	Login
	Version string `json:"version"` // of skep, for messages
	Name    string `json:"name"`
}

// Login is the body of the request by which a user opens an account on a machine. Joined
// answers it, with the account's name. A node that joins sends the same, and more.
type Login struct {
	Revision int    `json:"revision"`
	Token    string `json:"token"`
	CSR      []byte `json:"csr"` // DER
	NKey     string `json:"nkey"`
}

// Headers of streams that outlive their connection. HeaderHas: the sender has so many bytes of the
// other side's. HeaderKeep: for so many milliseconds the hub keeps the stream without a connection.
const (
	HeaderHas  = "Skep-Has"
	HeaderKeep = "Skep-Keep"
)

// HeaderRevision has the protocol revision of a user's program.
const HeaderRevision = "Skep-Revision"

// Joined answers Join, Login and Renew.
type Joined struct {
	Node        string `json:"node"` // its id
	Name        string `json:"name"` // as assigned by the hub
	Certificate []byte `json:"certificate"`
	CA          []byte `json:"ca"`
	UserJWT     string `json:"user_jwt"`
	Hub         string `json:"hub"` // version, for messages
}

// Renew is the body of a renewal, sent over mutual TLS.
type Renew struct {
	CSR []byte `json:"csr"`
}

// Claim is the body of the request by which an agent, before it connects, asks whether
// another agent uses its identity. It is sent over mutual TLS.
type Claim struct {
	Boot string `json:"boot"` // as in Hello
}

// Problem is the body of every HTTP answer that is not a success.
type Problem struct {
	Code string `json:"code"` // one of the Problem… constants
	Text string `json:"text"` // one sentence with the remedy
}

func (p *Problem) Error() string { return p.Text }

// Codes of problems that a program may distinguish.
const (
	ProblemRevision = "revision"
	ProblemToken    = "token"
	ProblemRequest  = "request"
	ProblemIdentity = "identity" // two agents have the same identity
	ProblemFence    = "fence"    // the lease is no longer current
	ProblemGone     = "gone"
	ProblemCallback = "callback" // the call ends, because its worker calls the master wrongly
	ProblemFull     = "full"     // the hub's disk is full
	ProblemInternal = "internal"
)

// CommonRevision returns the revision that a hub and a node speak with each other, which is
// the older of theirs. Peers more than one revision apart get a problem that names both
// revisions and the side to update.
func CommonRevision(hub, node int) (int, *Problem) {
	older := "the node's"
	if hub < node {
		older = "the hub's"
	}
	common := min(hub, node)
	if max(hub, node)-common > 1 || common < 1 {
		return 0, &Problem{ProblemRevision, fmt.Sprintf(
			"the hub speaks revision %d and the node revision %d: update %s skep", hub, node, older)}
	}
	return common, nil
}

// Hello describes a node.
type Hello struct {
	Revision  int    `json:"revision"`
	Version   string `json:"version"`
	Name      string `json:"name"`
	OS        string `json:"os"`        // linux, windows
	System    string `json:"system"`    // "Linux 6.1.0", "Wine 8.0 on this machine"
	Substrate string `json:"substrate"` // linux, bee-windows, bee-linux
	CPUs      int    `json:"cpus"`
	Memory    uint64 `json:"memory"` // bytes
	Slots     int    `json:"slots"`
	Boot      string `json:"boot"` // random, one per start of the agent
	// How programs are confined, and what they may still reach.
	Confined string `json:"confined,omitempty"`
	Open     string `json:"open,omitempty"`
	// Sessions that have workers or data on the node from an earlier connection.
	Sessions []string `json:"sessions,omitempty"`
	// Leases of an earlier connection that it still runs, or whose end it still knows.
	Carried []Carried `json:"carried,omitempty"`
	// Releases: it answers Release with Released.
	Releases bool `json:"releases,omitempty"`
	// Rolls: it takes part in rolls of kernel updates.
	Rolls bool `json:"rolls,omitempty"`
	// Holds: it knows Exec.Update.
	Holds bool `json:"holds,omitempty"`
	// Moves: it knows Exec.Movable, and can run and save such programs.
	Moves bool `json:"moves,omitempty"`
	// Labels that its owner gave it: KEY=VALUE.
	Labels []string `json:"labels,omitempty"`
	// Apart: it knows Lease.User, and keeps the workers, caches and folders of users apart.
	Apart bool `json:"apart,omitempty"`
	// Programs: it knows Lease.Exec.
	Programs bool `json:"programs,omitempty"`
	// Lasting: the streams of such a program outlive their connection, and it knows Exec.Update
	// there. So the programs of the hub's operator have leases too.
	Lasting bool `json:"lasting,omitempty"`
	// Data: it knows Lease.Data, Lease.Keep and Forget.
	Data bool `json:"data,omitempty"`
	// Callbacks: it knows Lease.Callbacks.
	Callbacks bool `json:"callbacks,omitempty"`
	// Objects: it knows Worker.Object and Forget.Object.
	Objects bool `json:"objects,omitempty"`
	// Hubs: it knows Hubs, and Welcome.Hubs.
	Hubs bool `json:"hubs,omitempty"`
}

// Welcome answers Hello; a refusal has Problem, and the hub's own revision.
type Welcome struct {
	Revision int      `json:"revision"` // that of CommonRevision
	Version  string   `json:"version"`
	Problem  *Problem `json:"problem,omitempty"`
	Ended    []string `json:"ended,omitempty"` // sessions of the hello that have ended
	Hubs     []string `json:"hubs,omitempty"`  // addresses of the hub's standby
}

// Hubs tells a node the addresses of the hub's standby, which may take over.
type Hubs struct {
	Addresses []string `json:"addresses"`
}

// HeaderHubs has the address of the hub's standby in answers to users.
const HeaderHubs = "Skep-Hubs"

// Epoch tells a hub that another one took over from it: with the certificate of that one, which
// has the hub's own CA and a greater epoch.
type Epoch struct {
	Proof []byte `json:"proof"` // DER
}

// A Kernel says what Skep changes in a node's kernel.
type Kernel struct {
	Updates []string `json:"updates,omitempty"` // that are applied
	O2G     bool     `json:"o2g,omitempty"`     // its engine is loaded
	Lent    []string `json:"lent,omitempty"`    // cores of each partition
	// Applied are the loaded updates with their figures, where the node's service or its
	// root's agent reads them.
	Applied []roll.Applied `json:"applied,omitempty"`
}

// KernelMax bounds the lists of a Kernel.
const KernelMax = 64

// Beat shows that a node is alive, and lists what it runs.
type Beat struct {
	Free    int      `json:"free"`            // slots
	Memory  uint64   `json:"memory"`          // bytes free
	Running []uint64 `json:"running"`         // fences of its leases
	Uptime  float64  `json:"uptime"`          // seconds
	Owner   string   `json:"owner,omitempty"` // what its policy does, while it permits less than all slots
	Rolls   bool     `json:"rolls,omitempty"` // as in Hello
	Kernel  Kernel   `json:"kernel,omitzero"`
}

// Ask asks for leases.
type Ask struct {
	Free    int      `json:"free"`
	Memory  uint64   `json:"memory"`
	Idle    []Idle   `json:"idle,omitempty"`  // workers that wait
	Digests []string `json:"blobs,omitempty"` // blobs held, the most recently used first
}

// A Worker identifies what a worker process can run: the module and the data of its
// Initialize. That of an object of its session runs methods of this object only.
type Worker struct {
	Module string `json:"module"` // digest of the program
	Init   string `json:"init"`   // generation, empty if none
	Object uint64 `json:"object,omitempty"`
}

// Idle is a waiting worker. It runs calls of its session only.
type Idle struct {
	Session string `json:"session"`
	Worker  Worker `json:"worker"`
}

// Init describes the data of a worker's Initialize.
type Init struct {
	Function uint32 `json:"function"`
	Blob     string `json:"blob"`
	Length   uint64 `json:"length"`
}

// A Lease lets a node run a call under a fencing number.
type Lease struct {
	Call     uint64 `json:"call"`
	Client   uint64 `json:"client"` // the master's number of the call, in its session
	Fence    uint64 `json:"fence"`
	Session  string `json:"session"`
	Worker   Worker `json:"worker"`
	Init     *Init  `json:"init,omitempty"`
	Function uint32 `json:"function"`
	Length   uint64 `json:"length"` // bytes of arguments
	Result   uint64 `json:"result"` // largest size of its result, in bytes
	After    uint64 `json:"after"`  // fence of the lease whose slot it gets; 0: any free slot
	Inline   bool   `json:"inline"` // the arguments follow; Digest is then set
	Digest   string `json:"digest,omitempty"`
	Limits   Limits `json:"limits"`
	Attempt  uint32 `json:"attempt"`
	Name     string `json:"name"` // of the function, for messages
	// User is whose call it is; empty for the hub's own user. A node keeps users apart.
	User string `json:"user,omitempty"`
	// Exec: in place of a function, the node runs the program Worker.Module with its standard
	// streams at PathExec(Exec.ID), with the lease's limits. It gives no result.
	Exec *Exec `json:"exec,omitempty"`
	// Data are arguments that are blobs: Length is without them. Keep are the parts of the
	// result that are wanted later: the node stores a copy of each.
	Data []Part `json:"data,omitempty"`
	Keep []Part `json:"keep,omitempty"`
	// Callbacks: the function may call the master, at PathCallback.
	Callbacks bool `json:"callbacks,omitempty"`
	// Extra: it begins at once, in place of a call that waits for it, and takes no slot.
	Extra bool `json:"extra,omitempty"`
	// First: it is the first method of the object Worker.Object, and starts its worker. Others
	// fail if that is gone, because a new one would not have the object's state.
	First bool `json:"first,omitempty"`
}

// A Part of the bytes that a worker receives or sends. Parts are in ascending order.
type Part struct {
	Offset uint64 `json:"offset"`
	Length uint64 `json:"length"`
	Blob   string `json:"blob,omitempty"` // its digest, if it is known
}

// Total is how many bytes of arguments the worker gets.
func (l *Lease) Total() uint64 {
	n := l.Length
	for _, p := range l.Data {
		n += p.Length
	}
	return n
}

// Done ends a lease with a result.
type Done struct {
	Call      uint64  `json:"call"`
	Fence     uint64  `json:"fence"`
	Length    uint64  `json:"length"` // bytes of result
	Digest    string  `json:"digest"` // of the result
	Inline    bool    `json:"inline"` // the result follows; else it was sent by PUT before
	ExecNS    uint64  `json:"exec_ns"`
	Program   string  `json:"program"` // digest of the bytes that were loaded
	Substrate string  `json:"substrate"`
	Nonce     uint64  `json:"nonce"`
	Calls     uint64  `json:"calls"`
	Wall      float64 `json:"wall"`    // seconds from lease to result, on the node
	Fetched   uint64  `json:"fetched"` // bytes of blobs pulled for it
}

// A Reason is why a lease failed.
type Reason string

// Reasons. A call is retried only if the reason may not apply on another node.
const (
	ReasonDied      Reason = "died"      // the worker exited or was killed
	ReasonMute      Reason = "mute"      // the worker sent nothing for too long
	ReasonError     Reason = "error"     // the worker answered with ERROR: final
	ReasonRefused   Reason = "refused"   // by a safety check: final, node marked
	ReasonTransfer  Reason = "transfer"  // a transfer of data failed
	ReasonLimit     Reason = "limit"     // the worker exceeded a limit: final
	ReasonCancelled Reason = "cancelled" //
	ReasonNode      Reason = "node"      // the node's disk is full or the worker cannot start
)

// Failed ends a lease without a result.
type Failed struct {
	Call   uint64         `json:"call"`
	Fence  uint64         `json:"fence"`
	Reason Reason         `json:"reason"`
	Code   uapi.ErrorCode `json:"code"`
	Text   string         `json:"text"`
	Status int            `json:"status"` // exit status, 128+signal
}

// Cancel ends a lease that is no longer needed.
type Cancel struct {
	Call  uint64 `json:"call"`
	Fence uint64 `json:"fence"`
}

// Release ends a session: the node ends its workers, drops its data and answers with Released.
type Release struct {
	Session string `json:"session"`
}

// Released reports that the workers of a session have ended, and follows the last
// line that they wrote.
type Released struct {
	Session string `json:"session"`
}

// Forget: the session needs the blob no more, or in its place the object.
type Forget struct {
	Session string `json:"session"`
	User    string `json:"user,omitempty"`
	Blob    string `json:"blob"`
	Object  uint64 `json:"object,omitempty"`
}

// Carried is a lease that outlived the connection over which it was granted.
type Carried struct {
	Session string `json:"session"`
	Client  uint64 `json:"client"`
	Call    uint64 `json:"call"`
	Fence   uint64 `json:"fence"`
}

// CarriedMax is how many leases a hello names at most.
const CarriedMax = 4096

// Resume says that a carried lease goes on: if it has ended, the node sends its end again.
type Resume struct {
	Fence uint64 `json:"fence"`
}

// Log is a line that a worker wrote to its stderr or stdout.
type Log struct {
	Session string `json:"session"`
	Call    uint64 `json:"call"`
	Text    string `json:"text"`
}

// Exec starts a program whose stdio is PathExec(ID).
type Exec struct {
	ID      string   `json:"id"`
	Program string   `json:"program"` // digest
	Name    string   `json:"name"`    // argv[0]
	Args    []string `json:"args,omitempty"`
	Env     []string `json:"env,omitempty"`
	Limits  Limits   `json:"limits"`
	// Update is in force for the program's cgroup; "": none.
	Update string `json:"update,omitempty"`
	// Instead of a program: print what workers of a session wrote; "" is the latest
	// session.
	Logs    bool   `json:"logs,omitempty"`
	Session string `json:"session,omitempty"`
	// Movable: it runs under bee, and the node waits for ExecBegin or ExecRestore. CPU is that
	// of the node on which it runs now (ExecCPU); "": it begins.
	Movable bool   `json:"movable,omitempty"`
	CPU     string `json:"cpu,omitempty"`
	// Fits: the hub knows ExecFits.
	Fits bool `json:"fits,omitempty"`
}

// Stop asks an agent to end.
type Stop struct {
	Text string `json:"text"`
}

// Leave is the body of VerbLeave. Agents of the release before send no body.
type Leave struct {
	// Seconds that the node waits for its movable programs to go on elsewhere; 0: it ends them.
	// The hub answers as soon as none is left.
	Wait float64 `json:"wait,omitempty"`
}

// LeaveMax bounds Leave.Wait. The services of agents are given more time to end.
const LeaveMax = 20 * time.Second

// Encode returns a message: one line of JSON, then raw.
func Encode(v any, raw []byte) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b)+1+len(raw) > MessageMax {
		return nil, fmt.Errorf("a message of %d bytes, the engine takes %d", len(b)+1+len(raw), MessageMax)
	}
	return append(append(b, '\n'), raw...), nil
}

// Decode reads a message into v and returns the raw bytes, which are in b.
func Decode(b []byte, v any) (raw []byte, err error) {
	head, raw, found := bytes.Cut(b, []byte("\n"))
	if !found {
		return nil, errors.New("a message without its header line")
	}
	if err := json.Unmarshal(head, v); err != nil {
		return nil, fmt.Errorf("a message that cannot be read: %w", err)
	}
	return raw, nil
}
