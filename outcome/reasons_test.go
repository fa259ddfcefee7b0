package outcome

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/tool"
)

func load(tb testing.TB) *Table {
	tb.Helper()
	table, err := Load()
	if err != nil {
		tb.Fatalf("Load: %v", err)
	}
	return table
}

// constantsOf reads the string constants of codes.go from its source, so that a
// constant nobody listed cannot hide.
func constantsOf(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatalf("parse codes.go: %v", err)
	}
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if !strings.HasPrefix(name.Name, "Code") {
				t.Errorf("%s is no reason code", name.Name)
			}
			code, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatalf("%s: %v", name.Name, err)
			}
			codes = append(codes, code)
		}
		return false
	})
	slices.Sort(codes)
	return codes
}

func TestTableAndConstantsAreEqual(t *testing.T) {
	t.Parallel()
	constants := constantsOf(t)
	if diff := cmp.Diff(constants, load(t).Codes()); diff != "" {
		t.Errorf("constants (-) and table (+) differ:\n%s", diff)
	}
	if diff := cmp.Diff(constants, slices.Sorted(slices.Values(requiredCodes()))); diff != "" {
		t.Errorf("constants (-) and required codes (+) differ:\n%s", diff)
	}
}

func TestSamplesOfTheSpecificationAreRows(t *testing.T) {
	t.Parallel()
	table := load(t)
	for _, want := range []Object{
		{
			Status: tool.OutcomeDenied, Action: "demo.external_write", ReasonCode: "policy.matrix.external_write",
			Message: "Not performed. Approval was required and was denied.", Remediation: RemediationNone,
		},
		{
			Status: tool.OutcomeFailed, Action: "mcp.acme.create_ticket", ReasonCode: "tool.upstream_error",
			Message:   "The tool reported an error. Details follow as data.",
			Retryable: true, Remediation: RemediationModifyArguments,
		},
		{
			Status: tool.OutcomeUnavailable, Action: "mcp.acme.create_ticket", ReasonCode: "tool.server_unreachable",
			Message: "This capability is not reachable right now.", Retryable: true, Remediation: RemediationNone,
		},
		{
			Status: tool.OutcomeUncertain, Action: "demo.external_write", ReasonCode: "tool.outcome_unknown",
			Message: "The outcome of this call is unknown. Do not repeat it.", Remediation: RemediationNone,
		},
	} {
		if diff := cmp.Diff(want, table.Object(want.Status, want.Action, want.ReasonCode)); diff != "" {
			t.Errorf("%s:\n%s", want.ReasonCode, diff)
		}
	}
}

func TestMessagesSayWhatHappened(t *testing.T) {
	t.Parallel()
	table := load(t)
	expired := table.Lookup(CodeApprovalExpired).Message
	for _, word := range []string{"expired", "nothing was executed", "Ask again"} {
		if !strings.Contains(expired, word) {
			t.Errorf("expired approval: %q does not say %q", expired, word)
		}
	}
	repeat := table.Lookup(CodeUncertainRepeat).Message
	for _, word := range []string{"may have happened", "Do not repeat"} {
		if !strings.Contains(repeat, word) {
			t.Errorf("uncertain repeat: %q does not say %q", repeat, word)
		}
	}
}

func TestParseTableRefuses(t *testing.T) {
	t.Parallel()
	row := func(code, status, remediation, message string) string {
		return `{"code":"` + code + `","status":"` + status + `","retryable":false,"remediation":"` +
			remediation + `","message":"` + message + `"}`
	}
	good := row("tool.x", "failed", "none", "It failed.")
	for name, tt := range map[string]struct{ file, says string }{
		"no JSON":           {"[", "EOF"},
		"unknown member":    {`[{"code":"tool.x","hint":"y"}]`, "hint"},
		"duplicate":         {"[" + good + "," + good + "]", "twice"},
		"incomplete":        {"[" + good + "]", "missing"},
		"code grammar":      {"[" + row("Tool.x", "failed", "none", "It failed.") + "]", "grammar"},
		"succeeded":         {"[" + row("tool.x", "succeeded", "none", "It failed.") + "]", "status"},
		"invented status":   {"[" + row("tool.x", "lost", "none", "It failed.") + "]", "status"},
		"remediation":       {"[" + row("tool.x", "failed", "pray", "It failed.") + "]", "remediation"},
		"empty message":     {"[" + row("tool.x", "failed", "none", "") + "]", "period"},
		"no period":         {"[" + row("tool.x", "failed", "none", "It failed") + "]", "period"},
		"not ASCII":         {"[" + row("tool.x", "failed", "none", "It fàiled.") + "]", "ASCII"},
		"control character": {"[" + row("tool.x", "failed", "none", `It\nfailed.`) + "]", "ASCII"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseTable([]byte(tt.file))
			if !errors.Is(err, ErrTable) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one about %q", err, tt.says)
			}
		})
	}
}

