// SPDX-License-Identifier: MIT

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"skep/internal/atomicfile"
)

// seeds are the keys that must survive a restart, because nodes' user JWTs depend on them.
type seeds struct {
	Operator string `json:"operator"`
	Account  string `json:"account"`
	System   string `json:"system"`
	Hub      string `json:"hub"`
}

// keys holds the key pairs of the operator, of the account of hub and nodes, of the
// server's system account, and of the hub's user.
type keys struct {
	operator, account, system, hub nkeys.KeyPair
}

func openKeys(dir string) (*keys, error) {
	name := filepath.Join(dir, "keys.json")
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKeys(name)
	}
	if err != nil {
		return nil, err
	}
	var s seeds
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%s is damaged: restore it, or remove it and let every node join again", name)
	}
	k := &keys{}
	for _, p := range k.seedPairs(&s) {
		if *p.pair, err = nkeys.FromSeed([]byte(*p.seed)); err != nil {
			return nil, fmt.Errorf("%s is damaged: restore it, or remove it and let every node join again", name)
		}
	}
	return k, nil
}

type keyEntry struct {
	pair *nkeys.KeyPair
	seed *string
	make func() (nkeys.KeyPair, error)
}

func (k *keys) seedPairs(s *seeds) []keyEntry {
	return []keyEntry{
		{&k.operator, &s.Operator, nkeys.CreateOperator},
		{&k.account, &s.Account, nkeys.CreateAccount},
		{&k.system, &s.System, nkeys.CreateAccount},
		{&k.hub, &s.Hub, nkeys.CreateUser},
	}
}

func makeKeys(name string) (*keys, error) {
	k, s := &keys{}, seeds{}
	for _, p := range k.seedPairs(&s) {
		pair, err := p.make()
		if err != nil {
			return nil, err
		}
		seed, err := pair.Seed()
		if err != nil {
			return nil, err
		}
		*p.pair, *p.seed = pair, string(seed)
	}
	b, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return nil, err
	}
	return k, atomicfile.Write(name, b, 0o600)
}

func publicKey(pair nkeys.KeyPair) string {
	s, err := pair.PublicKey()
	if err != nil {
		panic(err) // impossible: the pair was just read or created
	}
	return s
}

// fillOptions sets the authorization: an operator that trusts two accounts,
// both held in memory.
func (k *keys) fillOptions(o *server.Options) error {
	claim := jwt.NewOperatorClaims(publicKey(k.operator))
	claim.Name, claim.SystemAccount = "skep", publicKey(k.system)
	text, err := claim.Encode(k.operator)
	if err != nil {
		return err
	}
	operator, err := jwt.DecodeOperatorClaims(text)
	if err != nil {
		return err
	}
	memory := &server.MemAccResolver{}
	for _, pair := range []nkeys.KeyPair{k.account, k.system} {
		a := jwt.NewAccountClaims(publicKey(pair))
		if pair == k.account {
			a.Name = "skep"
			a.Limits.JetStreamLimits = jwt.JetStreamLimits{
				MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit,
				Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
			}
		}
		if text, err = a.Encode(k.operator); err != nil {
			return err
		}
		if err := memory.Store(publicKey(pair), text); err != nil {
			return err
		}
	}
	o.TrustedOperators = []*jwt.OperatorClaims{operator}
	o.SystemAccount, o.AccountResolver = publicKey(k.system), memory
	return nil
}

// userJWT returns a user JWT; without subjects it permits everything.
func (k *keys) userJWT(name, nkey string, publish, subscribe []string) (string, error) {
	if !nkeys.IsValidPublicUserKey(nkey) {
		return "", errors.New("this is not a public key of an engine user")
	}
	u := jwt.NewUserClaims(nkey)
	u.Name = name
	u.Pub.Allow.Add(publish...)
	u.Sub.Allow.Add(subscribe...)
	return u.Encode(k.account)
}
