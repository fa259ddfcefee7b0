package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The grammars as the contract writes them, to compare the hand-written ones with.
var (
	nameGrammar  = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)
	aliasGrammar = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

func TestValidName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"workspace.write_text":           true,
		"mcp.acme.create_ticket":         true,
		"a.b":                            true,
		"a." + strings.Repeat("b", 94):   true,
		"a." + strings.Repeat("b", 95):   false,
		"":                               false,
		"workspace":                      false,
		"workspace.":                     false,
		".write":                         false,
		"workspace..write":               false,
		"workspace.Write":                false,
		"workspace.write-text":           false,
		"workspace.1st":                  false,
		"workspace._x":                   false,
		"1workspace.write":               false,
		"workspace.write text":           false,
		"workspace.w\u00e9":              false,
		"workspace.write\n":              false,
		"workspace.write\x00":            false,
		"conversation.ask_user.follow_2": true,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v, want %v", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOfN(rapid.RuneFrom([]rune("ab9_.-A")), 0, 20, -1).Draw(t, "name")
		if got, want := ValidName(name), nameGrammar.MatchString(name); got != want {
			t.Fatalf("ValidName(%q) = %v, want %v", name, got, want)
		}
	})
}

func TestNormalizeRemoteName(t *testing.T) {
	t.Parallel()
	digest := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:])[:7]
	}
	long := strings.Repeat("Create Ticket ", 5)
	for _, tc := range []struct{ name, remote, want string }{
		{"kept", "create_ticket", "create_ticket"},
		{"lowercased", "CreateTicket", "createticket"},
		{"replaced", "Get Item", "get_item"},
		{"hyphen", "get-item", "get_item"},
		{"runs collapse", "get -- _item", "get_item"},
		{"ends stripped", "__get__", "get"},
		{"dot is no separator", "files.read", "files_read"},
		{"empty", "", "t_"},
		{"nothing left", "---", "t_"},
		{"digit first", "2fa", "t_2fa"},
		{"digit after strip", "_2fa", "t_2fa"},
		{"composed and decomposed agree", "cafe\u0301", "caf"},
		{"composed", "caf\u00e9", "caf"},
		{"kelvin sign is a k", "\u212Aelvin", "kelvin"},
		{"dotted capital I lowers to two characters", "\u0130d", "i_d"},
		{"broken UTF-8", "a\xff\xfeb", "a_b"},
		{"48 are kept", strings.Repeat("a", 48), strings.Repeat("a", 48)},
		{"49 are cut", strings.Repeat("a", 49), strings.Repeat("a", 40) + "_" + digest(strings.Repeat("a", 49))},
		{"the digest is of the reported name", long, "create_ticket_create_ticket_create_ticke_" + digest(long)},
		{"the prefix counts", strings.Repeat("1", 47), "t_" + strings.Repeat("1", 38) + "_" + digest(strings.Repeat("1", 47))},
	} {
		if got := NormalizeRemoteName(tc.remote); got != tc.want {
			t.Errorf("%s: NormalizeRemoteName(%q) = %q, want %q", tc.name, tc.remote, got, tc.want)
		}
	}
}

func FuzzNormalizeRemoteName(f *testing.F) {
	for _, seed := range []string{"", "Get Item", "2fa", "\u0130", "a\xff", strings.Repeat("x-", 60), "e\u0301"} {
		f.Add(seed)
	}
	server := strings.Repeat("s", MaximumServerIDBytes)
	f.Fuzz(func(t *testing.T, remote string) {
		got := NormalizeRemoteName(remote)
		if !validSegment(got) || len(got) > 48 {
			t.Fatalf("NormalizeRemoteName(%q) = %q: not a segment", remote, got)
		}
		if len(got) < 48 && NormalizeRemoteName(got) != got && got != "t_" {
			t.Fatalf("NormalizeRemoteName(%q) = %q, and again %q", remote, got, NormalizeRemoteName(got))
		}
		if name := MCPName(server, remote); !ValidName(name) {
			t.Fatalf("MCPName(%q) = %q: not a registry name", remote, name)
		}
	})
}

