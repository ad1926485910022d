// SPDX-License-Identifier: MIT

package ident

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

// The fingerprint of an earlier release was of net.Interfaces: it must stay the same.
func TestCardsAreThoseOfGo(t *testing.T) {
	want, err := net.Interfaces()
	if err != nil {
		t.Skip("net.Interfaces fails here: ", err)
	}
	got, err := listCards()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 || !slices.Equal(cardsOf(got, physicalCard), cardsOf(want, physicalCard)) {
		t.Errorf("%v, but Go lists %v", got, want)
	}
}

// A system that fails to say its name servers, as Wine 10 does, still has cards. The
// size that it asks for grows once more: a card appears in the meantime.
func TestCardsWithoutNameServers(t *testing.T) {
	var sizes []uint32
	cards, err := readCards(func(family, flags uint32, reserved uintptr, first *windows.IpAdapterAddresses, size *uint32) error {
		sizes = append(sizes, *size)
		if flags&windows.GAA_FLAG_SKIP_DNS_SERVER == 0 {
			return windows.ERROR_INVALID_DATA
		}
		if len(sizes) < 3 {
			*size = uint32(15000 + 1000*len(sizes))
			return windows.ERROR_BUFFER_OVERFLOW
		}
		return windows.GetAdaptersAddresses(family, flags, reserved, first, size)
	})
	if err != nil || len(cards) == 0 || !slices.Equal(sizes, []uint32{15000, 16000, 17000}) {
		t.Errorf("%v after sizes %v: %v", cards, sizes, err)
	}
}

func TestCardsThatCannotBeListed(t *testing.T) {
	for _, c := range []struct {
		err  error
		size uint32
		want string
	}{
		{windows.ERROR_NO_DATA, 15000, ""}, {nil, 0, ""},
		{windows.ERROR_INVALID_DATA, 15000, "the network cards cannot be listed: "},
		{windows.ERROR_BUFFER_OVERFLOW, 15000, "the network cards cannot be listed: "},
	} {
		cards, err := readCards(func(_, _ uint32, _ uintptr, _ *windows.IpAdapterAddresses, size *uint32) error {
			*size = c.size
			return c.err
		})
		if c.want == "" && err == nil && cards == nil {
			continue
		}
		if c.want == "" || err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, c.err) {
			t.Errorf("%v and size %d: %v, %v", c.err, c.size, cards, err)
		}
	}
}
