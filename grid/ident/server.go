// SPDX-License-Identifier: MIT

package ident

import (
	"crypto/tls"
	"sync"
	"time"
)

// A server renews the hub's own certificate in time. mu guards both fields below.
type server struct {
	ca *CA

	mu   sync.Mutex
	cert *tls.Certificate
	made time.Time
}

func (s *server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.cert == nil || now.Sub(s.made) > serverDays*day/2 {
		cert, err := s.ca.serverCertificate(now)
		if err != nil {
			return nil, err
		}
		s.cert, s.made = cert, now
	}
	return s.cert, nil
}
