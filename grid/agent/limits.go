// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// An excess is a limit that a program exceeded.
type excess struct {
	Limit   proto.Limit `json:"limit,omitempty"`
	Used    float64     `json:"used,omitempty"`
	Allowed float64     `json:"allowed,omitempty"`
}

const (
	processesDefault = 1024
	// processesOver is by how many processes a program may exceed its limit before the
	// kernel refuses more.
	processesOver = 64
	memoryMin     = 1 << 30 // of a default, if there are many slots
)

// setDefaults sets limits that protect the machine's owner and other programs: each slot gets its share.
func (c *Config) setDefaults(slots int, diskFree uint64, bee bool) {
	total, _ := memoryInfo()
	n := uint64(max(slots, 1))
	d := proto.Limits{Memory: max(total/10*9/n, min(memoryMin, total/10*9)), Processes: processesDefault,
		Disk: diskFree / 2 / n}
	if c.Limits.Memory == 0 && !bee { // bee counts memory that a program may use later
		c.Limits.Memory = d.Memory
	}
	if c.Limits.Processes == 0 && !systemIsWindows { // there a program is one process
		c.Limits.Processes = d.Processes
	}
	if c.Limits.Disk == 0 {
		c.Limits.Disk = d.Disk
	}
}

// limitsFor returns the limits of a program with its own requests.
func (a *Agent) limitsFor(asked proto.Limits) proto.Limits {
	l := a.config.Limits
	return l.Within(asked)
}

// message names the limit and who can raise it.
func (e *excess) message(owner proto.Limits) string {
	say := func(n float64) string {
		switch e.Limit {
		case proto.LimitMemory, proto.LimitDisk:
			return sizeText(n)
		case proto.LimitProcesses:
			return fmt.Sprintf("%.0f", n)
		}
		return time.Duration(n * float64(time.Second)).Round(time.Millisecond).String()
	}
	what := map[proto.Limit]string{proto.LimitMemory: "of memory", proto.LimitCPU: "of processor time",
		proto.LimitWall: "of time", proto.LimitProcesses: "processes and threads", proto.LimitDisk: "of disk"}[e.Limit]
	raise := fmt.Sprintf("ask for more with --%s", e.Limit)
	if o := owner.Of(e.Limit); o != 0 && o <= e.Allowed {
		raise = fmt.Sprintf("the node's owner can raise it with --limit-%s of skep join", e.Limit)
	}
	if e.Used <= e.Allowed { // the kernel refused what would have been more
		return fmt.Sprintf("it exceeded its limit: it needed more than the %s %s allowed; %s", say(e.Allowed), what, raise)
	}
	return fmt.Sprintf("it exceeded its limit: it used %s %s, more than the %s allowed; %s", say(e.Used), what, say(e.Allowed), raise)
}

// sizeText is a size in the powers of 1024 in which people state limits.
func sizeText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for n >= 1024 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%.4g %s", n, units[0])
}

// limitFailure is an excess as the end of a call.
func (a *Agent) limitFailure(e *excess) *failure {
	return failf(proto.ReasonLimit, uapi.EWorker, "%s", e.message(a.config.Limits))
}

// wallExcess is the excess of the elapsed time, which this process measures.
func wallExcess(limit, used time.Duration) *excess {
	return &excess{proto.LimitWall, used.Seconds(), limit.Seconds()}
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
