// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"skep/internal/cli"
)

// metricsType is the text format of Prometheus, which other monitoring systems read too.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// A metric is a family of samples of one name.
type metric struct {
	name, kind, help string // kind: gauge or counter
	samples          []sample
}

// A sample is a value with its labels: names and values in turn.
type sample struct {
	labels []string
	value  uint64
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// write writes the family. Values of labels come from nodes and programs, so they are hostile:
// characters that cannot be printed become question marks.
func (m *metric) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
	for _, s := range m.samples {
		b.WriteString(m.name)
		for i := 0; i+1 < len(s.labels); i += 2 {
			separator := "{"
			if i > 0 {
				separator = ","
			}
			fmt.Fprintf(b, `%s%s="%s"`, separator, s.labels[i], escapeLabel.Replace(cli.CleanText(s.labels[i+1])))
		}
		if len(s.labels) > 0 {
			b.WriteByte('}')
		}
		b.WriteString(" " + strconv.FormatUint(s.value, 10) + "\n")
	}
}

func gauge(name, help string, samples ...sample) *metric {
	return &metric{name, "gauge", help, samples}
}
func counter(name, help string, samples ...sample) *metric {
	return &metric{name, "counter", help, samples}
}

func single[T int | uint64](value T) sample { return sample{value: uint64(max(value, 0))} }

func flag(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// WriteMetrics writes the overview for monitoring systems. Counters begin when the hub starts,
// which skep_hub_start_time_seconds shows.
func (o *Overview) WriteMetrics(w io.Writer) error {
	var b bytes.Buffer
	for _, list := range [][]*metric{o.hubMetrics(), o.callMetrics(), o.nodeMetrics(), o.rollMetrics()} {
		for _, m := range list {
			m.write(&b)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (o *Overview) hubMetrics() []*metric {
	s := &o.Status
	return []*metric{
		gauge("skep_hub_info", "The version of the hub.", sample{[]string{"version", s.Version}, 1}),
		gauge("skep_hub_start_time_seconds", "When the hub started, in seconds since 1970.", single(uint64(max(s.Started.Unix(), 0)))),
		gauge("skep_hub_stored_bytes", "Arguments and results that the hub stores.", single(s.Stored)),
		gauge("skep_hub_stored_bytes_max", "The most that it stores: --quota-hub of skep up.", single(s.StoredMax)),
		gauge("skep_sessions", "Programs that are connected and call functions.", single(s.Sessions)),
		gauge("skep_audit_log_usable", "1 if the audit log can be read and written.", single(flag(o.NoAudit == ""))),
	}
}

func (o *Overview) callMetrics() []*metric {
	c := &o.Calls
	return []*metric{
		gauge("skep_calls_waiting", "Calls that wait for a slot of a node.", single(c.Waiting)),
		gauge("skep_calls_running", "Calls that run.", single(c.Running)),
		counter("skep_calls_done_total", "Calls that returned a result.", single(c.Done)),
		counter("skep_calls_failed_total", "Calls that failed or were cancelled.", single(c.Failed)),
		counter("skep_calls_rerun_total", "Runs that were lost with their worker or node, so that the call ran again.", single(c.Again)),
		counter("skep_calls_dropped_total", "Calls whose program ended first.", single(c.Dropped)),
	}
}

func (o *Overview) nodeMetrics() []*metric {
	list := []*metric{
		gauge("skep_node_info", "A node, with its system and how it runs programs."),
		gauge("skep_node_up", "1 if the node is up."),
		gauge("skep_node_drained", "1 if the node gets no more work: skep nodes --drain."),
		gauge("skep_node_slots", "Calls and programs that the node can run at a time."),
		gauge("skep_node_slots_busy", "How many of these slots are in use."),
		counter("skep_node_calls_done_total", "Calls that returned a result from the node."),
		counter("skep_node_runs_failed_total", "Runs of calls that failed on the node."),
		counter("skep_node_sent_bytes_total", "Bytes to the node: arguments and files."),
		counter("skep_node_received_bytes_total", "Bytes of results from the node."),
		gauge("skep_node_last_seen_seconds", "When the hub last heard from the node, in seconds since 1970."),
		gauge("skep_node_kernel_updates", "Kernel updates that are applied on the node."),
	}
	for i := range o.Nodes {
		n := &o.Nodes[i]
		seen := uint64(0)
		if !n.LastSeen.IsZero() {
			seen = uint64(max(n.LastSeen.Unix(), 0))
		}
		node := []string{"node", n.Name}
		list[0].samples = append(list[0].samples, sample{append(node[:2:2], "substrate", n.Substrate, "os", n.OS, "version", n.Version, "state", n.State), 1})
		for m, value := range []uint64{flag(n.State == NodeUp), flag(n.Drained), uint64(max(n.Slots, 0)), uint64(n.Busy()),
			n.Done, n.Failed, n.Sent, n.Received, seen, uint64(len(n.Kernel.Updates))} {
			list[m+1].samples = append(list[m+1].samples, sample{node, value})
		}
	}
	return list
}

func (o *Overview) rollMetrics() []*metric {
	state := gauge("skep_roll_info", "A roll of a kernel update, with its state.")
	nodes := gauge("skep_roll_nodes", "Nodes of a roll: by stage: trial, committed, left_out.")
	for i := range o.Rolls {
		r := &o.Rolls[i]
		n := r.Sums()
		state.samples = append(state.samples, sample{[]string{"update", r.Spec.Name, "state", r.State}, 1})
		for _, v := range []struct {
			stage string
			n     int
		}{{"trial", n.Run}, {"committed", n.Committed}, {"left_out", n.Left}} {
			nodes.samples = append(nodes.samples, sample{[]string{"update", r.Spec.Name, "stage", v.stage}, uint64(max(v.n, 0))})
		}
	}
	return []*metric{state, nodes}
}

func (h *Hub) showMetrics(w http.ResponseWriter, _ *http.Request, by viewer) {
	o, err := h.overviewFor(by)
	if err != nil {
		answerNode(w, err)
		return
	}
	w.Header().Set("Content-Type", metricsType)
	o.WriteMetrics(w)
}
