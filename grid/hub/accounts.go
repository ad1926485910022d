// SPDX-License-Identifier: MIT

package hub

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"skep/grid/session"
	"skep/internal/atomicfile"
	"skep/internal/lazy"
)

// Terms are what a user may have. Zero means a share of 1 and no limit.
type Terms struct {
	Share int    `json:"share,omitempty"` // its weight among the users whose calls wait
	Slots int    `json:"slots,omitempty"` // at a time, on all nodes together
	Bytes uint64 `json:"bytes,omitempty"` // that the hub stores for it
}

// An account is a user who submits from other machines. Its id is never used for another one.
type account struct {
	Name  string    `json:"name"`
	ID    string    `json:"id"`
	Added time.Time `json:"added"`
	Terms
	Keys map[string]string `json:"keys,omitempty"` // id in a certificate: SHA-256 of its key, hex
}

// accountsFile is what is stored. Removed accounts are kept by the ids in their certificates,
// so that these are refused by name.
type accountsFile struct {
	Operator Terms             `json:"operator"` // of the hub's own user
	Accounts []*account        `json:"accounts,omitempty"`
	Removed  map[string]string `json:"removed,omitempty"` // id in a certificate: name
}

// accounts are the users of a hub. The lock guards the content and the file. What is in a list
// is never changed but replaced.
type accounts struct {
	file   string
	stored func([]byte) // gets the file's text, with the lock held; or nil

	mu   sync.Mutex
	list accountsFile
}

// OperatorName is the hub's own user, who sees all and has no account.
const OperatorName = "operator"

const (
	usersFile      = "users.json"
	userTokensFile = "user-tokens.json"

	accountsMax  = 10000
	keysMax      = 64 // machines of an account
	shareMax     = 1000
	userSlotsMax = 1 << 20
)

var (
	accountName = lazy.Regexp(`^[a-z_][a-z0-9_.-]{0,31}$`)
	errNoUser   = errors.New("no user is called")
)

func openAccounts(file string) (*accounts, error) {
	a := &accounts{file: file}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &a.list); err != nil || slices.Contains(a.list.Accounts, nil) {
		return nil, fmt.Errorf("%s is damaged: restore it, or remove it and add the users again", file)
	}
	return a, nil
}

func (t Terms) check() error {
	switch {
	case t.Share < 0 || t.Share > shareMax:
		return fmt.Errorf("a share is a number from 1 to %d", shareMax)
	case t.Slots < 0 || t.Slots > userSlotsMax:
		return fmt.Errorf("a limit of slots is a number from 1 to %d, or 0 for none", userSlotsMax)
	case t.Bytes > math.MaxInt64/2:
		return errors.New("a quota is less than 4 EiB")
	}
	return nil
}

