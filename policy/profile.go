package policy

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

//go:embed profiles/default.yaml
var shipped []byte

// ErrProfile says that a document is no policy profile. The error that wraps it
// names the line.
var ErrProfile = errors.New("policy profile is invalid")

// Profile is a loaded policy. The zero value denies everything, and so does a
// nil one. It is immutable and safe for concurrent use.
type Profile struct {
	version string
	rules   []rule
}

// rule is one line of a profile.
type rule struct {
	// row is how decisions name it.
	row    string
	effect Effect
	code   string
	when   *condition
}

// Parse loads a profile. Every error is an [ErrProfile], and with an error there
// is no profile.
func Parse(doc []byte) (*Profile, error) {
	read, err := readDocument(doc)
	if err != nil {
		return nil, err
	}
	c, err := newCompiler()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(doc)
	p := &Profile{version: read.name + "@" + hex.EncodeToString(sum[:])[:12]}
	seen := make(map[string]bool)
	for _, r := range read.rules {
		if seen[r.name] {
			return nil, lineError(r.line, "rule %s stands twice", r.name)
		}
		seen[r.name] = true
		if err := p.add(c, r, rulePrefix+r.name, CodeRuleDenied); err != nil {
			return nil, err
		}
	}
	for _, r := range read.matrix {
		if !slices.Contains(Rows(), r.name) || r.name == RowUnattended || r.name == RowUnknownTool {
			return nil, lineError(r.line, "%s is no row that a profile may hold", r.name)
		}
		if err := p.add(c, r, r.name, MatrixCode(r.name)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Profile) add(c *compiler, r documentRule, row, code string) error {
	when, err := c.compile(r.when)
	if err != nil {
		return lineError(r.whenLine, "%s: %s", r.name, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	p.rules = append(p.rules, rule{row: row, effect: r.decision, code: code, when: when})
	return nil
}

// Shipped loads the profile that is part of the build.
func Shipped() (*Profile, error) { return Parse(shipped) }

// ShippedDocument gives the source of that profile, to start a new one from.
func ShippedDocument() []byte { return slices.Clone(shipped) }

// Version names the document: the profile's name, @, and the first 12 hex digits
// of the sha256 of its bytes. Any edit is another version.
func (p *Profile) Version() string {
	if p == nil {
		return ""
	}
	return p.version
}

// Admits reports whether a call of that tool could ever pass: false only when
// the profile denies it for every trust of its origin, with and without somebody
// to approve, by rules that depend on neither arguments nor a certain principal,
// agent or session. A session does not offer what it does not admit.
func (p *Profile) Admits(spec tool.Spec) bool {
	if p == nil {
		return false
	}
	origins := []tool.Trust{tool.Platform, tool.TrustedConfiguration, tool.User, tool.InternalTool, tool.ExternalUntrusted}
	for _, interactive := range []bool{true, false} {
		for _, origin := range origins {
			in := Input{Spec: spec, OriginTrust: origin, Principal: tool.Principal{Interactive: interactive}}
			if p.mayPass(newVariables(&in)) {
				return true
			}
		}
	}
	return false
}

// mayPass follows the rules for one origin as far as they are known: one that
// depends on more counts where it would let the call pass.
func (p *Profile) mayPass(vars *variables) bool {
	for i := range p.rules {
		r := &p.rules[i]
		matched, err := r.when.decide(vars)
		switch {
		case errors.Is(err, errUndecided):
			if r.effect != Deny {
				return true
			}
		case err != nil:
			return false
		case matched:
			return r.effect != Deny
		}
	}
	return false
}

// lineError is an [ErrProfile] about one line of the document.
func lineError(line int, format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrProfile, line, fmt.Sprintf(format, args...))
}
