package subjects

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolbus/toolbus/tool"
)

// FieldError says which field of a payload breaks which rule. It never carries
// a value, nor a member name that the sender made up.
type FieldError struct {
	// Field is a path such as "calls[3].call_id"; empty for the payload itself.
	Field string
	// Rule completes the sentence "this field …".
	Rule string
}

// Error gives field and rule.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return "payload " + e.Rule
	}
	return e.Field + " " + e.Rule
}

// Version is the version member of every payload. Its zero value is written as
// 1, and nothing but 1 is read.
type Version struct{}

// MarshalJSON writes 1.
func (Version) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// UnmarshalJSON reads 1 and refuses everything else.
func (*Version) UnmarshalJSON(data []byte) error {
	if string(data) != "1" {
		return &FieldError{"v", "must be 1"}
	}
	return nil
}

// Decode reads one JSON value into the struct that into points to, strictly:
// member names match exactly, unknown and repeated members are refused, every
// member whose tag has neither omitempty nor omitzero must be there, null stands
// only where the field is a pointer or raw JSON, and strings are valid UTF-8
// without NUL. Raw members keep their bytes untouched. It understands what the
// payload types of this package are made of, and reports a [*FieldError].
func Decode(data []byte, into any) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return errors.New("decode: the target must be a pointer")
	}
	if !utf8.Valid(data) {
		return &FieldError{Rule: "must be valid UTF-8"}
	}
	if !json.Valid(data) {
		return &FieldError{Rule: "must be one JSON value"}
	}
	return decodeValue(bytes.TrimSpace(data), target.Elem(), "")
}

// Leaf types with a grammar of their own.
var (
	versionType = reflect.TypeFor[Version]()
	idType      = reflect.TypeFor[tool.ID]()
	timeType    = reflect.TypeFor[time.Time]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	partType    = reflect.TypeFor[tool.Part]()
	bytesType   = reflect.TypeFor[[]byte]()
)

// decodeValue reads raw, a valid JSON value without space around it.
func decodeValue(raw []byte, v reflect.Value, path string) error {
	if v.Type() == rawType {
		v.SetBytes(bytes.Clone(raw))
		return nil
	}
	if string(raw) == "null" {
		if v.Kind() == reflect.Pointer {
			v.SetZero()
			return nil
		}
		return &FieldError{path, "must not be null"}
	}
	switch v.Type() {
	case versionType:
		if string(raw) != "1" {
			return &FieldError{path, "must be 1"}
		}
		return nil
	case idType, timeType, bytesType:
		return decodeTextual(raw, v, path)
	case partType:
		return decodePart(raw, v, path)
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeValue(raw, v.Elem(), path)
	case reflect.Struct:
		return decodeStruct(raw, v, path)
	case reflect.Slice:
		return decodeSlice(raw, v, path)
	case reflect.Map:
		return decodeMap(raw, v, path)
	default:
		return decodeScalar(raw, v, path)
	}
}

func decodeScalar(raw []byte, v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.String:
		s, ok := unquote(raw)
		if !ok {
			return &FieldError{path, "must be a string without NUL or lone surrogates"}
		}
		v.SetString(s)
	case reflect.Bool:
		if raw[0] != 't' && raw[0] != 'f' {
			return &FieldError{path, "must be true or false"}
		}
		v.SetBool(raw[0] == 't')
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(string(raw), 10, v.Type().Bits())
		if err != nil {
			return &FieldError{path, "must be an integer in range"}
		}
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(string(raw), 10, v.Type().Bits())
		if err != nil {
			return &FieldError{path, "must be a natural number in range"}
		}
		v.SetUint(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			return &FieldError{path, "must be a number"}
		}
		v.SetFloat(f)
	case reflect.Interface:
		return decodeAny(raw, v, path)
	default:
		return fmt.Errorf("decode %s: unsupported type %s", path, v.Type())
	}
	return nil
}

func decodeAny(raw []byte, v reflect.Value, path string) error {
	var x any
	if err := json.Unmarshal(raw, &x); err != nil {
		return &FieldError{path, "must be a JSON value"}
	}
	v.Set(reflect.ValueOf(x))
	return nil
}

