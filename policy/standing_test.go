package policy

import (
	"errors"
	"testing"

	"github.com/toolbus/toolbus/tool"
)

func compileStanding(t testing.TB, s Standing) *CompiledStanding {
	t.Helper()
	compiled, err := CompileStanding(s)
	if err != nil {
		t.Fatalf("standing authorization: %v", err)
	}
	return compiled
}

func TestStandingMatches(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		standing Standing
		matches  bool
	}{
		{"by name", Standing{Principal: "ada", Tool: "mcp.crm.update"}, true},
		{"by server", Standing{Principal: "ada", Tool: "mcp.crm.*"}, true},
		{"of another server", Standing{Principal: "ada", Tool: "mcp.crm_2.*"}, false},
		{"a server whose id is a prefix", Standing{Principal: "ada", Tool: "mcp.cr.*"}, false},
		{"another tool", Standing{Principal: "ada", Tool: "mcp.crm.update_all"}, false},
		{"another principal", Standing{Principal: "eve", Tool: "mcp.crm.*"}, false},
		{"condition holds", Standing{Principal: "ada", Tool: "mcp.crm.*", Condition: "arguments.n < 10"}, true},
		{"condition fails", Standing{Principal: "ada", Tool: "mcp.crm.*", Condition: "arguments.n > 10"}, false},
		{"condition cannot be evaluated", Standing{Principal: "ada", Tool: "mcp.crm.*", Condition: "arguments.m < 10"}, false},
		{"untrusted argument", Standing{Principal: "ada", Tool: "mcp.crm.*", Condition: "trust_at_least(argument_trust.n, 'user')"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.standing.ID = tool.NewID()
			s := compileStanding(t, tc.standing)
			in := write(`{"n":3}`)
			if got := s.Matches(t.Context(), in); got != tc.matches {
				t.Errorf("Matches = %v, want %v", got, tc.matches)
			}
			got := shippedProfile(t).Evaluate(t.Context(), in, s)
			if allowed := got.Effect == Allow; allowed != tc.matches {
				t.Errorf("decision %+v", got)
			}
			if tc.matches && (got.Standing != s.ID() || got.Row != "external_write") {
				t.Errorf("decision does not say by what: %+v", got)
			}
		})
	}
}

func TestStandingServesTheUnattended(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t)
	s := compileStanding(t, Standing{ID: tool.NewID(), Principal: "ada", Tool: "mcp.crm.update"})
	in := write(`{}`)
	in.Principal.Interactive = false
	if got := p.Evaluate(t.Context(), in); got.Effect != Deny || got.Row != RowUnattended {
		t.Errorf("without authorization: %+v", got)
	}
	if got := p.Evaluate(t.Context(), in, nil, s); got.Effect != Allow {
		t.Errorf("with authorization: %+v", got)
	}
}

// TestStandingOverridesNoDenial: it answers the question for an approval and no other.
func TestStandingOverridesNoDenial(t *testing.T) {
	t.Parallel()
	s := compileStanding(t, Standing{ID: tool.NewID(), Principal: "ada", Tool: "mcp.crm.*"})
	for _, p := range []*Profile{profileWith(t, "no: true -> deny"), profileWith(t, "broken: arguments.x == 1 -> allow"), nil} {
		if got := p.Evaluate(t.Context(), write(`{}`), s); got.Effect != Deny {
			t.Errorf("decision %+v", got)
		}
	}
}

func TestInvalidStandings(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Standing{
		"no principal":       {Tool: "mcp.crm.update"},
		"no tool":            {Principal: "ada"},
		"every tool":         {Principal: "ada", Tool: "*"},
		"every server":       {Principal: "ada", Tool: "mcp.*"},
		"a domain":           {Principal: "ada", Tool: "web.*"},
		"no condition":       {Principal: "ada", Tool: "mcp.crm.*", Condition: "arguments.n"},
		"unknown variable":   {Principal: "ada", Tool: "mcp.crm.*", Condition: "argument.n == 1"},
		"unknown tool field": {Principal: "ada", Tool: "mcp.crm.*", Condition: "tool.server == 'crm'"},
		"impossible word":    {Principal: "ada", Tool: "mcp.crm.*", Condition: "origin_trust == 'users'"},
	} {
		if compiled, err := CompileStanding(s); compiled != nil || !errors.Is(err, ErrStanding) {
			t.Errorf("%s: CompileStanding = %v, %v", name, compiled, err)
		}
	}
}