// change stores the list with a change, or leaves it as it was. f changes a copy.
func (a *accounts) change(f func(*accountsFile) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := a.list
	next.Accounts = slices.Clone(a.list.Accounts)
	next.Removed = map[string]string{}
	for id, name := range a.list.Removed {
		next.Removed[id] = name
	}
	if err := f(&next); err != nil {
		return err
	}
	b, err := json.MarshalIndent(next, "", "\t")
	if err == nil {
		b = append(b, '\n')
		err = atomicfile.Write(a.file, b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("the list of users cannot be stored: %w", err)
	}
	if a.stored != nil {
		a.stored(b)
	}
	a.list = next
	return nil
}

func (l *accountsFile) find(name string) int {
	return slices.IndexFunc(l.Accounts, func(u *account) bool { return u.Name == name })
}

func noUserError(name string) error {
	return fmt.Errorf("%w %q: `skep user list` lists them", errNoUser, name)
}

// add makes an account.
func (a *accounts) add(name string, t Terms, now time.Time) (*account, error) {
	u := &account{Name: name, ID: session.NewID().String()[:16], Added: now.UTC(), Terms: t}
	if !accountName().MatchString(name) {
		return nil, fmt.Errorf("%q is not a name for a user: it has up to 32 small letters, digits, '_', '.' and '-', and begins with a letter or '_'", name)
	}
	if name == OperatorName {
		return nil, fmt.Errorf("%s is the hub's own user: give another name", name)
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	return u, a.change(func(l *accountsFile) error {
		switch {
		case l.find(name) >= 0:
			return fmt.Errorf("the user %s exists: `skep user token %s` lets it submit from another machine", name, name)
		case len(l.Accounts) >= accountsMax:
			return fmt.Errorf("the hub has %d users, and takes no more", accountsMax)
		}
		l.Accounts = append(l.Accounts, u)
		return nil
	})
}

// set changes what a user may have, and returns its id: empty for the operator.
func (a *accounts) set(name string, f func(*Terms)) (id string, t Terms, err error) {
	err = a.change(func(l *accountsFile) error {
		if name == OperatorName {
			f(&l.Operator)
			t = l.Operator
			return t.check()
		}
		at := l.find(name)
		if at < 0 {
			return noUserError(name)
		}
		u := *l.Accounts[at]
		f(&u.Terms)
		l.Accounts[at], id, t = &u, u.ID, u.Terms
		return t.check()
	})
	return id, t, err
}

// remove ends an account; its certificates are refused from then on.
func (a *accounts) remove(name string) (id string, err error) {
	err = a.change(func(l *accountsFile) error {
		at := l.find(name)
		if at < 0 {
			return noUserError(name)
		}
		for key := range l.Accounts[at].Keys {
			l.Removed[key] = name
		}
		id = l.Accounts[at].ID
		l.Accounts = slices.Delete(l.Accounts, at, at+1)
		return nil
	})
	return id, err
}

// addKey binds the id in a certificate to an account.
func (a *accounts) addKey(owner, id, key string) (name string, err error) {
	err = a.change(func(l *accountsFile) error {
		at := slices.IndexFunc(l.Accounts, func(u *account) bool { return u.ID == owner })
		if at < 0 {
			return errors.New("the account of this token was removed")
		}
		if err := l.checkKey(owner, id, key); err != nil {
			return err
		}
		u := *l.Accounts[at]
		keys := map[string]string{id: key}
		for id, key := range u.Keys {
			keys[id] = key
		}
		if len(keys) > keysMax {
			return fmt.Errorf("the user %s submits from %d machines, and from no more", u.Name, keysMax)
		}
		u.Keys, name = keys, u.Name
		l.Accounts[at] = &u
		return nil
	})
	return name, err
}

// checkKey refuses an id that another account has, or that was bound to another key: whoever
// knows a public nkey knows the id.
func (l *accountsFile) checkKey(owner, id, key string) error {
	if name, removed := l.Removed[id]; removed {
		return removedError(name)
	}
	for _, u := range l.Accounts {
		if known, ok := u.Keys[id]; ok && (u.ID != owner || known != key) {
			return errors.New("this identity belongs to another account: give another --state")
		}
	}
	return nil
}

func removedError(name string) error {
	return fmt.Errorf("the account %s was removed from the hub: ask its operator for another one, and join it with another --state", name)
}

// byKey returns the account of the id in a certificate.
func (a *accounts) byKey(id string) (*account, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range a.list.Accounts {
		if _, ok := u.Keys[id]; ok {
			return u, nil
		}
	}
	if name, removed := a.list.Removed[id]; removed {
		return nil, removedError(name)
	}
	return nil, errors.New("the hub does not know this account: ask for a line of `skep user token NAME` on the hub, and run it here")
}

// byID returns the account with an id, or nil.
func (a *accounts) byID(id string) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := slices.IndexFunc(a.list.Accounts, func(u *account) bool { return u.ID == id }); at >= 0 {
		return a.list.Accounts[at]
	}
	return nil
}

func (a *accounts) byName(name string) (*account, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := a.list.find(name); at >= 0 {
		return a.list.Accounts[at], nil
	}
	return nil, noUserError(name)
}

// nameOf returns the name of the user with an id, for people.
func (a *accounts) nameOf(id string) string {
	if id == "" {
		return ""
	}
	if u := a.byID(id); u != nil {
		return u.Name
	}
	return "(removed)"
}

// terms returns what the user with an id may have.
func (a *accounts) terms(id string) Terms {
	if id != "" {
		if u := a.byID(id); u != nil {
			return u.Terms
		}
		return Terms{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list.Operator
}

// all lists the accounts by their names.
func (a *accounts) all() (list []*account, operator Terms) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list = slices.Clone(a.list.Accounts)
	slices.SortFunc(list, func(x, y *account) int { return cmp.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name)) })
	return list, a.list.Operator
}
