// SPDX-License-Identifier: MIT

package ident

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// ErrClock says that a certificate is good at the time of one machine, and not at that of another.
var ErrClock = errors.New("the clock of the hub's machine or of this one is wrong")

// alertExpired is certificate_expired of RFC 8446, section 6. Go sends it too for a certificate
// that is not valid yet, and keeps the type that it returns for one to itself: only the text tells.
const alertExpired = tls.AlertError(45)

// ExplainClock returns an ErrClock that says what to do if err comes from a clock, and else err.
// What is bound to a key and a CA can be wrong only by a clock: both sides renew in time.
func ExplainClock(err error) error {
	var bad x509.CertificateInvalidError
	var alert *net.OpError
	switch {
	case errors.As(err, &bad) && bad.Reason == x509.Expired:
		return fmt.Errorf("%w: the hub's certificate is valid from %s to %s, and here it is %s: set the clock that is wrong (%w)",
			ErrClock, date(bad.Cert.NotBefore), date(bad.Cert.NotAfter), date(time.Now()), err)
	case errors.As(err, &alert) && alert.Op == "remote error" && alert.Err.Error() == alertExpired.Error():
		return fmt.Errorf("%w: the hub refuses this machine's certificate by its date, and here it is %s: set the clock that is wrong (%w)",
			ErrClock, date(time.Now()), err)
	}
	return err
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
