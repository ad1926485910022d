// SPDX-License-Identifier: MIT

package uapi

// Values of SnapshotAsk.End.
const (
	SnapshotGo   = 0 // the program goes on at once
	SnapshotHold = 2 // it rests until it is told what to do, and ends if nobody can tell it
)

// SnapshotHurry is a byte for a program that is being saved while it runs: it is to rest soon.
const SnapshotHurry = 2

// SnapshotFits is a byte: the files that the program has mapped are the same at its target.
const SnapshotFits = 3

// Values of SnapshotAsk.Live; 0: it is written at rest.
const (
	SnapshotLive  = 1
	SnapshotAwait = 2 // and does not rest before SnapshotFits
)

// SnapshotAsk is struct skep_snapshot_ask.
type SnapshotAsk struct {
	End  uint32
	Live uint32 // most of it is written while the program runs
}

// SnapshotAnswer is struct skep_snapshot_answer.
type SnapshotAnswer struct {
	Saved, Watches uint32
	Bytes, PauseNS uint64
	Early, Pages   uint64
	RestNS, UsedNS uint64
	Why            [320]byte
}
