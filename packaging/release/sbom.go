// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A spdxDocument has the fields of SPDX 2.3 that Skep uses.
type spdxDocument struct {
	Version       string             `json:"spdxVersion"`
	License       string             `json:"dataLicense"`
	ID            string             `json:"SPDXID"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	Creation      spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Relationships []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	Name       string          `json:"name"`
	ID         string          `json:"SPDXID"`
	Version    string          `json:"versionInfo,omitempty"`
	Location   string          `json:"downloadLocation"`
	Analyzed   bool            `json:"filesAnalyzed"`
	Concluded  string          `json:"licenseConcluded"`
	Declared   string          `json:"licenseDeclared"`
	Copyright  string          `json:"copyrightText"`
	Comment    string          `json:"comment,omitempty"`
	References []spdxReference `json:"externalRefs,omitempty"`
}

type spdxReference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const noAssertion = "NOASSERTION"

var notOfID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func newPackage(c component) spdxPackage {
	p := spdxPackage{Name: c.name, ID: "SPDXRef-" + notOfID.ReplaceAllString(c.name, "-"), Version: c.version,
		Location: noAssertion, Concluded: noAssertion, Declared: c.licence, Copyright: noAssertion}
	if c.purl != "" {
		p.References = []spdxReference{{"PACKAGE-MANAGER", "purl", c.purl}}
	}
	return p
}

// sbomText returns the bill of materials: the components that Skep contains, the
// libraries that it is statically linked with, and the packages that build it.
func sbomText(name, version string, when time.Time, linked, libraries, tools []component) ([]byte, error) {
	d := spdxDocument{Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Creation: spdxCreation{Created: when.UTC().Format(time.RFC3339), Creators: []string{"Tool: skep-release"}}}
	ours := newPackage(component{name: "skep", version: version,
		licence: "MIT AND GPL-2.0-only AND (GPL-2.0-only WITH Linux-syscall-note OR MIT)"})
	d.Packages = append(d.Packages, ours)
	d.Relationships = append(d.Relationships, spdxRelationship{d.ID, "DESCRIBES", ours.ID})
	for _, part := range []struct {
		list []component
		kind string
	}{{linked, "CONTAINS"}, {libraries, "STATIC_LINK"}, {tools, "BUILD_TOOL_OF"}} {
		for _, c := range part.list {
			p := newPackage(c)
			if !slices.ContainsFunc(d.Packages, func(q spdxPackage) bool { return q.ID == p.ID }) {
				d.Packages = append(d.Packages, p)
			}
			r := spdxRelationship{ours.ID, part.kind, p.ID}
			if part.kind == "BUILD_TOOL_OF" {
				r.From, r.To = r.To, r.From
			}
			d.Relationships = append(d.Relationships, r)
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text) // equal contents have the same name
	d.Namespace = fmt.Sprintf("urn:skep:sbom:%x", sum[:16])
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err = e.Encode(d)
	return out.Bytes(), err
}

// buildTools returns the packages of mk/packages.list. It omits
// their versions, which depend on the machine; most packages are for tests.
func buildTools(list string) ([]component, error) {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	var all []component
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		words := strings.Fields(s.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") || strings.HasPrefix(words[0], "[") {
			continue
		}
		for name := range strings.SplitSeq(words[0], "|") {
			all = append(all, component{name: name, licence: noAssertion, purl: "pkg:deb/debian/" + name})
		}
	}
	return all, nil
}

// compilerVersion returns a compiler's version, because the bytes of programs
// depend on it.
func compilerVersion(name string) (component, error) {
	out, err := exec.Command(name, "-dumpfullversion").Output()
	return component{name: name, version: strings.TrimSpace(string(out)), licence: noAssertion}, err
}
