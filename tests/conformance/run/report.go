// SPDX-License-Identifier: MIT

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
)

// checkReport checks bee's report of one run. It returns why the report does not prove that
// bee ran the file, or nothing.
func checkReport(report string, nonce uint64, file string) []string {
	if report == "" {
		return []string{"no proof: bee wrote no report"}
	}
	fields := map[string][]string{}
	for line := range strings.Lines(report) {
		if words := strings.Fields(line); len(words) > 1 {
			fields[words[0]] = words[1:]
		}
	}
	var why []string
	if got, err := strconv.ParseUint(firstWord(fields["nonce"]), 16, 64); err != nil || got != nonce {
		why = append(why, fmt.Sprintf("no proof: the report's nonce is %q, not %016x", firstWord(fields["nonce"]), nonce))
	}
	if calls, _ := strconv.ParseUint(firstWord(fields["calls"]), 10, 64); calls == 0 {
		why = append(why, "no proof: the report counts no calls")
	}
	why = append(why, provenSites(fields)...)
	return append(why, provenFile(firstWord(fields["sha256_file"]), file)...)
}

// provenSites checks that for each kind of site as many were patched as found, and that
// there is at least one system call.
func provenSites(fields map[string][]string) []string {
	var why []string
	for _, key := range sortedKeys(fields) {
		if !strings.HasPrefix(key, "sites_") {
			continue
		}
		v := fields[key]
		if len(v) != 2 || v[0] != v[1] {
			why = append(why, fmt.Sprintf("no proof: %s found and patched: %v", key, v))
		}
	}
	if n, _ := strconv.Atoi(firstWord(fields["sites_syscall"])); n == 0 {
		why = append(why, "no proof: the report has no patched system call")
	}
	return why
}

func provenFile(digest, file string) []string {
	data, err := os.ReadFile(file)
	if err != nil {
		return []string{err.Error()}
	}
	sum := sha256.Sum256(data)
	if digest != hex.EncodeToString(sum[:]) {
		return []string{fmt.Sprintf("no proof: the report's sha256_file %q is not the program's", digest)}
	}
	return nil
}

func firstWord(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

func sortedKeys(m map[string][]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
