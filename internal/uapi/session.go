// SPDX-License-Identifier: MIT

// Package uapi mirrors the byte layouts of headers in include/skep. It has no state, and its
// only I/O is to read the manifest of a worker program.
package uapi

import (
	"encoding/binary"
	"fmt"
)

// Numbers of session.h.
const (
	SessionRevision = 2
	SessionMagic    = 0x50454b53
	FrameMax        = 0x100000
	SessionWindow   = 0x400000
	AckEvery        = 0x40000
	PingSeconds     = 3
	FrameSize       = 16 // bytes of a frame's header
)

// A FrameType is the type of a frame (enum skep_frame_type).
type FrameType uint16

// Frame types, in the order of session.h.
const (
	TypeHello FrameType = iota + 1
	TypeAck
	TypePing
	TypeData
	TypeError
	TypeBye
	TypeInit
	TypeCall
	TypeReady
	TypeResult
	TypeBind
	TypeModuleInit
	TypeCancel
	TypeBound
	TypeDone
	TypeKeep
	TypeKept
	TypeRead
	TypeDrop
	TypeCallKept
	TypeCallback
	TypeReturn
	TypeObject
	typeEnd
)

var typeNames = [...]string{"", "HELLO", "ACK", "PING", "DATA", "ERROR", "BYE",
	"INIT", "CALL", "READY", "RESULT", "BIND", "MODULE_INIT", "CANCEL", "BOUND", "DONE", "KEEP", "KEPT", "READ", "DROP", "CALL_KEPT", "CALLBACK", "RETURN", "OBJECT"}

func (t FrameType) String() string {
	if t.Known() {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint16(t))
}

// Known reports whether the contract defines this type. Other types end the session.
func (t FrameType) Known() bool { return t > 0 && t < typeEnd }

// FlagLast marks the final DATA frame of a transfer (SKEP_LAST).
const FlagLast = 1

// FlagAgain marks a HELLO of a side that keeps calls beyond a stream, and a CALL that is
// sent again (SKEP_AGAIN).
const FlagAgain = 2

// FlagCalled marks a CALL that is sent again and has called its master (SKEP_CALLED).
const FlagCalled = 4

// FlagInner marks a CALL that a function of the master makes (SKEP_INNER).
const FlagInner = 8

// FlagMethod marks a CALL of an object's method (SKEP_METHOD).
const FlagMethod = 16

// Frame is struct skep_frame, the header of every frame.
type Frame struct {
	Length uint32
	Type   FrameType
	Flags  uint16
	Call   uint64
}

// Hello is struct skep_hello.
type Hello struct {
	Magic, Revision uint32
	Session         [16]byte
	Received        uint64
}

// ErrorHeader is struct skep_error; the text follows it.
type ErrorHeader struct {
	Code ErrorCode
	Text uint32
}

// An ErrorCode is one of enum skep_error_code.
type ErrorCode uint32

// Error codes, in the order of session.h.
const (
	EProtocol ErrorCode = iota + 1
	ERevision
	ENoModule
	EBadModule
	ENoFunction
	EArguments
	EWorker
	ECancelled
	ERefused
	ENoNode
	EInternal
	EDigest
)

// InitHeader is struct skep_init; the path follows it.
type InitHeader struct {
	Function, Path uint32
	Length         uint64
	Digest         [32]byte
}

// Call is struct skep_call.
type Call struct {
	Function, Module uint32
	Length           uint64
	Result           uint64
}

// Object is struct skep_object.
type Object struct {
	Module, Class uint32
}

// Proof is struct skep_proof.
type Proof struct {
	Nonce, Calls uint64
}

// Ready is struct skep_ready.
type Ready struct {
	Revision, Functions uint32
	Proof               Proof
}

// A Substrate is one of enum skep_substrate.
type Substrate uint32

// Substrates, in the order of session.h.
const (
	SubstrateLinux Substrate = iota + 1
	SubstrateBeeWindows
	SubstrateBeeLinux
	SubstrateBare
)

