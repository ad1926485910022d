// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"skep/dynamos/update/pack"
	"skep/internal/atomicfile"
	"skep/internal/uapi"
)

// A Keep stores committed updates, so that they are restored at the next boot. Only
// root may write to its folder, because the kernel loads modules from it.
type Keep struct {
	Dir string // survives a boot; if it does not exist, no update is stored
	Run string // removed by a boot: packages of applied updates
	// Panics is where records of panics are, see PanicDirs.
	Panics []string
}

// A Kept is a committed update as it is stored beside its package.
type Kept struct {
	Name    string
	BuildID string // of the kernel that it was committed on
	Digest  string // SHA-256 of the package
	Policy  uapi.DynamosPolicy
	Health  uapi.DynamosHealth
	Cgroups map[int]string // by rule: paths, because numbers of cgroups change with a boot
	Off     *Off           `json:",omitempty"` // why it is not restored; nil: it is
	// ObjectsExist is the operator's reason why objects do no harm that existed when it was
	// applied.
	ObjectsExist string `json:",omitempty"`
	// Contained is a kernel that contains the change, as operators signed.
	Contained *Contained `json:",omitempty"`
}

// A Contained is a kernel that needs an update no more, and who signed that.
type Contained struct {
	BuildID string
	Signers []string
}

// containedIn reports whether the kernel of this build-id contains the change.
func (k *Kept) containedIn(build string) bool {
	return k.Contained != nil && build != "" && k.Contained.BuildID == build
}

// passingTerms are terms of a policy that name what exists in this boot only.
const passingTerms = uapi.DynamosPID | uapi.DynamosTGID | uapi.DynamosWindow | uapi.DynamosProgram

func (k *Keep) path(name, kind string) string { return filepath.Join(k.Dir, name+kind) }

// IsOn reports whether updates are stored. It refuses a folder that other users than
// root may change.
func (k *Keep) IsOn() (bool, error) {
	info, err := os.Lstat(k.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(s.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return false, refusef("%s is not a folder that its owner alone may change: what is in it is not loaded into the kernel", k.Dir)
	}
	return true, nil
}

// Remember stores the bytes of an applied package for a later Save.
func (k *Keep) Remember(name string, text []byte) error {
	if err := os.MkdirAll(k.Run, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(k.remembered(name), text, 0o600)
}

// Remembered returns the bytes of an applied package.
func (k *Keep) Remembered(name string) ([]byte, error) { return os.ReadFile(k.remembered(name)) }

func (k *Keep) remembered(name string) string { return filepath.Join(k.Run, name+pack.Suffix) }

// Save stores an update that is committed on the kernel with this build-id. If the
// update cannot be restored after a boot, refused says why.
func (k *Keep) Save(s Source, name, buildID string) (refused string, err error) {
	i, err := findInfo(s, name)
	if err != nil {
		return "", err
	}
	kept := Kept{Name: name, BuildID: buildID, Policy: withoutJobs(i.Policy), Health: i.Health, Cgroups: map[int]string{}}
	if refused = kept.nameCgroups(CgroupPath); refused != "" {
		return refused, nil
	}
	file, err := k.Remembered(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "its package was not applied from a file by this version of skep", nil
	}
	if err != nil {
		return "", err
	}
	kept.Digest = digestOf(file)
	if kept.ObjectsExist, err = k.exist(name); err != nil {
		return "", err
	}
	if err = atomicfile.Write(k.path(name, pack.Suffix), file, 0o600); err != nil {
		return "", err
	}
	return "", k.write(&kept)
}

// write stores what is known of an update beside its package.
func (k *Keep) write(kept *Kept) error {
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return atomicfile.Write(k.path(kept.Name, ".json"), text, 0o600)
}

// nameCgroups stores the paths of the policy's cgroups. If the policy is valid for
// this boot only, it returns the reason.
func (k *Kept) nameCgroups(path func(uint64) string) string {
	for n := range k.Policy.Used() {
		r := &k.Policy.Rule[n]
		if r.Terms&passingTerms != 0 {
			return "its policy names processes, times or programs of this boot"
		}
		if r.Terms&uapi.DynamosCgroup != 0 {
			if k.Cgroups[n] = path(r.Cgroup); k.Cgroups[n] == "" {
				return "its policy names a cgroup that no longer exists"
			}
		}
	}
	return ""
}

// numberCgroups sets the numbers that the policy's cgroups have in this boot.
func (k *Kept) numberCgroups(number func(string) (uint64, error)) error {
	for n, path := range k.Cgroups {
		if n < 0 || n >= len(k.Policy.Rule) {
			return refusef("what is stored of %s is damaged", k.Name)
		}
		id, err := number(path)
		if err != nil {
			return err
		}
		k.Policy.Rule[n].Cgroup = id
	}
	return nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Forget removes a stored update.
func (k *Keep) Forget(name string) error {
	var all error
	for _, kind := range []string{".json", pack.Suffix} {
		if err := atomicfile.Remove(k.path(name, kind)); !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// ForgetEnded removes stored updates that are loaded and not in force any more. Those that
// a newer update has superseded stay for a way back.
func (k *Keep) ForgetEnded(s Source) error {
	list, err := AllInfos(s)
	for _, i := range list {
		if i.State != uapi.DynamosLoaded && i.State != uapi.DynamosLeaving {
			continue
		}
		end := k.Forget
		if i.Cause == uapi.DynamosSuperseded {
			end = k.retire
		}
		err = errors.Join(err, end(uapi.Text(i.Name[:])))
	}
	return err
}

// List returns the stored updates. all joins the errors of files that cannot be read.
func (k *Keep) List() (list []Kept, all error) {
	files, err := filepath.Glob(k.path("*", ".json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), ".") {
			continue // not an update's: no module has such a name
		}
		var kept Kept
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &kept)
		}
		if err == nil && kept.Name+".json" != filepath.Base(file) {
			err = errors.New("it is of another update")
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", file, err))
			continue
		}
		list = append(list, kept)
	}
	return list, all
}

// open returns what a stored update is on the running kernel, and its module.
func (k *Keep) open(kept *Kept) (*pack.Kernel, []byte, error) {
	file, err := os.ReadFile(k.path(kept.Name, pack.Suffix))
	if err != nil {
		return nil, nil, err
	}
	if digestOf(file) != kept.Digest {
		return nil, nil, refusef("its package is not the one that was committed")
	}
	p, err := pack.Read(bytes.NewReader(file))
	if err != nil {
		return nil, nil, err
	}
	about, ok := p.Kernel(kept.BuildID)
	if !ok || p.Name != kept.Name {
		return nil, nil, refusef("its package is of another update or kernel")
	}
	return about, p.Modules[kept.BuildID], nil
}
