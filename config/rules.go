package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A check tag lists rules, separated by commas. On a list a rule about text
// holds for each entry. Rules about text other than "required" and "oneof" let
// an empty text pass; "token" and "server" do not.
//
//	required        there is a value
//	min=N  max=N    bounds, included
//	positive        above zero
//	oneof=a|b       one of the words; an empty word allows an empty value
//	keys=token      each key of the mapping is a token
//	token server    the grammar of tenants and actors, of server ids
//	pattern         a tool name, possibly ending in .*
//	egress          host[:port], possibly beginning with *.
//	hostport absolute time
const checkTag = "check"

// KeyError says which key breaks which rule.
type KeyError struct {
	// Key is the path in the file, with [i] for an entry of a list.
	Key string
	// Rule is the rule, in words that follow "must".
	Rule string
}

// Error puts the two together.
func (e *KeyError) Error() string { return e.Key + " must " + e.Rule }

// textRule is a rule about one text.
type textRule struct {
	words string
	holds func(string) bool
}

func matching(expression string) func(string) bool {
	return regexp.MustCompile(expression).MatchString
}

// textRules are the rules about texts, by name.
var textRules = map[string]textRule{
	"token":    {"be 1 to 64 letters, digits, _ or -", matching(`^[A-Za-z0-9_-]{1,64}$`)},
	"server":   {"begin with a lower-case letter and hold at most 32 of a-z, 0-9 and _", matching(`^[a-z][a-z0-9_]{0,31}$`)},
	"pattern":  {"be a tool name, or end in .* after one", optional(matching(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*(\.\*)?$`))},
	"egress":   {"be host or host:port, the host possibly beginning with *.", isEgress},
	"hostport": {"be host:port", optional(isHostPort)},
	"absolute": {"be an absolute path", optional(filepath.IsAbs)},
	"time":     {"be a time as in RFC 3339", optional(isTime)},
}

func optional(holds func(string) bool) func(string) bool {
	return func(text string) bool { return text == "" || holds(text) }
}

func isHostPort(text string) bool {
	_, port, err := net.SplitHostPort(text)
	return err == nil && isPort(port)
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == text
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

var hostName = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

func isEgress(text string) bool {
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		if !isPort(port) || port == "0" {
			return false
		}
		host = h
	}
	return hostName.MatchString(host) || net.ParseIP(strings.Trim(host, "[]")) != nil
}

// describe puts a check tag into words.
func describe(tag string) []string {
	var words []string
	for name, argument := range rulesOf(tag) {
		words = append(words, ruleWords(name, argument))
	}
	return words
}

func rulesOf(tag string) func(yield func(name, argument string) bool) {
	return func(yield func(string, string) bool) {
		if tag == "" {
			return
		}
		for rule := range strings.SplitSeq(tag, ",") {
			name, argument, _ := strings.Cut(rule, "=")
			if !yield(name, argument) {
				return
			}
		}
	}
}

func ruleWords(name, argument string) string {
	switch name {
	case "required":
		return "be given"
	case "min":
		return "be at least " + argument
	case "max":
		return "be at most " + argument
	case "positive":
		return "be above 0"
	case "oneof":
		return "be one of " + strings.Join(strings.FieldsFunc(argument, func(r rune) bool { return r == '|' }), ", ")
	case "keys":
		return "have keys of " + strings.TrimPrefix(textRules[argument].words, "be ")
	default:
		return textRules[name].words
	}
}

// check walks v and collects what breaks its rules.
func check(v reflect.Value, path, tag string) []error {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	var errs []error
	for name, argument := range rulesOf(tag) {
		if !holds(v, name, argument) {
			errs = append(errs, &KeyError{Key: path, Rule: ruleWords(name, argument)})
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			errs = append(errs, check(v.Field(i), join(path, field.Tag.Get("yaml")), field.Tag.Get(checkTag))...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			errs = append(errs, check(v.Index(i), fmt.Sprintf("%s[%d]", path, i), "")...)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			errs = append(errs, check(v.MapIndex(key), join(path, key.String()), "")...)
		}
	}
	return errs
}

func holds(v reflect.Value, name, argument string) bool {
	switch name {
	case "required":
		return !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0)
	case "min", "max", "positive":
		return inBounds(number(v), name, argument)
	case "oneof":
		return slices.Contains(strings.Split(argument, "|"), fmt.Sprint(v.Interface()))
	case "keys":
		for _, key := range v.MapKeys() {
			if !textRules[argument].holds(key.String()) {
				return false
			}
		}
		return true
	}
	rule := textRules[name]
	if v.Kind() != reflect.Slice {
		return rule.holds(v.String())
	}
	for i := range v.Len() {
		if !rule.holds(v.Index(i).String()) {
			return false
		}
	}
	return true
}

func number(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// inBounds is false for a value that is not a number: every comparison with it is.
func inBounds(n float64, name, argument string) bool {
	bound, err := strconv.ParseFloat(argument, 64)
	switch name {
	case "min":
		return err == nil && n >= bound
	case "max":
		return err == nil && n <= bound
	default:
		return n > 0
	}
}

// Validate checks every rule and returns all that is wrong, joined; each error
// is a [*KeyError].
func (c Config) Validate() error {
	errs := check(reflect.ValueOf(c), "", "")
	errs = append(errs, c.checkRelations()...)
	return errors.Join(errs...)
}