var substrateNames = [...]string{"", "linux", "bee-windows", "bee-linux", "bare"}

func (s Substrate) String() string {
	if s > 0 && int(s) < len(substrateNames) {
		return substrateNames[s]
	}
	return fmt.Sprintf("substrate %d", uint32(s))
}

// ParseSubstrate returns the substrate with this name.
func ParseSubstrate(name string) (Substrate, error) {
	for i, n := range substrateNames {
		if i > 0 && n == name {
			return Substrate(i), nil
		}
	}
	return 0, fmt.Errorf("no substrate is called %q: there are linux, bee-windows, bee-linux and bare", name)
}

// Result is struct skep_result.
type Result struct {
	Length, ExecNS uint64
	Proof          Proof
	Attempt        uint32
	Substrate      Substrate
	Program        [32]byte
	Node           [64]byte
}

// ModuleInit is struct skep_module_init.
type ModuleInit struct {
	Module, Function uint32
	Length           uint64
}

// Datum is struct skep_datum.
type Datum struct {
	Digest         [32]byte
	Offset, Length uint64
	Mode, Zero     uint32
}

// OneNode is a flag of Datum.Mode (SKEP_ONE_NODE).
const OneNode = 0x100

// Callback is struct skep_callback; the arguments follow it.
type Callback struct {
	Param, Length uint32
	Number        uint64
}

// CallbackMax is the most bytes of arguments of a callback.
const CallbackMax = FrameMax - 16

// ParseCallback splits the payload of CALLBACK or RETURN.
func ParseCallback(b []byte) (c Callback, args []byte, err error) {
	c, args, err = DecodePrefix[Callback](b)
	if err == nil {
		err = checkTail("the arguments of a callback", uint64(c.Length), args)
	}
	return c, args, err
}

// BoundHeader is struct skep_bound; the manifest follows it.
type BoundHeader struct {
	Module, Manifest uint32
}

// Fixed is a structure of the contracts, little endian without padding.
type Fixed interface {
	Frame | Hello | ErrorHeader | InitHeader | Call | Proof | Ready | Result |
		ModuleInit | Datum | Callback | Object | BoundHeader | Limits | module | function | param |
		SnapshotAsk | SnapshotAnswer
}

// Append adds the bytes of v to b.
func Append[T Fixed](b []byte, v T) []byte {
	b, err := binary.Append(b, binary.LittleEndian, v)
	if err != nil {
		panic(err) // impossible: T has a fixed size
	}
	return b
}

// DecodePrefix decodes a T from the front of b and returns the rest.
func DecodePrefix[T Fixed](b []byte) (v T, rest []byte, err error) {
	n, err := binary.Decode(b, binary.LittleEndian, &v)
	if err != nil {
		return v, nil, fmt.Errorf("%d bytes are too few for %T", len(b), v)
	}
	return v, b[n:], nil
}

// DecodeExact decodes a T that fills b.
func DecodeExact[T Fixed](b []byte) (T, error) {
	v, rest, err := DecodePrefix[T](b)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes are too many for %T", len(b), v)
	}
	return v, err
}

// PutFrame writes a header into b, which has FrameSize bytes or more.
func PutFrame(b []byte, f Frame) {
	_ = b[FrameSize-1]
	binary.LittleEndian.PutUint32(b, f.Length)
	binary.LittleEndian.PutUint16(b[4:], uint16(f.Type))
	binary.LittleEndian.PutUint16(b[6:], f.Flags)
	binary.LittleEndian.PutUint64(b[8:], f.Call)
}

