// SPDX-License-Identifier: MIT

package launch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"skep/internal/uapi"
)

// An Endpoint holds the status page of one open O2G endpoint.
type Endpoint struct {
	PID            int     `json:"pid"`
	Program        string  `json:"program"`
	Engine         string  `json:"engine"`
	Address        string  `json:"address"`
	ID             string  `json:"id"`
	Opened         uint64  `json:"opened"` // seconds since 1970
	Named          uint32  `json:"named"`
	Connected      uint32  `json:"connected"`
	Unreachable    uint32  `json:"unreachable"`
	Refused        uint32  `json:"refused"`
	Sent           uint64  `json:"sent"`
	SentBytes      uint64  `json:"sent_bytes"`
	Received       uint64  `json:"received"`
	ReceivedBytes  uint64  `json:"received_bytes"`
	Expected       uint64  `json:"expected"`
	Unexpected     uint64  `json:"unexpected"`
	Requested      uint64  `json:"requested"`
	Waited         uint64  `json:"waited"`
	Self           uint64  `json:"self"`
	FramesIn       uint64  `json:"frames_in"`
	FramesOut      uint64  `json:"frames_out"`
	Unmatched      uint64  `json:"held"`
	UnmatchedBytes uint64  `json:"held_bytes"`
	Posted         uint64  `json:"posted"`
	Links          *uint32 `json:"links,omitempty"`  // of the user engine
	Resent         *uint64 `json:"resent,omitempty"` // TCP segments
	Module         *Module `json:"module,omitempty"`
}

// A Module holds the counters of the kernel engine's module.
type Module struct {
	SoftirqBytes   uint64 `json:"softirq_bytes"`
	WorkerBytes    uint64 `json:"worker_bytes"`
	OverBudget     uint64 `json:"over_budget"`
	DirectBytes    uint64 `json:"direct_bytes"`
	SlabPages      uint64 `json:"slab_pages"`
	StoppedReading uint64 `json:"stopped_reading"`
	Wakes          uint64 `json:"wakes"`
	Sleeps         uint64 `json:"sleeps"`
	RefusedMemory  uint64 `json:"refused_memory"`
}

// StatusFolders returns the folders that may hold status pages of this user's
// endpoints. A program started over ssh may lack XDG_RUNTIME_DIR, which this shell
// has, and so use another folder.
func StatusFolders() []string {
	list := []string{fmt.Sprintf("/dev/shm/skep-o2g-%d", os.Getuid())}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		list = append(list, filepath.Join(runtime, "skep-o2g"))
	}
	return list
}

// ReadEndpoints reads the status pages in the folders, sorted by process, also those
// of other pid namespaces. It removes the pages of processes that have ended. A
// folder that can't be trusted is skipped, with an error in the second result.
func ReadEndpoints(folders []string) ([]Endpoint, []error) {
	var list []Endpoint
	var refused []error
	for _, folder := range folders {
		some, err := pagesIn(folder)
		if err != nil {
			refused = append(refused, err)
		}
		list = append(list, some...)
	}
	slices.SortFunc(list, func(a, b Endpoint) int { return a.PID - b.PID })
	return list, refused
}

// pageOf returns the process number that the name of a status page begins with. ok
// is false for the name of another file.
func pageOf(name string) (pid int, ok bool) {
	first, _, _ := strings.Cut(name, "-")
	pid, err := strconv.Atoi(first)
	return pid, err == nil && pid > 0
}

// parsePage decodes a live endpoint's status page.
func parsePage(pid int, page io.Reader) (Endpoint, bool) {
	var s uapi.O2GStatus
	err := binary.Read(io.LimitReader(page, int64(binary.Size(s))), binary.LittleEndian, &s)
	if err != nil || s.Magic != uapi.O2GStatusMagic {
		return Endpoint{}, false
	}
	if s.Revision != uapi.O2GStatusRevision {
		return Endpoint{PID: pid, Engine: fmt.Sprintf("revision %d", s.Revision)}, true
	}
	return endpointOf(&s), true
}

func textOf(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.ToValidUTF8(string(b), "?")
}

func moduleOf(s *uapi.O2GStatus) *Module {
	if textOf(s.Engine[:]) != "kernel" {
		return nil
	}
	return &Module{
		SoftirqBytes: s.SoftirqBytes, WorkerBytes: s.WorkerBytes, OverBudget: s.OverBudget,
		DirectBytes: s.DirectBytes, SlabPages: s.SlabPages, StoppedReading: s.StoppedReading,
		Wakes: s.Wakes, Sleeps: s.Sleeps, RefusedMemory: s.RefusedMemory,
	}
}

func endpointOf(s *uapi.O2GStatus) Endpoint {
	e := countsOf(s)
	if s.Known != 0 {
		e.Links, e.Resent = &s.Links, &s.Resent
	}
	return e
}

func countsOf(s *uapi.O2GStatus) Endpoint {
	return Endpoint{
		PID: int(s.PID), Program: textOf(s.Program[:]), Engine: textOf(s.Engine[:]),
		Address: addressOf(s.Name[:]), ID: fmt.Sprintf("%x", s.Name[24:]), Opened: s.Opened,
		Named: s.Named, Connected: s.Connected, Unreachable: s.Unreachable, Refused: s.Refused,
		Sent: s.Sent, SentBytes: s.SentBytes, Received: s.Received, ReceivedBytes: s.ReceivedBytes,
		Expected: s.Expected, Unexpected: s.Unexpected, Requested: s.Requested, Waited: s.Waited,
		Self: s.Self, FramesIn: s.FramesIn, FramesOut: s.FramesOut,
		Unmatched: s.Unmatched, UnmatchedBytes: s.UnmatchedBytes, Posted: s.Posted, Module: moduleOf(s),
	}
}

// addressOf decodes an endpoint's address: family, port, IP address.
func addressOf(name []byte) string {
	port := binary.LittleEndian.Uint16(name[2:])
	switch name[0] {
	case 4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(name[8:12])), port).String()
	case 6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(name[8:24])), port).String()
	}
	return "?"
}