func TestAlias(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"workspace.write_text":         "workspace-write_text",
		"catalog.query":                "catalog-query",
		"catalog_.query":               "catalog_-query",
		"a." + strings.Repeat("b", 62): "a-" + strings.Repeat("b", 62),
	} {
		if got := Alias(name); got != want {
			t.Errorf("Alias(%q) = %q, want %q", name, got, want)
		}
	}
	long := "mcp." + strings.Repeat("s", 32) + "." + strings.Repeat("x", 48)
	got := Alias(long)
	if !strings.HasPrefix(got, "mcp-"+strings.Repeat("s", 32)+"-") || !aliasGrammar.MatchString(got) {
		t.Errorf("Alias(%q) = %q: the server must stay readable", long, got)
	}
	if strings.ToLower(got) == got {
		t.Errorf("Alias(%q) = %q: without a capital it is the alias of a short name too", long, got)
	}
	if other := Alias(long[:len(long)-1] + "y"); other == got {
		t.Errorf("two long names share the alias %q", got)
	}
}

// drawName draws valid registry names, crowded: few letters, lengths around the
// limit of an alias, so that a lossy encoding would collide.
func drawName(t *rapid.T, label string) string {
	segment := rapid.StringMatching(`[ah][ah0_]{0,40}`)
	name := strings.Join(rapid.SliceOfN(segment, 2, 4).Draw(t, label), ".")
	if len(name) > MaximumNameBytes {
		name = strings.TrimRight(name[:MaximumNameBytes], ".")
	}
	return name
}

func TestAliasIsInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawName(t, "a")
		// The second name is often the first with one character changed, which is
		// where a lossy encoding collides.
		b := drawName(t, "b")
		if rapid.Bool().Draw(t, "near") {
			at := rapid.IntRange(0, len(a)-1).Draw(t, "at")
			b = a[:at] + rapid.SampledFrom([]string{"_", ".", "a", "__", "h", ""}).Draw(t, "by") + a[at+1:]
		}
		if !ValidName(b) {
			b = a
		}
		first, second := Alias(a), Alias(b)
		if !aliasGrammar.MatchString(first) {
			t.Fatalf("Alias(%q) = %q: outside the grammar", a, first)
		}
		if (first == second) != (a == b) {
			t.Fatalf("Alias(%q) = %q and Alias(%q) = %q", a, first, b, second)
		}
		if ValidName(first) {
			t.Fatalf("alias %q is a registry name", first)
		}
	})
}

func TestMatchPattern(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, name string
		valid, want   bool
	}{
		{"*", "workspace.read_text", true, true},
		{"workspace.*", "workspace.read_text", true, true},
		{"workspace.*", "workspace.deep.er", true, true},
		{"workspace.*", "workspace_x.read", true, false},
		{"work.*", "workspace.read_text", true, false},
		{"workspace.read_text", "workspace.read_text", true, true},
		{"workspace.read_text", "workspace.read_text_2", true, false},
		{"mcp.acme.*", "mcp.acme.create", true, true},
		{"mcp.acme.*", "mcp.acme_2.create", true, false},
		{"", "workspace.read_text", false, false},
		{"workspace.read*", "workspace.read_text", false, false},
		{"work*", "workspace.read_text", false, false},
		{"**", "workspace.read_text", false, false},
		{"*.read_text", "workspace.read_text", false, false},
		{"workspace", "workspace.read_text", false, false},
		{".*", "workspace.read_text", false, false},
		{"Workspace.*", "workspace.read_text", false, false},
	} {
		if got := ValidPattern(tc.pattern); got != tc.valid {
			t.Errorf("ValidPattern(%q) = %v, want %v", tc.pattern, got, tc.valid)
		}
		if got := MatchPattern(tc.pattern, tc.name); got != tc.want {
			t.Errorf("MatchPattern(%q, %q) = %v, want %v", tc.pattern, tc.name, got, tc.want)
		}
	}
}