func decodeTextual(raw []byte, v reflect.Value, path string) error {
	s, ok := unquote(raw)
	if !ok {
		return &FieldError{path, "must be a string"}
	}
	switch v.Type() {
	case idType:
		id, err := tool.ParseID(s)
		if err != nil {
			return &FieldError{path, "must be a lower-case UUID with hyphens"}
		}
		v.Set(reflect.ValueOf(id))
	case timeType:
		t, err := time.Parse(time.RFC3339Nano, s)
		if _, offset := t.Zone(); err != nil || offset != 0 {
			return &FieldError{path, "must be an RFC 3339 time in UTC"}
		}
		v.Set(reflect.ValueOf(t.UTC()))
	default:
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return &FieldError{path, "must be base64"}
		}
		v.SetBytes(b)
	}
	return nil
}

func decodeStruct(raw []byte, v reflect.Value, path string) error {
	layout := layoutOf(v.Type())
	var seen uint64
	err := members(raw, path, func(name string, value []byte) error {
		i := layout.index(name)
		if i < 0 {
			return &FieldError{path, "has an unknown member"}
		}
		field := layout[i]
		at := join(path, field.name)
		if seen&(1<<i) != 0 {
			return &FieldError{at, "appears twice"}
		}
		seen |= 1 << i
		return decodeValue(value, v.Field(field.position), at)
	})
	if err != nil {
		return err
	}
	for i, field := range layout {
		if field.required && seen&(1<<i) == 0 {
			return &FieldError{join(path, field.name), "is missing"}
		}
	}
	return nil
}

func decodeSlice(raw []byte, v reflect.Value, path string) error {
	out := reflect.MakeSlice(v.Type(), 0, 4)
	err := elements(raw, path, func(i int, value []byte) error {
		out = reflect.Append(out, reflect.Zero(v.Type().Elem()))
		return decodeValue(value, out.Index(i), path+"["+strconv.Itoa(i)+"]")
	})
	if err != nil {
		return err
	}
	v.Set(out)
	return nil
}

func decodeMap(raw []byte, v reflect.Value, path string) error {
	out := reflect.MakeMap(v.Type())
	err := members(raw, path, func(name string, value []byte) error {
		key := reflect.ValueOf(name)
		if out.MapIndex(key).IsValid() {
			return &FieldError{path, "has a member twice"}
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if err := decodeValue(value, elem, path); err != nil {
			return err
		}
		out.SetMapIndex(key, elem)
		return nil
	})
	if err != nil {
		return err
	}
	v.Set(out)
	return nil
}

// The two wire forms of a content part.
type (
	textPart struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	artifactPart struct {
		Type      string  `json:"type"`
		ID        tool.ID `json:"artifact_id"`
		MediaType string  `json:"media_type"`
		Bytes     int64   `json:"bytes"`
		SHA256    string  `json:"sha256"`
	}
)

func decodePart(raw []byte, v reflect.Value, path string) error {
	kind := ""
	err := members(raw, path, func(name string, value []byte) error {
		if name == "type" {
			kind, _ = unquote(value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch kind {
	case tool.PartText:
		var p textPart
		if err := decodeValue(raw, reflect.ValueOf(&p).Elem(), path); err != nil {
			return err
		}
		v.Set(reflect.ValueOf(tool.Text(p.Text)))
	case tool.PartArtifact:
		var p artifactPart
		if err := decodeValue(raw, reflect.ValueOf(&p).Elem(), path); err != nil {
			return err
		}
		ref := tool.ArtifactRef{ID: p.ID, MediaType: p.MediaType, Bytes: p.Bytes, SHA256: p.SHA256}
		v.Set(reflect.ValueOf(tool.ArtifactPart(ref)))
	default:
		return &FieldError{join(path, "type"), "must be text or artifact"}
	}
	return nil
}

// structLayout lists the members of a struct type.
type structLayout []struct {
	name     string
	position int
	required bool
}

func (l structLayout) index(name string) int {
	for i := range l {
		if l[i].name == name {
			return i
		}
	}
	return -1
}

// layouts remembers what layoutOf found, a pure function of the type.
var layouts sync.Map

func layoutOf(t reflect.Type) structLayout {
	if known, ok := layouts.Load(t); ok {
		return known.(structLayout) //nolint:forcetypeassert,errcheck // nothing else is stored
	}
	layout := make(structLayout, t.NumField())
	for i := range layout {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		layout[i].name, layout[i].position = name, i
		layout[i].required = !strings.Contains(options, "omit")
	}
	layouts.Store(t, layout)
	return layout
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