// ParseFrame parses a header and refuses types and lengths that the contract forbids.
func ParseFrame(b []byte) (Frame, error) {
	if len(b) < FrameSize {
		return Frame{}, fmt.Errorf("a frame header has %d bytes, not %d", FrameSize, len(b))
	}
	f := Frame{
		Length: binary.LittleEndian.Uint32(b),
		Type:   FrameType(binary.LittleEndian.Uint16(b[4:])),
		Flags:  binary.LittleEndian.Uint16(b[6:]),
		Call:   binary.LittleEndian.Uint64(b[8:]),
	}
	switch {
	case !f.Type.Known():
		return f, fmt.Errorf("no frame is of %v", f.Type)
	case f.Length > FrameMax:
		return f, fmt.Errorf("a %v frame of %d bytes, at most %d are allowed", f.Type, f.Length, FrameMax)
	case f.Flags&^flagsOf(f.Type) != 0:
		return f, fmt.Errorf("a %v frame with flags %#x", f.Type, f.Flags)
	}
	return f, nil
}

// flagsOf returns the flags that frames of a type may have.
func flagsOf(t FrameType) uint16 {
	switch t {
	case TypeData, TypeObject:
		return FlagLast
	case TypeHello:
		return FlagAgain
	case TypeCall, TypeCallKept:
		return FlagAgain | FlagCalled | FlagInner | FlagMethod
	}
	return 0
}

// An Error is an ERROR frame's payload, and a Go error.
type Error struct {
	Code ErrorCode
	Text string
}

func (e *Error) Error() string { return e.Text }

// Errorf makes an Error with this code.
func Errorf(code ErrorCode, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

const errorTextMax = 0x1000

// Encode returns the payload. It cuts text that is too long.
func (e *Error) Encode() []byte {
	text := e.Text
	if len(text) > errorTextMax {
		text = text[:errorTextMax]
	}
	return append(Append(nil, ErrorHeader{e.Code, uint32(len(text))}), text...)
}

// ParseError parses an ERROR frame's payload.
func ParseError(b []byte) (*Error, error) {
	h, text, err := DecodePrefix[ErrorHeader](b)
	if err == nil {
		err = checkTail("an error's text", uint64(h.Text), text)
	}
	if err != nil {
		return nil, err
	}
	return &Error{Code: h.Code, Text: string(text)}, nil
}

// Init is an INIT frame's payload: run Initialize with data from a file.
type Init struct {
	Function uint32
	Length   uint64 // bytes in the file
	Path     string
	Digest   [32]byte // of the file; zero if nobody can change it
}

// Encode returns the payload.
func (i Init) Encode() []byte {
	h := InitHeader{Function: i.Function, Path: uint32(len(i.Path)), Length: i.Length, Digest: i.Digest}
	return append(Append(nil, h), i.Path...)
}

// ParseInit parses an INIT frame's payload.
func ParseInit(b []byte) (Init, error) {
	h, path, err := DecodePrefix[InitHeader](b)
	if err == nil {
		err = checkTail("a path", uint64(h.Path), path)
	}
	return Init{h.Function, h.Length, string(path), h.Digest}, err
}

// Bound is a BOUND frame's payload.
type Bound struct {
	Module   uint32
	Manifest []byte
}

// Encode returns the payload.
func (v Bound) Encode() []byte {
	h := BoundHeader{v.Module, uint32(len(v.Manifest))}
	return append(Append(nil, h), v.Manifest...)
}

// ParseBound parses a BOUND frame's payload, but not the manifest in it.
func ParseBound(b []byte) (Bound, error) {
	h, rest, err := DecodePrefix[BoundHeader](b)
	if err == nil {
		err = checkTail("a manifest", uint64(h.Manifest), rest)
	}
	return Bound{h.Module, rest}, err
}

// checkTail returns an error unless exactly n bytes are left.
func checkTail(what string, n uint64, rest []byte) error {
	if n != uint64(len(rest)) {
		return fmt.Errorf("%s should have %d bytes, but has %d", what, n, len(rest))
	}
	return nil
}

// NodeName returns the name in r up to its first zero byte.
func (r *Result) NodeName() string { return textOf(r.Node[:]) }

// SetNode stores a name. It cuts a name that is too long.
func (r *Result) SetNode(name string) {
	clear(r.Node[:])
	copy(r.Node[:len(r.Node)-1], name)
}

func textOf(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
