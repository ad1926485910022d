// SPDX-License-Identifier: MIT

package main

// judgeCases judges the cases, at most count at a time, and passes each result to report in
// the order of the cases, as soon as those before it are known. Most cases wait: for a
// program that sleeps, or for Wine's server.
func judgeCases(cases []testCase, count int, judge func(testCase) result, report func(testCase, result)) {
	results := make([]chan result, len(cases))
	next := make(chan int)
	for i := range results {
		results[i] = make(chan result, 1)
	}
	for range count {
		go func() {
			for i := range next {
				results[i] <- judge(cases[i])
			}
		}()
	}
	go func() {
		for i := range cases {
			next <- i
		}
		close(next)
	}()
	for i, c := range cases {
		report(c, <-results[i])
	}
}
