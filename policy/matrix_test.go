package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/tool"
)

// point is one combination of everything the shipped matrix looks at.
type point struct {
	kind        tool.Kind
	effect      tool.SideEffect
	risk        tool.Risk
	target      tool.Target
	origin      tool.Trust
	interactive bool
}

func (p point) String() string {
	return fmt.Sprintf("%s %s %s in %s from %s interactive=%v", p.kind, p.effect, p.risk, p.target, p.origin, p.interactive)
}

func (p point) input() Input {
	return Input{
		Spec: tool.Spec{
			Name: "demo.act", Version: "1", Kind: p.kind, SideEffect: p.effect, Risk: p.risk,
			TargetKind: p.target, Idempotency: tool.NonIdempotent, Source: tool.Builtin, OutputTrust: tool.InternalTool,
		},
		Arguments:   []byte(`not read by any row of the matrix`),
		OriginTrust: p.origin,
		Principal:   tool.Principal{ID: "ada", Interactive: p.interactive},
	}
}

// grid is every point there is.
func grid() []point {
	var all []point
	for _, kind := range []tool.Kind{tool.Capability, tool.Control} {
		for _, effect := range []tool.SideEffect{
			tool.EffectNone, tool.WorkspaceRead, tool.WorkspaceWrite, tool.NetworkRead,
			tool.ExternalRead, tool.ExternalWrite, tool.CodeExecution, tool.PlatformWrite,
		} {
			for _, risk := range []tool.Risk{tool.RiskLow, tool.RiskMedium, tool.RiskHigh, tool.RiskCritical} {
				for _, target := range tool.Targets() {
					for _, origin := range []tool.Trust{
						"", tool.ExternalUntrusted, tool.InternalTool, tool.User, tool.TrustedConfiguration, tool.Platform,
					} {
						for _, interactive := range []bool{false, true} {
							all = append(all, point{kind, effect, risk, target, origin, interactive})
						}
					}
				}
			}
		}
	}
	return all
}

// want reads the contract's table (section 5) by hand, without order: for each
// class of calls the one row that is theirs.
func want(p point) Decision {
	row, effect := attended(p)
	if effect == RequireApproval && !p.interactive {
		row, effect = RowUnattended, Deny
	}
	return Decision{Effect: effect, Row: row, Code: "policy.matrix." + row}
}

func attended(p point) (string, Effect) {
	fromUser := slices.Contains([]tool.Trust{tool.User, tool.TrustedConfiguration, tool.Platform}, p.origin)
	if p.kind == tool.Control {
		return "control", Allow
	}
	if p.risk == tool.RiskCritical {
		return "critical", RequireApproval
	}
	high := p.risk == tool.RiskHigh
	switch p.effect {
	case tool.EffectNone:
		return "no_effect", Allow
	case tool.WorkspaceRead:
		return "workspace_read", Allow
	case tool.WorkspaceWrite:
		if fromUser {
			return "workspace_write", Allow
		}
		return "workspace_write_untrusted", RequireApproval
	case tool.NetworkRead, tool.ExternalRead:
		if high {
			return "risky_read", RequireApproval
		}
		return string(p.effect), Allow
	case tool.CodeExecution:
		if p.target == tool.SandboxTarget && fromUser {
			return "sandboxed_code", Allow
		}
		return "code", RequireApproval
	case tool.PlatformWrite:
		switch {
		case !fromUser:
			return "platform_write_untrusted", Deny
		case high:
			return "platform_write", RequireApproval
		}
		return "platform_write", Allow
	case tool.ExternalWrite:
		return "external_write", RequireApproval
	}
	return "", Deny
}

func shippedProfile(t testing.TB) *Profile {
	t.Helper()
	p, err := Shipped()
	if err != nil {
		t.Fatalf("the shipped profile does not load: %v", err)
	}
	return p
}

func TestShippedMatrix(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t)
	reached := map[string]int{}
	for _, at := range grid() {
		got := p.Evaluate(t.Context(), at.input())
		expected := want(at)
		expected.PolicyVersion = p.Version()
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Fatalf("%s: (-want +got)\n%s", at, diff)
		}
		reached[got.Row]++
	}
	reached[RowUnknownTool]++ // the pipeline's, not the list's
	for _, row := range Rows() {
		if reached[row] == 0 {
			t.Errorf("no call reached row %s", row)
		}
		delete(reached, row)
	}
	if len(reached) != 0 {
		t.Errorf("rows that the contract does not have: %v", reached)
	}
}

// differs reports whether a profile decides any point otherwise than the table.
func differs(t *testing.T, rules []rule) bool {
	t.Helper()
	p := &Profile{rules: rules}
	for _, at := range grid() {
		if got := p.Evaluate(t.Context(), at.input()); !cmp.Equal(got, want(at)) {
			return true
		}
	}
	return false
}

func TestShippedMatrixInContractOrder(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, r := range shippedProfile(t).rules {
		rows = append(rows, r.row)
	}
	if diff := cmp.Diff(append(Rows()[:14:14], RowUnattended, RowUnknownTool), append(slices.Compact(rows), RowUnattended, RowUnknownTool)); diff != "" {
		t.Errorf("order of rows (-contract +profile)\n%s", diff)
	}
}

// TestMatrixMutations changes the matrix and wants the table above to notice:
// every row is needed, and so is the order where conditions overlap.
func TestMatrixMutations(t *testing.T) {
	t.Parallel()
	rules := shippedProfile(t).rules
	if differs(t, rules) {
		t.Fatal("the matrix differs from the table before any change")
	}
	var sensitive []string
	for i := range rules {
		if !differs(t, slices.Delete(slices.Clone(rules), i, i+1)) {
			t.Errorf("row %s can be removed without notice", rules[i].row)
		}
		for _, effect := range []Effect{Allow, RequireApproval, Deny} {
			changed := slices.Clone(rules)
			changed[i].effect = effect
			if effect != rules[i].effect && !differs(t, changed) {
				t.Errorf("row %s can become %s without notice", rules[i].row, effect)
			}
		}
		if i == 0 {
			continue
		}
		swapped := slices.Clone(rules)
		swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
		if differs(t, swapped) {
			sensitive = append(sensitive, rules[i-1].row+" before "+rules[i].row)
		}
	}
	expected := []string{
		"control before critical", "critical before no_effect", "sandboxed_code before code",
		"platform_write before platform_write",
	}
	if diff := cmp.Diff(expected, sensitive); diff != "" {
		t.Errorf("neighbours whose order matters (-want +got)\n%s", diff)
	}
}
