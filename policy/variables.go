package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/toolbus/toolbus/tool"
)

// Names of the variables that depend on the arguments of a call.
const (
	varArguments     = "arguments"
	varArgumentTrust = "argument_trust"
)

// variable is one name a condition may read.
type variable struct {
	typ *cel.Type
	// known says that a session knows the value, or all of its few possible
	// values, before there is a call.
	known bool
	value func(v *variables) ref.Val
	// vocabulary reports whether a word can ever be the value; nil for free text.
	vocabulary func(word string) bool
}

// variableTable declares every variable once. The dots are part of the names:
// CEL then knows each field's type while it checks, and a misspelled field is an
// error of the profile and not of a call.
var variableTable = map[string]variable{
	"tool.name":         text(true, func(in *Input) string { return in.Spec.Name }),
	"tool.domain":       text(true, func(in *Input) string { return domain(in.Spec.Name) }),
	"tool.server_id":    text(true, func(in *Input) string { return in.Spec.ServerID }),
	"tool.kind":         enum(func(in *Input) tool.Kind { return in.Spec.Kind }, tool.Kind.Valid),
	"tool.side_effect":  enum(func(in *Input) tool.SideEffect { return in.Spec.SideEffect }, tool.SideEffect.Valid),
	"tool.risk":         enum(func(in *Input) tool.Risk { return in.Spec.Risk }, tool.Risk.Valid),
	"tool.idempotency":  enum(func(in *Input) tool.Idempotency { return in.Spec.Idempotency }, tool.Idempotency.Valid),
	"tool.target":       enum(func(in *Input) tool.Target { return in.Spec.TargetKind }, tool.Target.Valid),
	"tool.source":       enum(func(in *Input) tool.Source { return in.Spec.Source }, tool.Source.Valid),
	"tool.output_trust": enum(func(in *Input) tool.Trust { return in.Spec.OutputTrust }, tool.Trust.Valid),
	"origin_trust":      enum(originTrust, tool.Trust.Valid),
	"principal.id":      text(false, func(in *Input) string { return in.Principal.ID }),
	"agent.id":          text(false, func(in *Input) string { return in.AgentID }),
	"session.id":        text(false, func(in *Input) string { return in.SessionID }),
	"session.tenant":    text(false, func(in *Input) string { return in.TenantID }),
	"principal.interactive": {
		typ: cel.BoolType, known: true,
		value: func(v *variables) ref.Val { return types.Bool(v.in.Principal.Interactive) },
	},
	varArguments: {
		typ:   cel.MapType(cel.StringType, cel.DynType),
		value: func(v *variables) ref.Val { return v.arguments },
	},
	varArgumentTrust: {
		typ:   cel.MapType(cel.StringType, cel.StringType),
		value: func(v *variables) ref.Val { return v.argumentTrust },
	},
}

// text declares a variable of free text.
func text(known bool, get func(*Input) string) variable {
	return variable{
		typ: cel.StringType, known: known,
		value: func(v *variables) ref.Val { return types.String(get(v.in)) },
	}
}

// enum declares a variable whose value is a word of a closed set.
func enum[T ~string](get func(*Input) T, valid func(T) bool) variable {
	return variable{
		typ: cel.StringType, known: true,
		value:      func(v *variables) ref.Val { return types.String(get(v.in)) },
		vocabulary: func(word string) bool { return valid(T(word)) },
	}
}

func originTrust(in *Input) tool.Trust { return label(in.OriginTrust) }

// label reads a trust label; what is not one is the lowest.
func label(t tool.Trust) tool.Trust {
	if !t.Valid() {
		return tool.ExternalUntrusted
	}
	return t
}

func domain(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

func needsArguments(name string) bool { return name == varArguments || name == varArgumentTrust }

// unknownAtOpening reports whether name is a variable that only a call has.
func unknownAtOpening(name string) bool {
	v, ok := variableTable[name]
	return ok && !v.known
}

func unknownPatterns() []*cel.AttributePatternType {
	var patterns []*cel.AttributePatternType
	for name := range variableTable {
		if unknownAtOpening(name) {
			patterns = append(patterns, cel.AttributePattern(name))
		}
	}
	return patterns
}

// variables are the values of one evaluation. They serve one goroutine.
type variables struct {
	in            *Input
	decoded       bool
	err           error
	arguments     ref.Val
	argumentTrust ref.Val
}

func newVariables(in *Input) *variables { return &variables{in: in} }

// ResolveName gives the value of a variable.
func (v *variables) ResolveName(name string) (any, bool) {
	declared, ok := variableTable[name]
	if !ok {
		return nil, false
	}
	return declared.value(v), true
}

// Parent is nil: there is one scope.
func (*variables) Parent() cel.Activation { return nil }

var errArguments = errors.New("arguments are not a JSON object")

// decode reads the arguments, once for all rules that want them.
func (v *variables) decode() error {
	if v.decoded {
		return v.err
	}
	v.decoded = true
	dec := json.NewDecoder(bytes.NewReader(v.in.Arguments))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil || object == nil {
		v.err = errArguments
		return v.err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		v.err = errArguments
		return v.err
	}
	labels := make(map[string]string, len(object))
	for name, value := range object {
		labels[name] = string(label(v.in.ArgumentTrust[name]))
		if object[name], v.err = plain(value); v.err != nil {
			return v.err
		}
	}
	adapter := types.DefaultTypeAdapter
	v.arguments = adapter.NativeToValue(object)
	v.argumentTrust = trustMap{types.NewStringStringMap(adapter, labels)}
	return nil
}

// plain turns every number into one CEL calculates with: an integer where it
// fits 64 bits, else a double.
func plain(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		n, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("a number beyond double precision: %w", errArguments)
		}
		return n, nil
	case []any:
		for i := range v {
			if v[i], err = plain(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range maps.Keys(v) {
			if v[key], err = plain(v[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// trustMap is the labels of all arguments; asked for one that is not there, it
// gives the lowest label rather than an error.
type trustMap struct{ traits.Mapper }

// Find gives the label of an argument.
func (m trustMap) Find(key ref.Val) (ref.Val, bool) {
	if found, ok := m.Mapper.Find(key); ok {
		return found, ok
	}
	return types.String(tool.ExternalUntrusted), true
}

// Get gives the label of an argument.
func (m trustMap) Get(key ref.Val) ref.Val {
	found, _ := m.Find(key)
	return found
}
