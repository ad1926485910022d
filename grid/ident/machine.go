// SPDX-License-Identifier: MIT

package ident

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"slices"
	"sort"
	"time"
)

// A Machine is the fingerprint that is stored with an identity: hashes, since
// the numbers themselves are private. Copies of a disk have the same
// installation but other network cards; a card that comes or goes (a dock)
// leaves others.
type Machine struct {
	Install string   `json:"install"` // of the operating system's own id
	Cards   []string `json:"cards"`   // of the hardware addresses
}

// ThisMachine takes the fingerprint of the machine this runs on.
func ThisMachine() (Machine, error) {
	install, err := installID()
	if err != nil {
		return Machine{}, err
	}
	m := Machine{Install: hashText(install)}
	cards, err := net.Interfaces()
	if err != nil {
		return Machine{}, err
	}
	m.Cards = cardsOf(cards, physicalCard)
	return m, nil
}

// A system that is just starting may not answer yet: Wine's first program runs
// before the service that knows the drives. The fingerprint must not lack what
// the next start would find, so the question is asked again.
const (
	startTries = 200
	startPause = 50 * time.Millisecond
)

// readAtStart reads one of the system's numbers, for up to ten seconds. pause is
// time.Sleep.
func readAtStart[T any](pause func(time.Duration), read func() (T, error)) (value T, err error) {
	for try := range startTries {
		if try > 0 {
			pause(startPause)
		}
		if value, err = read(); err == nil {
			break
		}
	}
	return value, err
}

// cardsOf returns what is kept of the addresses of cards: of the physical ones, or
// of all where there is none.
func cardsOf(cards []net.Interface, physical func(name string) bool) (list []string) {
	if some := slices.DeleteFunc(slices.Clone(cards), func(i net.Interface) bool { return !physical(i.Name) }); len(some) > 0 {
		cards = some
	}
	for _, c := range cards {
		if len(c.HardwareAddr) > 0 && c.Flags&net.FlagLoopback == 0 {
			list = append(list, hashText(c.HardwareAddr.String()))
		}
	}
	sort.Strings(list)
	return list
}

func hashText(s string) string {
	sum := sha256.Sum256([]byte("skep machine\x00" + s))
	return hex.EncodeToString(sum[:16])
}

// IsSame reports whether two fingerprints are of one machine. Without a card on
// one side (all switched off) the installation decides.
func (m Machine) IsSame(o Machine) bool {
	if m.Install != o.Install {
		return false
	}
	if len(m.Cards) == 0 || len(o.Cards) == 0 {
		return true
	}
	return slices.ContainsFunc(m.Cards, func(c string) bool { return slices.Contains(o.Cards, c) })
}
