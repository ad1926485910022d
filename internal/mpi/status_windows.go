// SPDX-License-Identifier: MIT

package mpi

// pagesIn: nobody makes pages there.
func pagesIn(string) ([]Endpoint, error) { return nil, nil }
