// SPDX-License-Identifier: MIT

package ident

import (
	"crypto/tls"
	"sync"
	"time"
)

// A server renews the hub's own certificate in time. mu guards both fields below.
type server struct {
	ca   *CA
	rank Rank
	now  func() time.Time

	mu   sync.Mutex
	cert *tls.Certificate
	made time.Time
}

func (s *server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().Round(0) // the clock's time, which a step changes and time.Time.Sub would not
	if s.cert == nil || now.Sub(s.made) > serverDays*day/2 || s.made.Sub(now) > clockSlack/2 {
		cert, err := s.ca.serverCertificate(now, s.rank)
		if err != nil {
			return nil, err
		}
		s.cert, s.made = cert, now
	}
	return s.cert, nil
}
