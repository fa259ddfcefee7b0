package config_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/config"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "toolbus.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The defaults are promised to operators, so they stand here a second time.
func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := config.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, pair := range map[string][2]any{
		"output.inline_maximum_bytes":        {got.Output.InlineMaximumBytes, 4096},
		"output.maximum_bytes":               {got.Output.MaximumBytes, 1048576},
		"batch.concurrency":                  {got.Batch.Concurrency, 8},
		"lease.seconds":                      {got.Lease.Seconds.Duration(), 30 * time.Second},
		"run.deadline_seconds":               {got.Run.DeadlineSeconds.Duration(), 86400 * time.Second},
		"recovery.maximum_attempts":          {got.Recovery.MaximumAttempts, 5},
		"dispatch.retry_seconds":             {got.Dispatch.RetrySeconds.Duration(), 10 * time.Second},
		"approval.expiry_seconds":            {got.Approval.ExpirySeconds.Duration(), 3600 * time.Second},
		"mcp.connect_timeout_seconds":        {got.MCP.ConnectTimeoutSeconds.Duration(), 10 * time.Second},
		"mcp.request_timeout_seconds":        {got.MCP.RequestTimeoutSeconds.Duration(), 30 * time.Second},
		"mcp.idle_timeout_seconds":           {got.MCP.IdleTimeoutSeconds.Duration(), 900 * time.Second},
		"mcp.discovery_reuse_seconds":        {got.MCP.DiscoveryReuseSeconds.Duration(), 300 * time.Second},
		"mcp.warmup_connect_timeout_seconds": {got.MCP.WarmupConnectTimeoutSeconds.Duration(), 60 * time.Second},
		"mcp.warmup_retry_seconds":           {got.MCP.WarmupRetrySeconds.Duration(), 30 * time.Second},
		"mcp.warmup_attempts":                {got.MCP.WarmupAttempts, 5},
		"bridge.approval_hold_seconds":       {got.Bridge.ApprovalHoldSeconds.Duration(), 300 * time.Second},
		"bridge.calls_per_turn":              {got.Bridge.CallsPerTurn, 64},
		"executor.tenant_share":              {got.Executor.TenantShare, 0.5},
		"sandbox.allow_unconfined":           {got.Sandbox.AllowUnconfined, false},
		"retention.stream_seconds":           {got.Retention.StreamSeconds.Duration(), 7 * 24 * time.Hour},
		"outbox.takeover_seconds":            {got.Outbox.TakeoverSeconds.Duration(), 2 * time.Second},
		"maximum trust of a tenant":          {got.MaximumTrust("any"), "user"},
		"profile of a tenant":                {got.Profile("any"), "default"},
		"hold of a tenant":                   {got.BridgeApprovalHold("any"), 300 * time.Second},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s = %v, want %v", key, pair[0], pair[1])
		}
	}
	if diff := cmp.Diff(config.Default(), got); diff != "" {
		t.Errorf("no file is not the default (-want +got):\n%s", diff)
	}
}

