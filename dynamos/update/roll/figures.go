// SPDX-License-Identifier: MIT

package roll

// An Applied is an update in a node's kernel, whoever applied it. It is for people: nothing
// is decided by it.
type Applied struct {
	Name      string     `json:"name"`
	State     string     `json:"state"`
	Advised   bool       `json:"reboot_advised,omitempty"`
	End       string     `json:"end,omitempty"` // why it was reverted last
	Functions []Function `json:"functions,omitempty"`
	Left      int        `json:"left,omitempty"` // functions that are not listed
}

// FiguresMax is how many functions a node lists, over all its updates.
const FiguresMax = 64

// A Function has the figures of both versions of a function that an update changes.
type Function struct {
	Symbol    string  `json:"symbol"`
	Uncounted bool    `json:"uncounted,omitempty"` // no figures are known
	Old       Version `json:"old"`
	New       Version `json:"new"`
}

// A Version has the figures of a version since the update was applied.
type Version struct {
	Calls  uint64 `json:"calls"`
	Errors uint64 `json:"errors"`
	Inside uint64 `json:"inside"` // calls that have not returned
	P50    uint64 `json:"p50_ns"` // median; 0: not known
	P99    uint64 `json:"p99_ns"`
}

// AddFunctions adds the figures of functions to those of the same names. Latencies cannot be
// added: the longest stays.
func AddFunctions(sums, list []Function) []Function {
	for _, f := range list {
		n := 0
		for n < len(sums) && sums[n].Symbol != f.Symbol {
			n++
		}
		if n == len(sums) {
			sums = append(sums, Function{Symbol: f.Symbol})
		}
		sums[n].Uncounted = sums[n].Uncounted || f.Uncounted
		sums[n].Old.add(&f.Old)
		sums[n].New.add(&f.New)
	}
	return sums
}

func (v *Version) add(o *Version) {
	v.Calls += o.Calls
	v.Errors += o.Errors
	v.Inside += o.Inside
	v.P50, v.P99 = max(v.P50, o.P50), max(v.P99, o.P99)
}
