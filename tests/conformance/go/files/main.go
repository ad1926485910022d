// SPDX-License-Identifier: MIT

// Command files uses package os on a small directory tree that it creates.
package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func mustSucceed(err error) {
	if err != nil {
		fmt.Println("BAD", err)
	}
}

func main() {
	mustSucceed(os.MkdirAll("tree/a/b", 0o755))
	for i := range 20 {
		name := filepath.Join("tree", "a", fmt.Sprintf("file%02d", i))
		mustSucceed(os.WriteFile(name, []byte(strings.Repeat("x", i*100)), 0o644))
	}
	total := int64(0)
	mustSucceed(filepath.WalkDir("tree", func(path string, d fs.DirEntry, err error) error {
		mustSucceed(err)
		info, err := d.Info()
		if err == nil && d.Type().IsRegular() {
			total += info.Size()
		}
		if path == "tree/a/file07" {
			fmt.Println(path, info.Size(), info.Mode().IsRegular())
		}
		return err
	}))
	fmt.Println("total", total)

	f, err := os.OpenFile("tree/log", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	mustSucceed(err)
	w := bufio.NewWriter(f)
	for i := range 1000 {
		fmt.Fprintf(w, "entry %d\n", i)
	}
	mustSucceed(w.Flush())
	_, err = f.Seek(0, io.SeekStart)
	mustSucceed(err)
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
	}
	fmt.Println("lines", lines)
	_, err = f.WriteAt([]byte("x"), 0)
	fmt.Println("append refuses WriteAt", err != nil)
	mustSucceed(f.Truncate(10))
	info, err := f.Stat()
	mustSucceed(err)
	fmt.Println("size", info.Size(), info.Name())
	mustSucceed(f.Sync())
	mustSucceed(f.Close())

	_, err = os.Open("tree/none")
	fmt.Println("missing", os.IsNotExist(err))
	fmt.Println("full", os.Remove("tree/a") != nil)
	mustSucceed(os.Rename("tree/a/file19", "tree/moved"))
	mustSucceed(os.Chmod("tree/moved", 0o444))
	data, err := os.ReadFile("tree/moved")
	mustSucceed(err)
	fmt.Println("moved", len(data))
	entries, err := os.ReadDir("tree")
	mustSucceed(err)
	for _, e := range entries {
		fmt.Println(" ", e.Name(), e.IsDir())
	}
	r, w2, err := os.Pipe()
	mustSucceed(err)
	go func() {
		fmt.Fprint(w2, strings.Repeat("pipe", 50000))
		w2.Close()
	}()
	n, err := io.Copy(io.Discard, r)
	fmt.Println("pipe", n, err)
	mustSucceed(os.Chmod("tree/moved", 0o644))
	mustSucceed(os.RemoveAll("tree"))
	_, err = os.Stat("tree")
	fmt.Println("gone", os.IsNotExist(err))
	input, err := io.ReadAll(os.Stdin)
	fmt.Println("stdin", len(input), err)
}
