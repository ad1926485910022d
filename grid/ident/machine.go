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

// A Machine is the fingerprint that is stored with an identity. It contains hashes,
// because the numbers themselves are private. A copied disk has the same installation
// but other network cards. A machine to which one card is added, or from which one is
// removed (a dock), still has another card in common with its fingerprint.
type Machine struct {
	Install string   `json:"install"` // of the operating system's own id
	Cards   []string `json:"cards"`   // of the hardware addresses
}

// ThisMachine returns the fingerprint of this machine.
func ThisMachine() (Machine, error) {
	install, err := installID()
	if err != nil {
		return Machine{}, err
	}
	m := Machine{Install: hashText(install)}
	cards, err := listCards()
	if err != nil {
		return Machine{}, err
	}
	m.Cards = cardsOf(cards, physicalCard)
	return m, nil
}

// A system that is just starting may not answer yet: Wine's first program runs before
// the service that knows the drives. A fingerprint without that number would differ
// from that of the next start, so the number is read again until it is there.
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

// cardsOf returns the hashes of the addresses of the physical cards, or of all cards if
// there is no physical one.
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

// IsSame reports whether two fingerprints are of one machine. If one of them has no
// cards (all are switched off), the installation alone decides.
func (m Machine) IsSame(o Machine) bool {
	if m.Install != o.Install {
		return false
	}
	if len(m.Cards) == 0 || len(o.Cards) == 0 {
		return true
	}
	return slices.ContainsFunc(m.Cards, func(c string) bool { return slices.Contains(o.Cards, c) })
}
