// SPDX-License-Identifier: MIT

// Package hosts reads the host files of OmniRPC, hosts.xml, which name the computers of a
// run. docs/omnirpc.md lists their elements.
package hosts

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// A File is the content of a host file without errors.
type File struct {
	Hosts   []Host
	Timeout time.Duration // of the start of all hosts; 0: the file has none
	// Warnings name what has no effect, each with its place.
	Warnings []string
}

// A Host is one computer, or a cluster that is reached through it. Several entries for one user
// and batch system of it are joined.
type Host struct {
	Place    string // FILE:LINE:COLUMN of its first entry
	Name     string
	User     string
	Arch, OS string // as uname says; "" is any
	Agent    string // the folder whose bin/ has skep; "" is the PATH
	Registry string // folder of worker programs
	Slots    int    // how many workers it runs at a time
	Batch    string // the batch system whose jobs run the workers: "slurm", "sge" or "pbs"; "" is none
}

// textMax is far above the size of any host file that people write.
const textMax = 1 << 20

type reader struct {
	name string
	xml  *xml.Decoder
	file File
	at   string // place of the element that is read
}

// Read reads a host file; name is for messages. An error begins with its place.
func Read(name string, text []byte) (*File, error) {
	if len(text) > textMax {
		return nil, fmt.Errorf("%s has more than %d bytes: is it a host file?", name, textMax)
	}
	r := &reader{name: name, xml: xml.NewDecoder(bytes.NewReader(text))}
	r.at = name + ":1:1"
	if err := r.readDocument(); err != nil {
		var syntax *xml.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("%s:%d: %s", name, syntax.Line, syntax.Msg)
		}
		return nil, err
	}
	return &r.file, nil
}

func (r *reader) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %s", r.at, fmt.Sprintf(format, args...))
}

func (r *reader) warnf(format string, args ...any) {
	r.file.Warnings = append(r.file.Warnings, r.errorf(format, args...).Error())
}

// next returns the next element below the current one, or nil at its end.
func (r *reader) next() (*xml.StartElement, error) {
	for {
		line, column := r.xml.InputPos()
		t, err := r.xml.Token()
		if err != nil {
			return nil, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			r.at = fmt.Sprintf("%s:%d:%d", r.name, line, column)
			return &t, nil
		case xml.EndElement:
			return nil, nil
		case xml.CharData:
			if s := strings.TrimSpace(string(t)); s != "" {
				r.at = fmt.Sprintf("%s:%d:%d", r.name, line, column)
				return nil, r.errorf("%.40q stands between elements", s)
			}
		}
	}
}

func (r *reader) readDocument() error {
	root, err := r.next()
	switch {
	case errors.Is(err, io.EOF):
		return r.errorf("the file has no element OmniRpcConfig")
	case err != nil:
		return err
	case root.Name.Local != "OmniRpcConfig":
		return r.errorf("the element %s is here instead of OmniRpcConfig", root.Name.Local)
	}
	for {
		e, err := r.next()
		if err != nil {
			return err
		}
		if e == nil {
			break
		}
		if err := r.readElement(e); err != nil {
			return err
		}
	}
	if len(r.file.Hosts) == 0 {
		return r.errorf("the file names no host: write <Host name=\"...\"/>")
	}
	return nil
}

func (r *reader) readElement(e *xml.StartElement) error {
	switch e.Name.Local {
	case "Host":
		return r.readHost(e)
	case "Debug":
		r.warnf("Debug has no effect: set OMRPC_DEBUG=1 for the program")
	case "TimeOut":
		a, err := r.attributes(e, "second")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(a["second"])
		if err != nil || n < 1 || n > 86400 {
			return r.errorf("TimeOut needs second, a number of seconds from 1 to 86400")
		}
		r.file.Timeout = time.Duration(n) * time.Second
	case "Log":
		r.warnf("Log has no effect: `skep run` shows the calls, and the hub keeps a ledger of them")
	case "Monitor":
		r.warnf("Monitor has no effect: `skep run` shows the progress")
	default:
		return r.errorf("there is no element %s: write Host, TimeOut, Debug, Log or Monitor", e.Name.Local)
	}
	return r.xml.Skip()
}

