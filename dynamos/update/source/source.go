// SPDX-License-Identifier: MIT

//go:build linux

// Package source keeps the source of stock kernels, prepared as their
// distribution built them, and compiles single files of it before and after a
// patch.
//
// A tree is fetched and prepared once per version of a kernel's package, into
// the user's cache:
//
//	<cache>/source/<version>/       never written to any more
//	<cache>/source/<version>.part/  while it is prepared
//	<cache>/source/<version>.lock   held meanwhile
//
// A patch is tried in a copy, a Work, whose unchanged files are hard links.
package source

// A Kernel says which kernel a tree is for.
type Kernel struct {
	Version string // of the package, as 6.1.176-1
	Config  string // path of the image's configuration
	Symvers string // path of Module.symvers of its headers
	Modules string // path of modules.order: in which folder each module is made
	// Release is what the image calls itself, as 6.1.0-50-amd64: some files
	// hold it as a text. Empty: what the source says by itself.
	Release string
}

// A Tree is prepared source: `make FILE.s` works in it, and modules can be
// built against it.
type Tree struct {
	Kernel   Kernel
	Dir      string
	Compiler string // of the image, as gcc-12
}

// A Unit is one file compiled before and after a patch.
type Unit struct {
	Path   string // mm/rmap.c
	Before string // paths of the assembly
	After  string
	Object string // Before, assembled: what must equal the image
}

// A Skip is a file of a patch that does not matter for the image.
type Skip struct {
	Path string
	Why  string
}
