// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/lazy"
	"skep/internal/uapi"
)

// workerSuffix is what `skep gen --build` names worker programs.
const workerSuffix = ".rex"

// A module is a bound worker program. init is the data of Initialize for calls to come;
// the reading goroutine owns it, and each call keeps its own pointer.
type module struct {
	digest   string
	sum      [32]byte
	manifest *uapi.Manifest
	init     *initData
	node     sched.NodeID // that alone may run its calls, or ""
}

// limits returns those of the interface file. Limits of the run replace them.
func (m *module) limits() proto.Limits {
	l := m.manifest.Limits
	return proto.Limits{Memory: l.Memory, Disk: l.Disk, CPU: float64(l.CPU) / 1000, Wall: float64(l.Wall) / 1000, Processes: l.Processes}
}

type initData struct {
	function   uint32
	digest     string
	length     uint64
	generation [32]byte
}

var moduleName = lazy.Regexp(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,62}$`)

// bindModule finds the worker program of a module. It inspects the stored copy, so the file
// cannot be replaced in between.
func (m *master) bindModule(id uint64, name string) error {
	host, name, bound := strings.Cut(name, "@")
	if !bound {
		host, name = "", host
	}
	node, e := m.findHost(host)
	if e != nil {
		m.fail(id, e)
		return nil
	}
	mod, raw, e := m.load(name)
	if e != nil {
		m.fail(id, e)
		return nil
	}
	mod.node = node
	m.modules = append(m.modules, mod)
	if err := m.recordModules(); err != nil {
		m.modules = m.modules[:len(m.modules)-1]
		m.fail(id, uapi.Errorf(uapi.EInternal, "%v", err))
		return nil
	}
	handle := uint32(len(m.modules))
	m.out.add(outgoing{client: id, kind: uapi.TypeBound, payload: uapi.Bound{Module: handle, Manifest: raw}.Encode()})
	return nil
}

func (m *master) load(name string) (*module, []byte, *uapi.Error) {
	if len(m.modules) >= modulesMax {
		return nil, nil, uapi.Errorf(uapi.ENoModule, "this program bound %d modules, more are not taken", modulesMax)
	}
	path, f, err := m.openWorker(name)
	if err != nil {
		return nil, nil, uapi.Errorf(uapi.ENoModule, "%v", err)
	}
	defer f.Close()
	if w, sent := f.(*wanted); sent {
		if err := m.reserve(uint64(w.length)); err != nil {
			return nil, nil, spoolError("the worker program", err)
		}
	}
	digest, err := m.hub.putBlob(f, m.key)
	if err != nil {
		return nil, nil, uapi.Errorf(uapi.EInternal, "module %s cannot be stored: %v", name, err)
	}
	stored, err := m.hub.openBlob(digest)
	if err != nil {
		return nil, nil, uapi.Errorf(uapi.EInternal, "module %s cannot be read back: %v", name, err)
	}
	defer stored.Close()
	manifest, raw, err := uapi.ReadManifest(stored)
	if err != nil {
		return nil, nil, uapi.Errorf(uapi.EBadModule, "%s is not a worker program that skep can run: %v", path, err)
	}
	return &module{digest: hex.EncodeToString(digest[:]), sum: digest, manifest: manifest}, raw, nil
}

// openWorker opens the worker program of a module, here or on the machine of the run's user.
func (m *master) openWorker(name string) (string, io.ReadCloser, error) {
	if m.run.user != "" {
		w, err := m.run.fetchWorker(name)
		if err != nil {
			return "", nil, err
		}
		return w.path, w, nil
	}
	return openWorker(m.run.dirs, name)
}

// openWorker finds a worker program in folders of this machine. It returns no file that is nil.
func openWorker(dirs []string, name string) (string, *os.File, error) {
	if function, ok := strings.CutPrefix(name, "?"); ok {
		return findFunction(dirs, function)
	}
	if filepath.IsAbs(name) {
		return openProgram(name)
	}
	if !moduleName().MatchString(name) {
		return "", nil, fmt.Errorf("%.80q is not the name of a module", name)
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name+workerSuffix)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue // also keeps Open from waiting for a pipe's other end
		}
		f, err := os.Open(path)
		if err != nil {
			return "", nil, fmt.Errorf("the worker program of module %s cannot be read: %v", name, err)
		}
		return path, f, nil
	}
	return "", nil, fmt.Errorf("no worker program %s%s in %s: build it there, or name its directory with --modules", name, workerSuffix, strings.Join(dirs, ", "))
}

func (m *master) moduleByHandle(handle uint32) *module {
	if handle == 0 || uint64(handle) > uint64(len(m.modules)) {
		return nil
	}
	return m.modules[handle-1]
}

func (m *master) moduleInit(f *session.Frame) error {
	v, err := uapi.DecodeExact[uapi.ModuleInit](f.Payload)
	if err != nil {
		return protocolError("%v", err)
	}
	if err := m.checkFresh(f.Call); err != nil {
		return err
	}
	in, id, mod := &incoming{left: v.Length}, f.Call, m.moduleByHandle(v.Module)
	m.incoming[id] = in
	switch {
	case mod == nil:
		m.fail(id, uapi.Errorf(uapi.ENoModule, "no module has the handle %d", v.Module))
	case uint64(v.Function) >= uint64(len(mod.manifest.Functions)) || !mod.manifest.Functions[v.Function].Init:
		m.fail(id, uapi.Errorf(uapi.ENoFunction, "function %d of module %s is not its Initialize", v.Function, mod.manifest.Name))
	default:
		if in.to, err = m.hub.spools.newSpool(v.Length, m.quotas(m.hub)...); err != nil {
			m.fail(id, spoolError("the data of Initialize", err))
			return nil
		}
		in.done = func() { m.initModule(id, mod, v, in.to) }
		in.fail = func(err error) { m.fail(id, uapi.Errorf(uapi.EInternal, "%v", err)) }
	}
	return nil
}

// initModule stores the data of Initialize, which calls that are read later use.
func (m *master) initModule(id uint64, mod *module, v uapi.ModuleInit, data *spool) {
	digest, err := m.hub.putBlob(data.reader(context.Background()), m.key)
	if err != nil {
		m.fail(id, uapi.Errorf(uapi.EInternal, "the data of Initialize cannot be stored: %v", err))
		return
	}
	if err := m.reserve(v.Length); err != nil {
		m.fail(id, spoolError("the data of Initialize", err))
		return
	}
	before := mod.init
	mod.init = &initData{v.Function, hex.EncodeToString(digest[:]), v.Length, initDigest(v.Function, digest)}
	if err := m.recordModules(); err != nil {
		mod.init = before
		m.fail(id, uapi.Errorf(uapi.EInternal, "%v", err))
		return
	}
	m.out.add(outgoing{client: id, kind: uapi.TypeDone})
}

// initDigest is the digest of Initialize's data: a worker with the same one can
// take the place of another.
func initDigest(function uint32, blob [32]byte) [32]byte {
	b := append([]byte("skep init"), byte(function), byte(function>>8), byte(function>>16), byte(function>>24))
	return sha256.Sum256(append(b, blob[:]...))
}
