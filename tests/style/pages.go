// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	treePages = regexp.MustCompile(`^docs/.*\.md$|(^|/)(README|CONTRIBUTING)\.md$`)
	// These pages name files of other projects, or former names.
	otherPages = regexp.MustCompile(`^docs/(glossary|papers)\.md$`)
	// A path from the top of the tree, in code or in text.
	pagePath = regexp.MustCompile("(?:^|[\\s`(|])([a-z][\\w.-]*/[\\w.*/-]*[\\w*/])")
	pageCode = regexp.MustCompile("`([^`]+)`")
	codePath = regexp.MustCompile(`^[\w.*-]+(/[\w.*-]+)+/?$|^[\w*-]+\.(c|h|S|go|tbl|mk|sh|md)$`)
	codeCall = regexp.MustCompile(`^(\w+)\(\)$`)
	codeName = regexp.MustCompile(`^([a-z0-9]+)_\w*[a-z0-9]$`) // of a room, by its prefix
	anyWord  = regexp.MustCompile(`\w+`)
	// Names outside of the tree: files that a build or a user makes, and patterns.
	notOfTree = regexp.MustCompile(`^(build|bin|lib|\.\.?)/|[A-Z]{4}|^_`)
)

// A pageIndex holds the names of the tree's files, folders and functions.
type pageIndex struct {
	files, folders map[string]bool
	ends           map[string]bool // of files and folders, after each slash
	words          map[string]bool
}

func indexPages(t *tree) *pageIndex {
	x := &pageIndex{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, name := range t.files {
		x.files[name] = true
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			x.folders[dir] = true
		}
	}
	for _, set := range []map[string]bool{x.files, x.folders} {
		for name := range set {
			for end, more := name, true; more; {
				x.ends[end] = true
				_, end, more = strings.Cut(end, "/")
			}
		}
	}
	for _, name := range t.filesWith(".c", ".h", ".S", ".go", ".sh", ".tbl") {
		for _, w := range anyWord.FindAllString(t.read(name), -1) {
			x.words[w] = true
		}
	}
	return x
}

// hasName reports whether the path of a file or folder is this name or ends in it. A star
// stands for any letters, and a module may be named without its .c or .h.
func (x *pageIndex) hasName(name string) bool {
	name = strings.TrimSuffix(name, "/")
	for _, end := range []string{"", ".c", ".h", ".go", ".md"} {
		if x.ends[name+end] {
			return true
		}
	}
	if strings.Contains(name, "*") {
		for end := range x.ends {
			if ok, err := path.Match(name, end); ok && err == nil {
				return true
			}
		}
	}
	return false
}

// pageNames checks that each path and function that a page names exists in the tree.
func pageNames(t *tree) ([]string, error) {
	var bad []string
	x := indexPages(t)
	for _, name := range t.files {
		if !treePages.MatchString(name) || otherPages.MatchString(name) {
			continue
		}
		for i, line := range t.lines(name) {
			for _, gone := range x.missingNames(line, path.Dir(name)) {
				bad = append(bad, fmt.Sprintf("%s:%d: %s is not in the tree", name, i+1, gone))
			}
		}
	}
	return bad, nil
}

// missingNames lists the names in a line that the tree lacks.
func (x *pageIndex) missingNames(line, dir string) []string {
	var list []string
	for _, m := range pagePath.FindAllStringSubmatch(line, -1) {
		room, _, _ := strings.Cut(m[1], "/")
		if x.folders[room] && room != "build" && !x.hasName(m[1]) && !notOfTree.MatchString(m[1]) {
			list = append(list, m[1])
		}
	}
	for _, m := range pageCode.FindAllStringSubmatch(line, -1) {
		span := m[1]
		if call := codeCall.FindStringSubmatch(span); call != nil && !x.words[call[1]] {
			list = append(list, span)
		}
		if m := codeName.FindStringSubmatch(span); m != nil && x.folders[m[1]] && !x.words[span] {
			list = append(list, span)
		}
		room, _, deep := strings.Cut(span, "/")
		if !codePath.MatchString(span) || deep && x.folders[room] {
			continue // no path, or checked above
		}
		if deep && !x.ends[room] && path.Ext(span) == "" {
			continue // another project's
		}
		if strings.HasPrefix(span, "../") {
			span = path.Join(dir, span)
		}
		if !x.hasName(span) && !notOfTree.MatchString(span) {
			list = append(list, span)
		}
	}
	return list
}
