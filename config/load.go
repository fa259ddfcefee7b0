package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Prefix begins the name of every environment variable that is a key.
const Prefix = "TOOLBUS_"

// Load reads the file at path over the defaults and the variables in env, each
// NAME=value as os.Environ gives them, over both. An empty path means no file.
// The error joins everything that is wrong, each with its key or line.
func Load(path string, env []string) (Config, error) {
	var file []byte
	if path != "" {
		var err error
		if file, err = os.ReadFile(path); err != nil {
			return Config{}, fmt.Errorf("config: %w", err)
		}
	}
	c, err := parse(file, env)
	if err != nil && path != "" {
		err = fmt.Errorf("config: %s: %w", path, err)
	} else if err != nil {
		err = fmt.Errorf("config: %w", err)
	}
	return c, err
}

func parse(file []byte, env []string) (Config, error) {
	c := Default()
	if err := decode(file, &c); err != nil {
		return Config{}, err
	}
	if err := applyEnvironment(&c, env); err != nil {
		return Config{}, err
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// decode reads one YAML document strictly into target.
func decode(text []byte, target any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	err := decoder.Decode(target)
	if errors.Is(err, io.EOF) {
		return nil // an empty file
	}
	if err != nil {
		return plainly(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document in the file")
	}
	return nil
}

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (.*) not found in type .*$`)
	wrongType    = regexp.MustCompile(`^line (\d+): cannot unmarshal \S+ .*into (\S+)$`)
)

// plainly puts the decoder's errors into the words of the person who wrote the
// file. A value is left out: it may be a secret in the wrong place.
func plainly(err error) error {
	var typeError *yaml.TypeError
	if !errors.As(err, &typeError) {
		return err
	}
	var errs []error
	for _, line := range typeError.Errors {
		if m := unknownField.FindStringSubmatch(line); m != nil {
			line = fmt.Sprintf("line %s: unknown key %q", m[1], m[2])
		} else if m := wrongType.FindStringSubmatch(line); m != nil {
			line = fmt.Sprintf("line %s: the value is not of type %s", m[1], plainType(m[2]))
		}
		errs = append(errs, errors.New(line))
	}
	return errors.Join(errs...)
}

func plainType(name string) string {
	switch {
	case name == "int", name == "int64":
		return "integer"
	case name == "float64", name == "config.Seconds":
		return "number"
	case name == "bool":
		return "boolean"
	case name == "string", name == "config.Endpoint":
		return "string"
	case strings.HasPrefix(name, "[]"):
		return "list"
	default:
		return "mapping"
	}
}

// applyEnvironment sets every key whose variable is in env.
func applyEnvironment(c *Config, env []string) error {
	values := make(map[string]string, len(env))
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, Prefix) {
			values[name] = value
		}
	}
	var errs []error
	for _, key := range keysOf(reflect.ValueOf(c).Elem(), "") {
		value, ok := values[key.Variable]
		if !ok {
			continue
		}
		if err := setFromText(key.value, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key.Variable, err))
		}
	}
	return errors.Join(errs...)
}

// setFromText gives a field the value that a variable holds: a string as it is,
// a list of strings separated by commas, anything else as YAML.
func setFromText(field reflect.Value, text string) error {
	if field.Kind() == reflect.String {
		field.SetString(text)
		return nil
	}
	if field.Type() == reflect.TypeFor[[]string]() && !strings.HasPrefix(text, "[") {
		var list []string
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		field.Set(reflect.ValueOf(list))
		return nil
	}
	fresh := reflect.New(field.Type())
	if err := decode([]byte(text), fresh.Interface()); err != nil {
		return err
	}
	field.Set(fresh.Elem())
	return nil
}

// UnknownVariables lists the variables in env that begin with [Prefix] and are
// no key: misspelled, in most cases. Those of tests and the name of the
// configuration file are left out.
func UnknownVariables(env []string) []string {
	known := map[string]bool{Prefix + "CONFIG": true}
	for _, key := range Keys() {
		known[key.Variable] = true
	}
	var unknown []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, Prefix) && !strings.HasPrefix(name, Prefix+"TEST_") && !known[name] {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}