func TestFullFile(t *testing.T) {
	t.Parallel()
	got, err := config.Load("testdata/full.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	hold := config.Seconds(0)
	want.Database = config.Database{URL: "postgres://toolbus:hunter2@db.internal/toolbus", Connections: 8}
	want.NATS = config.NATS{URL: "nats://toolbus:hunter2@n1:4222,nats://n2:4222", Replicas: 3}
	want.HTTP = config.HTTP{Address: "0.0.0.0:8443", Tokens: []config.Token{
		{Name: "dana", CredentialRef: "console_dana", Role: "approver", Tenants: []string{"acme"}},
		{Name: "ops", CredentialRef: "env:OPS_TOKEN", Role: "admin", Tenants: []string{"*"}},
	}}
	want.Log = config.Log{Level: "debug", Format: "json"}
	want.Trace.Endpoint = "http://collector:4318"
	want.Output.InlineMaximumBytes = 8192
	want.Batch.Concurrency = 4
	want.Lease.Seconds = 0.4
	want.Recovery = config.Recovery{MaximumAttempts: 3, SweepSeconds: 0.05}
	want.Executor = config.Executor{Slots: 16, TenantShare: 0.25}
	want.MCP.ConnectTimeoutSeconds, want.MCP.DiscoveryReuseSeconds = 2.5, 0
	want.Tools.Disabled = []string{"sandbox.*", "web.fetch"}
	want.Workspace.Directory = "/var/lib/toolbus/workspaces"
	want.Sandbox.Processes = 16
	want.Egress.Allow = []string{"api.example.com", "*.example.org:443", "10.0.0.5", "[fd00::5]:8080"}
	want.Policy.Profiles = map[string]string{"strict": "/etc/toolbus/strict.yaml"}
	want.Policy.Standing = []config.Standing{{
		Name: "nightly", Tenant: "acme", Principal: "reporter", Tool: "mcp.tickets.*", ExpiresAt: "2027-01-01T00:00:00Z",
	}}
	want.Tenants = map[string]config.Tenant{"acme": {MaximumTrust: "trusted_configuration", Profile: "strict", BridgeApprovalHoldSeconds: &hold}}
	want.Credentials = map[string]string{"console_dana": "file:/run/secrets/dana", "tickets": "env:TICKETS_TOKEN"}
	want.Servers = []config.Server{
		{
			ServerID: "tickets", Tenants: []string{"acme", "globex"}, Transport: "http", URL: "https://mcp.example.com/v1",
			AuthScheme: "bearer", CredentialRef: "tickets", SideEffect: "external_write", Risk: "medium",
			Idempotency: "conditionally_idempotent", RequiredScopes: []string{"tickets.write"},
		},
		{
			ServerID: "files", Tenants: []string{"acme"}, Transport: "stdio", Command: []string{"/usr/bin/files-mcp", "--read-only"},
			SideEffect: "network_read", Idempotency: "read_only",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.BridgeApprovalHold("acme") != 0 || got.Profile("acme") != "strict" || got.MaximumTrust("acme") != "trusted_configuration" {
		t.Error("what differs for a tenant is not used")
	}
}

func TestEnvironmentWins(t *testing.T) {
	t.Parallel()
	path := write(t, "batch: {concurrency: 4}\nlease: {seconds: 5}\ntools: {disabled: [web.fetch]}\n")
	got, err := config.Load(path, []string{
		"PATH=/bin", "TOOLBUS_DATABASE_URL=postgres://a@b/c", "TOOLBUS_BATCH_CONCURRENCY=2",
		"TOOLBUS_MCP_CONNECT_TIMEOUT_SECONDS=0.5", "TOOLBUS_SANDBOX_ALLOW_UNCONFINED=true",
		"TOOLBUS_TOOLS_DISABLED=math.*, system.time", `TOOLBUS_TENANTS={acme: {profile: default}}`,
		`TOOLBUS_SERVERS=[{server_id: s, tenants: [acme], transport: http, url: "https://x.example"}]`,
		"TOOLBUS_EGRESS_ALLOW=", "TOOLBUS_NO_SUCH_KEY=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Lease.Seconds = 5
	want.Database.URL = "postgres://a@b/c"
	want.Batch.Concurrency = 2
	want.MCP.ConnectTimeoutSeconds = 0.5
	want.Sandbox.AllowUnconfined = true
	want.Tools.Disabled = []string{"math.*", "system.time"}
	want.Tenants = map[string]config.Tenant{"acme": {Profile: "default"}}
	want.Servers = []config.Server{{ServerID: "s", Tenants: []string{"acme"}, Transport: "http", URL: "https://x.example"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every key has a variable that reaches it and no other key.
func TestEveryKeyHasItsVariable(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, key := range config.Keys() {
		if other, taken := seen[key.Variable]; taken {
			t.Errorf("%s and %s share %s", key.Name, other, key.Variable)
		}
		seen[key.Variable] = key.Name
		isDuration := strings.HasSuffix(key.Name, "_seconds") || key.Name == "lease.seconds"
		if isDuration != (key.Type == "number") && key.Name != "executor.tenant_share" {
			t.Errorf("%s is a %s: a duration ends in _seconds and is a number", key.Name, key.Type)
		}
		_, err := config.Load("", []string{key.Variable + "=\x00: ["})
		if err == nil && key.Type != "string" && key.Type != "list" {
			t.Errorf("%s does not reach %s", key.Variable, key.Name)
		}
	}
	if len(seen) < 50 {
		t.Errorf("only %d keys were found", len(seen))
	}
}

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	got := config.UnknownVariables([]string{
		"HOME=/", "TOOLBUS_LEASE_SECOND=3", "TOOLBUS_LEASE_SECONDS=3", "TOOLBUS_CONFIG=x", "TOOLBUS_TEST_CLUSTER=y", "TOOLBUS_A=",
	})
	if diff := cmp.Diff([]string{"TOOLBUS_A", "TOOLBUS_LEASE_SECOND"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	server := func(rest string) string { return "servers: [{server_id: s, tenants: [a], " + rest + "}]" }
	for name, tc := range map[string]struct {
		file string
		env  []string
		want []string
	}{
		"unknown section":           {file: "batch: {concurrency: 2}\nbacth: {}\n", want: []string{`line 2: unknown key "bacth"`}},
		"unknown key":               {file: "mcp:\n  connect_timeout: 3\n", want: []string{`line 2: unknown key "connect_timeout"`}},
		"unknown key in a list":     {file: "servers:\n- server_id: a\n  tenant: b\n", want: []string{`line 3: unknown key "tenant"`}},
		"two unknown keys":          {file: "a: 1\nb: 2\n", want: []string{`line 1: unknown key "a"`, `line 2: unknown key "b"`}},
		"key twice":                 {file: "batch: {}\nbatch: {}\n", want: []string{"line 2", "already defined at line 1"}},
		"wrong type":                {file: "lease: {seconds: [hunter2]}\n", want: []string{"line 1: the value is not of type number"}},
		"text for a number":         {file: "batch:\n  concurrency: hunter2\n", want: []string{"line 2: the value is not of type integer"}},
		"not YAML":                  {file: "a: [", want: []string{"line 1"}},
		"two documents":             {file: "batch: {}\n---\nbatch: {}\n", want: []string{"more than one document"}},
		"variable of another type":  {env: []string{"TOOLBUS_BATCH_CONCURRENCY=many"}, want: []string{"TOOLBUS_BATCH_CONCURRENCY: line 1: the value is not of type integer"}},
		"variable out of range":     {env: []string{"TOOLBUS_LEASE_SECONDS=0"}, want: []string{"lease.seconds must be at least 0.1"}},
		"inline too small":          {file: "output: {inline_maximum_bytes: 1023}", want: []string{"output.inline_maximum_bytes must be at least 1024"}},
		"inline above the ceiling":  {file: "output: {inline_maximum_bytes: 2048, maximum_bytes: 1024}", want: []string{"output.inline_maximum_bytes must not be above output.maximum_bytes"}},
		"not a number":              {file: "lease: {seconds: .nan}", want: []string{"lease.seconds must be at least 0.1"}},
		"without end":               {file: "lease: {seconds: .inf}", want: []string{"lease.seconds must be at most 3600"}},
		"share above one":           {file: "executor: {tenant_share: 1.5}", want: []string{"executor.tenant_share must be at most 1"}},
		"share of nothing":          {file: "executor: {tenant_share: 0}", want: []string{"executor.tenant_share must be above 0"}},
		"even replicas":             {file: "nats: {replicas: 2}", want: []string{"nats.replicas must be one of 1, 3, 5"}},
		"level":                     {file: "log: {level: loud}", want: []string{"log.level must be one of debug, info, warn, error"}},
		"address":                   {file: "http: {address: localhost}", want: []string{"http.address must be host:port"}},
		"port":                      {file: "http: {address: 'localhost:65536'}", want: []string{"http.address must be host:port"}},
		"tool pattern":              {file: "tools: {disabled: [math.*, 'a*']}", want: []string{"tools.disabled must be a tool name"}},
		"relative workspace":        {file: "workspace: {directory: here}", want: []string{"workspace.directory must be an absolute path"}},
		"egress wildcard":           {file: "egress: {allow: ['*']}", want: []string{"egress.allow must be host"}},
		"egress address":            {file: "egress: {allow: ['https://x.example']}", want: []string{"egress.allow must be host"}},
		"egress port":               {file: "egress: {allow: ['x.example:0']}", want: []string{"egress.allow must be host"}},
		"platform trust":            {file: "tenants: {a: {maximum_trust: platform}}", want: []string{"tenants.a.maximum_trust must be one of"}},
		"tenant name":               {file: "tenants: {'a.b': {}}", want: []string{"tenants must have keys of 1 to 64 letters"}},
		"tenant's hold":             {file: "tenants: {a: {bridge_approval_hold_seconds: -1}}", want: []string{"tenants.a.bridge_approval_hold_seconds must be at least 0"}},
		"profile of nobody":         {file: "tenants: {a: {profile: p}}\npolicy: {default_profile: q}", want: []string{"tenants.a.profile must be default or", "policy.default_profile must be default or"}},
		"profile without file":      {file: "policy: {profiles: {p: ''}}", want: []string{"policy.profiles.p must name a file"}},
		"inline credential":         {file: "credentials: {a: hunter2}", want: []string{"credentials.a must be a reference"}},
		"relative credential":       {file: "credentials: {a: 'file:hunter2'}", want: []string{"credentials.a must be a reference"}},
		"credential nobody has":     {file: server("transport: http, url: 'https://x', credential_ref: hunter2"), want: []string{"servers[0].credential_ref must be a key of credentials"}},
		"token without tenants":     {file: "http: {tokens: [{name: a, credential_ref: 'env:A', role: viewer}]}", want: []string{"http.tokens[0].tenants must be given"}},
		"token of a strange tenant": {file: "http: {tokens: [{name: a, credential_ref: 'env:A', role: viewer, tenants: ['a.*']}]}", want: []string{"http.tokens[0].tenants must be tenants or *"}},
		"token of no role":          {file: "http: {tokens: [{name: a, credential_ref: 'env:A', role: root, tenants: [a]}]}", want: []string{"http.tokens[0].role must be one of viewer, approver, admin"}},
		"standing without end":      {file: "policy: {standing: [{name: a, tenant: a, principal: a, tool: math.add}]}", want: []string{"policy.standing[0].expires_at must be given"}},
		"standing, wrong time":      {file: "policy: {standing: [{name: a, tenant: a, principal: a, tool: math.add, expires_at: tomorrow}]}", want: []string{"policy.standing[0].expires_at must be a time"}},
		"server id":                 {file: "servers: [{server_id: A-b, tenants: [a], transport: http, url: 'https://x'}]", want: []string{"servers[0].server_id must begin with"}},
		"server of no transport":    {file: server("transport: carrier_pigeon"), want: []string{"servers[0].transport must be one of stdio, http"}},
		"stdio by a bare name":      {file: server("transport: stdio, command: [python]"), want: []string{"servers[0].command must begin with an absolute path"}},
		"stdio without a command":   {file: server("transport: stdio"), want: []string{"servers[0].command must begin with an absolute path"}},
		"stdio with an address":     {file: server("transport: stdio, command: [/bin/x], url: 'https://x'"), want: []string{"servers[0].url must be absent"}},
		"http with a command":       {file: server("transport: http, url: 'https://x', command: [/bin/x]"), want: []string{"servers[0].command must be absent"}},
		"http with a password":      {file: server("transport: http, url: 'https://u:hunter2@x'"), want: []string{"servers[0].url must be an http"}},
		"http by another scheme":    {file: server("transport: http, url: 'ftp://x'"), want: []string{"servers[0].url must be an http"}},
		"server twice": {
			file: "servers: [{server_id: s, tenants: [a, b], transport: http, url: 'https://x'}, {server_id: s, tenants: [b], transport: http, url: 'https://y'}]",
			want: []string{"servers[1].server_id must be unique in each tenant"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.Load(write(t, tc.file), tc.env)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q repeats a value", err)
			}
			if !reflect.ValueOf(got).IsZero() {
				t.Error("a refused configuration was returned")
			}
		})
	}
}

func TestKeyErrorIsTyped(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Batch.Concurrency = 0
	var keyError *config.KeyError
	if err := c.Validate(); !errors.As(err, &keyError) || keyError.Key != "batch.concurrency" || keyError.Rule != "be at least 1" {
		t.Errorf("Validate() = %v", err)
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	if _, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestEndpointHidesThePassword(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		endpoint config.Endpoint
		want     string
	}{
		{"", ""},
		{"postgres://u:hunter2@h:5432/d?sslmode=require", "postgres://h:5432/d?sslmode=require"},
		{"postgres:///d?host=%2Frun&password=hunter2&user=u", "postgres:///d?host=%2Frun&password=%5Bredacted%5D&user=u"},
		{"nats://u:hunter2@a:4222, nats://hunter2@b:4222", "nats://a:4222,nats://b:4222"},
		{"host=h password=hunter2", "[redacted]"},
		{"://hunter2", "[redacted]"},
	} {
		if got := tc.endpoint.String(); got != tc.want {
			t.Errorf("String() = %q, want %q", got, tc.want)
		}
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("connected", "url", tc.endpoint)
		c := config.Default()
		c.Database.URL = tc.endpoint
		printed := fmt.Sprintf("%v %+v %#v %s %q", c, c, c, tc.endpoint, tc.endpoint) + log.String()
		if strings.Contains(printed, "hunter2") {
			t.Errorf("a secret is printed: %s", printed)
		}
		if tc.endpoint.Reveal() != string(tc.endpoint) {
			t.Error("Reveal changes the address")
		}
	}
}

func FuzzLoad(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(full), "TOOLBUS_TENANTS={a: {}}")
	f.Add("lease: {seconds: .inf}", "")
	f.Add("a: &a [*a]", "TOOLBUS_TOOLS_DISABLED=[")
	f.Fuzz(func(t *testing.T, file, variable string) {
		c, err := config.Parse([]byte(file), []string{variable})
		if err != nil {
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("a loaded configuration is not valid: %v", err)
		}
		if c.Lease.Seconds.Duration() <= 0 {
			t.Errorf("a lease of %s was accepted", c.Lease.Seconds.Duration())
		}
	})
}
