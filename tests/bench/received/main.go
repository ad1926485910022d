// SPDX-License-Identifier: MIT

// Received makes one page of untrusted files of `skep bench --report`:
// received -o PAGE.html FILE...
package main

import (
	"flag"
	"fmt"
	"os"

	"skep/internal/report"
)

func main() {
	out := flag.String("o", "", "the page")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "name the files: make results FILE='a.json b.json'")
		os.Exit(2)
	}
	if err := writePage(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
	fmt.Println(*out)
}

// writePage writes no page if one file is invalid.
func writePage(out string, files []string) error {
	var list []*report.Report
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		r, err := report.Read(file)
		file.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, r)
	}
	page, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := report.WritePage(page, list); err != nil {
		page.Close()
		return err
	}
	return page.Close()
}
