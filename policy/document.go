package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	documentVersion      = "1"
	maximumDocumentBytes = 256 << 10
	maximumNameBytes     = 64
)

// document is a profile as it is written, with lines.
type document struct {
	name          string
	rules, matrix []documentRule
}

type documentRule struct {
	name           string
	when           string
	decision       Effect
	line, whenLine int
}

// readDocument reads the YAML strictly: one document, known keys, each once, no
// aliases, every value present. It walks the nodes, since those know their line.
func readDocument(doc []byte) (document, error) {
	if len(doc) > maximumDocumentBytes {
		return document{}, fmt.Errorf("%w: longer than %d bytes", ErrProfile, maximumDocumentBytes)
	}
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	var root, more yaml.Node
	if err := dec.Decode(&root); err != nil {
		return document{}, fmt.Errorf("%w: %w", ErrProfile, err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return document{}, fmt.Errorf("%w: more than one document", ErrProfile)
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		return document{}, fmt.Errorf("%w: empty", ErrProfile)
	}
	fields, err := mapping(root.Content[0], "version", "name", "rules", "matrix")
	if err != nil {
		return document{}, err
	}
	version, err := scalar(fields, "version")
	if err != nil {
		return document{}, err
	}
	if version.Value != documentVersion {
		return document{}, lineError(version.Line, "version is not %s", documentVersion)
	}
	var read document
	if read.name, err = name(fields, "name"); err != nil {
		return document{}, err
	}
	if read.rules, err = ruleList(fields, "rules", "name"); err != nil {
		return document{}, err
	}
	read.matrix, err = ruleList(fields, "matrix", "row")
	return read, err
}

// members are the values of a mapping by key, and the mapping for its line.
type members struct {
	of    *yaml.Node
	value map[string]*yaml.Node
}

// mapping reads a node that maps some of the known keys.
func mapping(n *yaml.Node, known ...string) (members, error) {
	if n.Kind != yaml.MappingNode {
		return members{}, lineError(n.Line, "not a mapping")
	}
	m := members{of: n, value: make(map[string]*yaml.Node, len(n.Content)/2)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value) {
			return members{}, lineError(key.Line, "unknown key %q: only %s", key.Value, strings.Join(known, ", "))
		}
		if _, twice := m.value[key.Value]; twice {
			return members{}, lineError(key.Line, "key %s stands twice", key.Value)
		}
		m.value[key.Value] = value
	}
	return m, nil
}

// scalar reads a required value that is not empty.
func scalar(m members, key string) (*yaml.Node, error) {
	value, ok := m.value[key]
	if !ok {
		return nil, lineError(m.of.Line, "key %s is missing", key)
	}
	if value.Kind != yaml.ScalarNode || value.Value == "" {
		return nil, lineError(value.Line, "%s is no text", key)
	}
	return value, nil
}

// name reads a value of lowercase letters, digits, underscores and hyphens that
// begins with a letter.
func name(m members, key string) (string, error) {
	value, err := scalar(m, key)
	if err != nil {
		return "", err
	}
	outside := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}
	word := value.Value
	if len(word) > maximumNameBytes || word[0] < 'a' || word[0] > 'z' || strings.ContainsFunc(word, outside) {
		return "", lineError(value.Line, "%s is no name of 1 to %d lowercase letters, digits, _ and -", key, maximumNameBytes)
	}
	return word, nil
}

// ruleList reads a list of rules; a missing or empty one has none.
func ruleList(m members, key, nameKey string) ([]documentRule, error) {
	list, ok := m.value[key]
	if !ok {
		return nil, nil
	}
	if list.Kind != yaml.SequenceNode {
		return nil, lineError(list.Line, "%s is no list", key)
	}
	rules := make([]documentRule, 0, len(list.Content))
	for _, item := range list.Content {
		r, err := readRule(item, nameKey)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func readRule(item *yaml.Node, nameKey string) (documentRule, error) {
	fields, err := mapping(item, nameKey, "when", "decision")
	if err != nil {
		return documentRule{}, err
	}
	r := documentRule{line: item.Line}
	if r.name, err = name(fields, nameKey); err != nil {
		return documentRule{}, err
	}
	when, err := scalar(fields, "when")
	if err != nil {
		return documentRule{}, err
	}
	r.when, r.whenLine = when.Value, when.Line
	decision, err := scalar(fields, "decision")
	if err != nil {
		return documentRule{}, err
	}
	if r.decision = Effect(decision.Value); !r.decision.Valid() {
		return documentRule{}, lineError(decision.Line, "decision is none of allow, require_approval, deny")
	}
	return r, nil
}
