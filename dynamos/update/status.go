// SPDX-License-Identifier: MIT

package update

import (
	"errors"
	"math"

	"skep/internal/uapi"
)

// ErrNoMore: there is no update, or no function, with that number.
var ErrNoMore = errors.New("there is no more")

// A Source lists updates: a Device, or a fake in tests.
type Source interface {
	Info(index uint32) (uapi.DynamosInfo, error)
	Count(name string, function, version uint32) (uapi.DynamosCount, error)
}

// A Status is one update as it is now.
type Status struct {
	Name      string     `json:"name"`
	Class     string     `json:"class"`
	State     string     `json:"state"`
	Policy    string     `json:"policy"`
	ConfirmMS int64      `json:"confirm_ms"` // time left until it is reverted; -1: no limit
	Advised   bool       `json:"reboot_advised"`
	BuildID   string     `json:"build_id"`
	End       string     `json:"end,omitempty"`
	Held      string     `json:"held,omitempty"` // why its module is never unloaded after it was applied
	Health    Health     `json:"health"`
	Functions []Function `json:"functions"`
	Inside    []Task     `json:"inside"`
	Events    []Event    `json:"events"`
}

// Health has the limits beyond which the kernel reverts an update; 0: no limit.
type Health struct {
	Least   uint32 `json:"least_calls"`
	Errors  uint32 `json:"errors_per_1000"`
	Latency uint32 `json:"latency_percent"`
	StuckNS uint64 `json:"stuck_ns"`
}

// Longer is the base of the limit of latency: 100 percent of the older version's
// median.
const Longer = 100

func healthOf(h *uapi.DynamosHealth) Health {
	return Health{h.Least, h.Errors, max(h.Latency, Longer) - Longer, h.Stuck}
}

// A Function of an update: the figures of its new version and of the older one.
type Function struct {
	Symbol    string  `json:"symbol"`
	Installer string  `json:"installer"`
	Owner     string  `json:"owner,omitempty"`
	Uncounted bool    `json:"uncounted,omitempty"` // livepatch leads its calls past the counters
	Old       Version `json:"old"`
	New       Version `json:"new"`

	wrapper, text span
}

// A Version has the figures of a version since the update was applied.
type Version struct {
	Calls    uint64 `json:"calls"`
	Returned uint64 `json:"returned"`
	Lost     uint64 `json:"lost"`
	Inside   uint64 `json:"inside"`
	Errors   uint64 `json:"errors"`
	Outside  uint64 `json:"outside_task"`
	Sampled  uint64 `json:"sampled"`
	P50      uint64 `json:"p50_ns"`
	P99      uint64 `json:"p99_ns"`
}

// A span is a range of addresses, empty if its length is 0.
type span struct{ from, length uint64 }

func (s span) contains(address uint64) bool { return address-s.from < s.length }

// An Event is a change of an update's state, or another event that the kernel reports.
type Event struct {
	TimeNS uint64 `json:"time_ns"` // of CLOCK_BOOTTIME
	Cause  string `json:"cause"`
	State  string `json:"state"`
	PID    int32  `json:"pid"`
	Comm   string `json:"comm"`
	Text   string `json:"text"`
}

// AllInfos returns all updates.
func AllInfos(s Source) (list []uapi.DynamosInfo, err error) {
	for n := uint32(0); ; n++ {
		i, err := s.Info(n)
		if errors.Is(err, ErrNoMore) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
}

// List returns the status of all updates, without their events and the tasks inside.
func List(s Source, names Names) ([]Status, error) {
	infos, err := AllInfos(s)
	if err != nil {
		return nil, err
	}
	list := []Status{}
	for _, i := range infos {
		u, err := statusOf(s, &i, names)
		if errors.Is(err, ErrNoMore) {
			continue // removed in the meantime
		}
		if err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	return list, nil
}

func statusOf(s Source, i *uapi.DynamosInfo, names Names) (Status, error) {
	u := Status{Name: uapi.Text(i.Name[:]), Class: i.Class.String(), State: i.State.String(),
		Policy: DescribePolicy(&i.Policy, names), ConfirmMS: i.ConfirmMS, Advised: i.Advised != 0,
		BuildID: uapi.Text(i.BuildID[:]), End: uapi.Text(i.End[:]), Held: uapi.Text(i.WhyHeld[:]),
		Health:    healthOf(&i.Health),
		Functions: []Function{}, Inside: []Task{}, Events: []Event{}}
	for n := range min(i.Functions, uapi.DynamosFunctions) {
		older, err := s.Count(u.Name, n, 0)
		if err != nil {
			return u, err
		}
		newer, err := s.Count(u.Name, n, 1)
		if err != nil {
			return u, err
		}
		u.Functions = append(u.Functions, Function{
			Symbol: uapi.Text(newer.Symbol[:]), Installer: newer.Installer.String(), Owner: uapi.Text(newer.Owner[:]),
			Uncounted: newer.Installer == uapi.DynamosLivepatchOnly,
			Old:       versionOf(&older), New: versionOf(&newer),
			wrapper: span{newer.Wrapper, newer.WrapperLength}, text: span{newer.Address, newer.Length}})
	}
	return u, nil
}

func versionOf(c *uapi.DynamosCount) Version {
	v := Version{Calls: c.In, Returned: c.Out, Lost: c.Lost, Errors: c.Errors, Outside: c.Outside, Sampled: c.Sampled,
		P50: percentile(&c.Latency, 0.50), P99: percentile(&c.Latency, 0.99)}
	// The sums are read one after the other while calls continue, so n may be negative.
	if n := c.In - c.Out - c.Lost; int64(n) > 0 {
		v.Inside = n
	}
	return v
}

// percentile assumes that the calls of a bucket are evenly distributed; bucket i is
// from 2^i to 2^(i+1) ns.
func percentile(buckets *[uapi.DynamosBuckets]uint64, part float64) uint64 {
	var all float64
	for _, n := range buckets {
		all += float64(n)
	}
	left := part * all
	for i, n := range buckets {
		if n == 0 {
			continue
		}
		if left <= float64(n) {
			return uint64(math.Ldexp(1+left/float64(n), i))
		}
		left -= float64(n)
	}
	return 0
}

// EventsOf returns the events of one update.
func EventsOf(list []uapi.DynamosEvent, name string) []Event {
	out := []Event{}
	for _, e := range list {
		if uapi.Text(e.Name[:]) == name || e.Cause == uapi.DynamosDropped {
			out = append(out, Event{e.Time, e.Cause.String(), e.State.String(), e.PID, uapi.Text(e.Comm[:]), uapi.Text(e.Text[:])})
		}
	}
	return out
}