// attributes returns the element's attributes by name, and refuses other names.
func (r *reader) attributes(e *xml.StartElement, names ...string) (map[string]string, error) {
	found := map[string]string{}
	for _, n := range names {
		for _, a := range e.Attr {
			if a.Name.Local == n {
				found[n] = a.Value
			}
		}
	}
	for _, a := range e.Attr {
		if _, known := found[a.Name.Local]; !known {
			return nil, r.errorf("%s has no attribute %s: write %s", e.Name.Local, a.Name.Local, strings.Join(names, ", "))
		}
		for _, c := range a.Value {
			if c < ' ' || c == 0x7f {
				return nil, r.errorf("the attribute %s has a control character", a.Name.Local)
			}
		}
	}
	return found, nil
}

func (r *reader) readHost(e *xml.StartElement) error {
	a, err := r.attributes(e, "name", "user", "arch", "os")
	if err != nil {
		return err
	}
	h := Host{Place: r.at, Name: a["name"], User: a["user"], Arch: a["arch"], OS: a["os"], Slots: 1}
	// ssh takes a word that begins with - for an option.
	for _, word := range []string{h.Name, h.User} {
		if strings.HasPrefix(word, "-") || strings.ContainsAny(word, " \t@/") {
			return r.errorf("%q is not the name of a host or user", word)
		}
	}
	if h.Name == "" {
		return r.errorf("Host needs name, the name of a computer")
	}
	for {
		e, err := r.next()
		if err != nil {
			return err
		}
		if e == nil {
			r.addHost(h)
			return nil
		}
		if err = r.readPart(&h, e); err == nil {
			err = r.xml.Skip()
		}
		if err != nil {
			return err
		}
	}
}

func (r *reader) addHost(h Host) {
	for i := range r.file.Hosts {
		if o := &r.file.Hosts[i]; o.Name == h.Name && o.User == h.User && o.Batch == h.Batch {
			o.Slots += h.Slots
			return
		}
	}
	r.file.Hosts = append(r.file.Hosts, h)
}

// readPart reads an element of a host.
func (r *reader) readPart(h *Host, e *xml.StartElement) error {
	switch e.Name.Local {
	case "Agent":
		return r.readAgent(h, e)
	case "JobScheduler":
		return r.readScheduler(h, e)
	case "Registry":
		a, err := r.attributes(e, "path")
		if err == nil && a["path"] == "" {
			err = r.errorf("Registry needs path, a folder of worker programs")
		}
		h.Registry = a["path"]
		return err
	case "WorkingPath":
		a, err := r.attributes(e, "path")
		if err == nil && a["path"] == "" {
			err = r.errorf("WorkingPath needs path, a folder")
		}
		r.warnf("WorkingPath has no effect: each worker has a folder of its own")
		return err
	case "Description":
		return nil
	}
	return r.errorf("a Host has no element %s: write Agent, JobScheduler, Registry, WorkingPath or Description", e.Name.Local)
}

func (r *reader) readAgent(h *Host, e *xml.StartElement) error {
	a, err := r.attributes(e, "invoker", "mxio", "path", "port")
	if err != nil {
		return err
	}
	switch a["invoker"] {
	case "ssh", "rsh": // rsh is started as ssh
	case "":
		return r.errorf("Agent needs invoker: write ssh")
	case "daemon", "server":
		return r.errorf("the invoker %s is not supported: type `skep up` on this computer and the `skep join` that it prints on %s, and start the program with `skep run`", a["invoker"], h.Name)
	case "mpi", "globus", "gram":
		return r.errorf("the invoker %s is not supported: write ssh", a["invoker"])
	default:
		return r.errorf("there is no invoker %q: write ssh", a["invoker"])
	}
	// An agent has one connection with all its workers, as mxio makes it.
	switch a["mxio"] {
	case "", "on", "yes", "off", "no":
	default:
		return r.errorf("mxio is on or off, not %q", a["mxio"])
	}
	if a["port"] != "" {
		r.warnf("port has no effect: the agent connects to the hub")
	}
	h.Agent = a["path"]
	return nil
}

// slotsMax is what `skep join --slots` takes.
const slotsMax = 4096

func (r *reader) readScheduler(h *Host, e *xml.StartElement) error {
	a, err := r.attributes(e, "type", "maxjob")
	if err != nil {
		return err
	}
	switch t := a["type"]; t {
	case "", "fork":
	case "rr", "round-robin", "round_robin":
		return r.errorf("the type %s is not supported: write a Host for each computer of the cluster", t)
	case "slurm", "sge", "pbs":
		h.Batch = t
	default:
		return r.errorf("there is no type %q of JobScheduler: write fork, slurm, sge or pbs", t)
	}
	if text, given := a["maxjob"]; given {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > slotsMax {
			return r.errorf("maxjob is a number from 1 to %d, not %q", slotsMax, text)
		}
		h.Slots = n
	}
	return nil
}