func TestLookupTakesTheLongestPrefixAtDots(t *testing.T) {
	t.Parallel()
	table := load(t)
	for code, want := range map[string]string{
		"tool.upstream_error":              CodeUpstreamError,
		"tool.upstream_error.rate_limited": CodeUpstreamError,
		"tool.upstream_error.a.b":          CodeUpstreamError,
		"tool.upstream_errors":             CodeInternal,
		"tool.not_found.not_offered":       CodeNotOffered,
		"tool.not_found.not_offered.deep":  CodeNotOffered,
		"tool.not_found.not_offer":         CodeNotFound,
		"tool":                             CodeInternal,
		"":                                 CodeInternal,
		".":                                CodeInternal,
		"nobody.knows":                     CodeInternal,
	} {
		if got := table.Lookup(code).Code; got != want {
			t.Errorf("Lookup(%q) = %q, want %q", code, got, want)
		}
	}
}

func TestObjectNeverContradictsItsStatus(t *testing.T) {
	t.Parallel()
	table := load(t)
	for _, tt := range []struct {
		status             tool.OutcomeStatus
		code               string
		wantCode, wantText string
	}{
		{tool.OutcomeFailed, "tool.upstream_error.rate_limited", "tool.upstream_error.rate_limited", CodeUpstreamError},
		{tool.OutcomeFailed, "tool.Upstream", CodeInternal, CodeInternal},
		{tool.OutcomeFailed, "", CodeInternal, CodeInternal},
		{tool.OutcomeFailed, "tool." + strings.Repeat("x", 124), CodeInternal, CodeInternal},
		{tool.OutcomeFailed, "tool." + strings.Repeat("x", 123), "tool." + strings.Repeat("x", 123), CodeInternal},
		{tool.OutcomeUncertain, CodeTimeout, CodeOutcomeUnknown, CodeOutcomeUnknown},
		{tool.OutcomeFailed, CodeOutcomeUnknown, CodeInternal, CodeInternal},
		{tool.OutcomeDenied, CodeTimeout, CodeRuleDenied, CodeRuleDenied},
		{tool.OutcomeDenied, "policy.matrix.house_rule", "policy.matrix.house_rule", CodeRuleDenied},
		{tool.OutcomeUnavailable, CodeInternal, CodeServerUnreachable, CodeServerUnreachable},
		{tool.OutcomeSucceeded, CodeTimeout, CodeInternal, CodeInternal},
		{"lost", CodeTimeout, CodeInternal, CodeInternal},
	} {
		o := table.Object(tt.status, "demo.external_write", tt.code)
		if o.ReasonCode != tt.wantCode || o.Message != table.Lookup(tt.wantText).Message {
			t.Errorf("Object(%s, %q) = %q %q", tt.status, tt.code, o.ReasonCode, o.Message)
		}
	}
}

func TestFailureCodeKeepsToolsToTheirKind(t *testing.T) {
	t.Parallel()
	table := load(t)
	for _, tt := range []struct {
		kind       tool.FailureKind
		code, want string
	}{
		{tool.FailUpstreamError, "", CodeUpstreamError},
		{tool.FailUpstreamError, "tool.upstream_error", CodeUpstreamError},
		{tool.FailUpstreamError, "tool.upstream_error.rate_limited", "tool.upstream_error.rate_limited"},
		{tool.FailUpstreamError, "tool.upstream_error.Rate", CodeUpstreamError},
		{tool.FailUpstreamError, "tool.upstream_errors", CodeUpstreamError},
		{tool.FailUpstreamError, CodeOutcomeUnknown, CodeUpstreamError},
		{tool.FailUpstreamError, CodeRunCancelled, CodeUpstreamError},
		{tool.FailUpstreamError, CodeNotStarted, CodeUpstreamError},
		{tool.FailUpstreamError, CodeTimeout, CodeUpstreamError},
		{tool.FailUpstreamError, CodeServerUnreachable, CodeUpstreamError},
		{tool.FailUpstreamError, CodeMatrixExternalWrite, CodeUpstreamError},
		{tool.FailNotFound, CodeNotOffered, CodeNotFound},
		{tool.FailNotFound, CodeNotOffered + ".more", CodeNotFound},
		{tool.FailNotFound, "tool.not_found.page", "tool.not_found.page"},
		{tool.FailInternal, "acme.unlisted", CodeInternal},
		{tool.FailInternal, "tool.internal.disk", "tool.internal.disk"},
		{"denied", "tool.denied", CodeInternal},
		{"", "", CodeInternal},
	} {
		if got := table.FailureCode(tool.Failure{Kind: tt.kind, ReasonCode: tt.code}); got != tt.want {
			t.Errorf("FailureCode(%s, %q) = %q, want %q", tt.kind, tt.code, got, tt.want)
		}
	}
}

func TestUnavailableFamily(t *testing.T) {
	t.Parallel()
	var family []string
	table := load(t)
	for _, code := range table.Codes() {
		if !UnavailableFamily(code) {
			continue
		}
		family = append(family, code)
		if got := table.Lookup(code).Status; got != tool.OutcomeUnavailable {
			t.Errorf("%s has status %s", code, got)
		}
	}
	want := []string{CodeDeviceOffline, CodeServerUnauthorized, CodeServerUnreachable, CodeWithdrawn}
	if diff := cmp.Diff(want, family); diff != "" {
		t.Errorf("family:\n%s", diff)
	}
	if !UnavailableFamily("tool.server_unreachable.dns") || UnavailableFamily("tool.withdrawnish") {
		t.Error("a detail belongs to the family, a longer word does not")
	}
}
