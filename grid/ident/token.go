// SPDX-License-Identifier: MIT

package ident

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Errors of a token; each message names the remedy.
var (
	ErrTokenForm    = errors.New("this is not a join token: copy the whole word that starts with skep1. from the hub's join line")
	ErrTokenUnknown = errors.New("the hub does not know this token: ask for a new one with `skep token` on the hub")
	ErrTokenUsedUp  = errors.New("this token is used up: ask for a new one with `skep token` on the hub")
	ErrTokenExpired = errors.New("this token has expired: ask for a new one with `skep token` on the hub")
	ErrWrongHub     = errors.New("this is not the hub that made the token (its CA differs): check the address, or ask that hub for a token")
)

const tokenPrefix = "skep1."

// A Token lets machines join. It contains the digest of its hub's CA, so that
// the joining machine verifies the hub before it sends a secret.
type Token struct {
	ID     [8]byte
	Secret [16]byte
	CA     [32]byte
}

var tokenText = base32.StdEncoding.WithPadding(base32.NoPadding)

func (t Token) String() string {
	b := append(append(append([]byte(nil), t.ID[:]...), t.Secret[:]...), t.CA[:]...)
	return tokenPrefix + strings.ToLower(tokenText.EncodeToString(b))
}

// ParseToken reads what String wrote.
func ParseToken(s string) (t Token, err error) {
	s, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(s)), tokenPrefix)
	if !ok || len(s) > 128 {
		return t, ErrTokenForm
	}
	b, err := tokenText.DecodeString(strings.ToUpper(s))
	if err != nil || len(b) != len(t.ID)+len(t.Secret)+len(t.CA) {
		return t, ErrTokenForm
	}
	copy(t.ID[:], b)
	copy(t.Secret[:], b[8:])
	copy(t.CA[:], b[24:])
	return t, nil
}

// Tokens is the hub's store. Every operation reads and replaces the file under
// a lock, so that `skep token` may run beside the hub.
type Tokens struct {
	file string
	ca   [32]byte
	now  func() time.Time
	// Stored gets the file's text each time it was replaced, with the lock held; or nil.
	Stored func(text []byte)
}

// TokenInfo is what the hub keeps of a token.
type TokenInfo struct {
	ID      string    `json:"id"`
	Hash    string    `json:"hash"` // SHA-256 of the secret
	Uses    int       `json:"uses"` // left
	Expires time.Time `json:"expires"`
	User    string    `json:"user,omitempty"` // whose account it opens
}

const tokensKept = 30 * day // an expired one is remembered, to say so

// OpenTokens opens the store in the hub's state directory.
func OpenTokens(dir string, ca [32]byte) (*Tokens, error) {
	if err := StateDir(dir); err != nil {
		return nil, err
	}
	return &Tokens{file: filepath.Join(dir, "tokens.json"), ca: ca, now: time.Now}, nil
}

// OpenUserTokens opens the store of the tokens that open accounts of users. They are in another
// file than those of nodes, so that no hub takes one for the other.
func OpenUserTokens(dir string, ca [32]byte) (*Tokens, error) {
	s, err := OpenTokens(dir, ca)
	if err == nil {
		s.file = filepath.Join(dir, "user-tokens.json")
	}
	return s, err
}

// OpenStandbyTokens opens the store of the tokens with which a standby gets the hub's state.
func OpenStandbyTokens(dir string, ca [32]byte) (*Tokens, error) {
	s, err := OpenTokens(dir, ca)
	if err == nil {
		s.file = filepath.Join(dir, "standby-tokens.json")
	}
	return s, err
}

// New makes a token for so many machines and so long.
func (s *Tokens) New(uses int, life time.Duration) (Token, error) { return s.NewFor("", uses, life) }

// NewFor makes a token for the account of a user.
func (s *Tokens) NewFor(user string, uses int, life time.Duration) (Token, error) {
	if uses < 1 || life <= 0 {
		return Token{}, errors.New("a token needs one use or more and a time to live")
	}
	t := Token{CA: s.ca}
	if _, err := rand.Read(t.ID[:]); err != nil {
		return t, err
	}
	if _, err := rand.Read(t.Secret[:]); err != nil {
		return t, err
	}
	hash := sha256.Sum256(t.Secret[:])
	err := s.modify(func(all map[string]*TokenInfo) error {
		id := hex.EncodeToString(t.ID[:])
		all[id] = &TokenInfo{id, hex.EncodeToString(hash[:]), uses, s.now().Add(life).UTC(), user}
		return nil
	})
	return t, err
}

// Redeem takes one use of a token that a peer presented.
func (s *Tokens) Redeem(text string) error {
	_, err := s.RedeemFor(text, func(string) error { return nil })
	return err
}

// RedeemFor is Redeem for a token of NewFor, and returns whose it is. Nothing is taken if check
// returns an error.
func (s *Tokens) RedeemFor(text string, check func(user string) error) (user string, err error) {
	t, err := ParseToken(text)
	if err != nil {
		return "", err
	}
	if t.CA != s.ca {
		return "", ErrWrongHub
	}
	err = s.modify(func(all map[string]*TokenInfo) error {
		hash := sha256.Sum256(t.Secret[:])
		info := all[hex.EncodeToString(t.ID[:])]
		switch {
		case info == nil, subtle.ConstantTimeCompare([]byte(info.Hash), []byte(hex.EncodeToString(hash[:]))) != 1:
			return ErrTokenUnknown
		case s.now().After(info.Expires):
			return ErrTokenExpired
		case info.Uses < 1:
			return ErrTokenUsedUp
		}
		if err := check(info.User); err != nil {
			return err
		}
		user = info.User
		info.Uses--
		return nil
	})
	return user, err
}

// RemoveUser forgets all tokens of an account.
func (s *Tokens) RemoveUser(user string) error {
	return s.modify(func(all map[string]*TokenInfo) error {
		for id, t := range all {
			if t.User == user {
				delete(all, id)
			}
		}
		return nil
	})
}

// Remove forgets a token by its id, in hex.
func (s *Tokens) Remove(id string) error {
	return s.modify(func(all map[string]*TokenInfo) error {
		if all[id] == nil {
			return ErrTokenUnknown
		}
		delete(all, id)
		return nil
	})
}

// List returns all tokens, those that end first in front.
func (s *Tokens) List() ([]TokenInfo, error) {
	all, err := s.read()
	list := make([]TokenInfo, 0, len(all))
	for _, t := range all {
		list = append(list, *t)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Expires.Before(list[j].Expires) })
	return list, err
}

// Hold calls f while no token changes.
func (s *Tokens) Hold(f func() error) error {
	unlock, err := lockFile(s.file + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}

func (s *Tokens) modify(f func(map[string]*TokenInfo) error) error {
	return s.Hold(func() error { return s.modifyHeld(f) })
}

// modifyHeld is modify with the lock held.
func (s *Tokens) modifyHeld(f func(map[string]*TokenInfo) error) error {
	all, err := s.read()
	if err != nil {
		return err
	}
	if err := f(all); err != nil {
		return err
	}
	for id, t := range all {
		if s.now().Sub(t.Expires) > tokensKept {
			delete(all, id)
		}
	}
	b, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	if err := writeFile(s.file, append(b, '\n')); err != nil {
		return err
	}
	if s.Stored != nil {
		s.Stored(append(b, '\n'))
	}
	return nil
}

func (s *Tokens) read() (map[string]*TokenInfo, error) {
	all := map[string]*TokenInfo{}
	b, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("%s is damaged: remove it and make new tokens", s.file)
	}
	for id, t := range all {
		if t == nil {
			delete(all, id)
		}
	}
	return all, nil
}
