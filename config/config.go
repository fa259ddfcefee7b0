package config

// Config is the whole configuration. The YAML tags name the keys; the check
// tags hold the rules (see rules.go).
type Config struct {
	Database    Database          `yaml:"database"`
	NATS        NATS              `yaml:"nats"`
	HTTP        HTTP              `yaml:"http"`
	Log         Log               `yaml:"log"`
	Trace       Trace             `yaml:"trace"`
	Output      Output            `yaml:"output"`
	Batch       Batch             `yaml:"batch"`
	Lease       Lease             `yaml:"lease"`
	Run         Run               `yaml:"run"`
	Gatekeeper  Gatekeeper        `yaml:"gatekeeper"`
	Executor    Executor          `yaml:"executor"`
	Recovery    Recovery          `yaml:"recovery"`
	Dispatch    Dispatch          `yaml:"dispatch"`
	Outbox      Outbox            `yaml:"outbox"`
	Retention   Retention         `yaml:"retention"`
	Approval    Approval          `yaml:"approval"`
	MCP         MCP               `yaml:"mcp"`
	Bridge      Bridge            `yaml:"bridge"`
	Tools       Tools             `yaml:"tools"`
	Workspace   Workspace         `yaml:"workspace"`
	Sandbox     Sandbox           `yaml:"sandbox"`
	Egress      Egress            `yaml:"egress"`
	Policy      Policy            `yaml:"policy"`
	Tenants     map[string]Tenant `yaml:"tenants" check:"keys=token"`
	Credentials map[string]string `yaml:"credentials"`
	Servers     []Server          `yaml:"servers"`
}

// Database says where PostgreSQL is.
type Database struct {
	// Address of the database, for a user that is a member of the roles `toolbus_service` and `toolbus_sweeper`. Empty: `toolbus dev` runs a server of its own.
	URL Endpoint `yaml:"url"`
	// Address for the owner of the schema, used by `toolbus migrate` only. Empty: `database.url`.
	OwnerURL Endpoint `yaml:"owner_url"`
	// Connections for reading, per service; each lane of writes has one of its own beside them.
	Connections int `yaml:"connections" check:"min=1,max=1000"`
}

// NATS says where the message bus is.
type NATS struct {
	// Address of the server or cluster, comma separated. Empty: `toolbus dev` runs a server of its own.
	URL Endpoint `yaml:"url"`
	// File with the user's credentials (JWT and seed). Empty: those in the address.
	CredentialsFile string `yaml:"credentials_file"`
	// Copies of each stream: 3 in a cluster of three.
	Replicas int `yaml:"replicas" check:"oneof=1|3|5"`
}

// HTTP is what the telemetry service offers to people and scrapers.
type HTTP struct {
	// Address to listen on, `host:port`.
	Address string `yaml:"address" check:"hostport"`
	// Who may use the API and the console; without tokens only health and metrics are served.
	Tokens []Token `yaml:"tokens"`
}

// Token admits a person or a program to the HTTP API.
type Token struct {
	// Name that is recorded as the actor.
	Name string `yaml:"name" check:"token"`
	// Reference to the token's value.
	CredentialRef string `yaml:"credential_ref" check:"required"`
	// What the bearer may do.
	Role string `yaml:"role" check:"oneof=viewer|approver|admin"`
	// Tenants whose calls the bearer sees; `*` stands for all.
	Tenants []string `yaml:"tenants" check:"required"`
}

// Log is about the process's own log.
type Log struct {
	// Least level that is written.
	Level string `yaml:"level" check:"oneof=debug|info|warn|error"`
	// Form of a line.
	Format string `yaml:"format" check:"oneof=text|json"`
}

// Trace is about spans.
type Trace struct {
	// OTLP/HTTP collector that receives spans. Empty: none are sent.
	Endpoint string `yaml:"endpoint"`
}

// Output bounds what a tool may return.
type Output struct {
	// Size of a result that goes to the model as it is; a larger one becomes an artifact and an excerpt.
	InlineMaximumBytes int `yaml:"inline_maximum_bytes" check:"min=1024"`
	// Global ceiling; a tool that declares more is refused at start.
	MaximumBytes int `yaml:"maximum_bytes" check:"min=1024"`
}

// Batch is about the calls of one model step.
type Batch struct {
	// Calls of a parallel batch that run at a time.
	Concurrency int `yaml:"concurrency" check:"min=1,max=128"`
}

// Lease is about the claim of a worker on a running call.
type Lease struct {
	// How long a claim lasts without a heartbeat; fractions are for tests.
	Seconds Seconds `yaml:"seconds" check:"min=0.1,max=3600"`
}

// Run is about a whole run of an agent.
type Run struct {
	// Deadline of a run whose session names none.
	DeadlineSeconds Seconds `yaml:"deadline_seconds" check:"positive"`
}

// Gatekeeper is about the service that admits calls.
type Gatekeeper struct {
	// Proposals and commands handled at a time.
	Concurrency int `yaml:"concurrency" check:"min=1"`
}

// Executor is about the service that runs calls.
type Executor struct {
	// Calls that run at a time.
	Slots int `yaml:"slots" check:"min=1"`
	// Part of the slots that one tenant may hold while others wait.
	TenantShare float64 `yaml:"tenant_share" check:"positive,max=1"`
}

// Recovery is about the sweeps.
type Recovery struct {
	// Attempts after which an expired call is given up.
	MaximumAttempts int `yaml:"maximum_attempts" check:"min=1"`
	// Time between two sweeps; fractions are for tests.
	SweepSeconds Seconds `yaml:"sweep_seconds" check:"min=0.01,max=3600"`
}

// Dispatch is about authorized calls that nobody has claimed.
type Dispatch struct {
	// Age at which such a call is announced again.
	RetrySeconds Seconds `yaml:"retry_seconds" check:"min=0.01"`
}

// Outbox is about messages that were committed and not published.
type Outbox struct {
	// Age at which the relay takes a message over from the service that committed it.
	TakeoverSeconds Seconds `yaml:"takeover_seconds" check:"min=0.01"`
}

// Retention is about what is thrown away.
type Retention struct {
	// Age of messages in the outcome and event streams. A change takes effect with
	// `toolbus migrate`.
	StreamSeconds Seconds `yaml:"stream_seconds" check:"min=300"`
	// Age at which an artifact that no call names is removed. Without effect in
	// this release, which removes none.
	OrphanArtifactSeconds Seconds `yaml:"orphan_artifact_seconds" check:"positive"`
}

// Approval is about calls that wait for a person.
type Approval struct {
	// How long a call waits before it is denied.
	ExpirySeconds Seconds `yaml:"expiry_seconds" check:"positive"`
}

// MCP is about connections to MCP servers. Checked, and without effect as long
// as this release has no MCP gateway.
type MCP struct {
	// Bound on connecting and initializing.
	ConnectTimeoutSeconds Seconds `yaml:"connect_timeout_seconds" check:"positive"`
	// Bound on a request other than a tool call.
	RequestTimeoutSeconds Seconds `yaml:"request_timeout_seconds" check:"positive"`
	// An unused connection is closed after this long.
	IdleTimeoutSeconds Seconds `yaml:"idle_timeout_seconds" check:"positive"`
	// How long a live discovery of a tenant's HTTP server may be pinned again.
	DiscoveryReuseSeconds Seconds `yaml:"discovery_reuse_seconds" check:"min=0"`
	// Bound on connecting while warming up.
	WarmupConnectTimeoutSeconds Seconds `yaml:"warmup_connect_timeout_seconds" check:"positive"`
	// Time between two rounds of warming up.
	WarmupRetrySeconds Seconds `yaml:"warmup_retry_seconds" check:"positive"`
	// Rounds of warming up.
	WarmupAttempts int `yaml:"warmup_attempts" check:"min=0"`
}

// Bridge is about tool calls made by code in a sandbox. Checked, and without
// effect as long as this release has no bridge.
type Bridge struct {
	// How long the sandbox is held while a bridged call waits for approval.
	ApprovalHoldSeconds Seconds `yaml:"approval_hold_seconds" check:"min=0"`
	// Bridged calls that one run of code may make.
	CallsPerTurn int `yaml:"calls_per_turn" check:"min=0"`
}

// Tools is about the builtin tools.
type Tools struct {
	// Tools that are not offered to anyone; a pattern may end in `.*`.
	Disabled []string `yaml:"disabled" check:"pattern"`
}

// Workspace is about the files of a run.
type Workspace struct {
	// Directory that holds the workspaces. Empty: below the data directory of `toolbus dev`.
	Directory string `yaml:"directory" check:"absolute"`
}

// Sandbox is about code that a model wrote.
type Sandbox struct {
	// Runs code without confinement where the system offers none. Never in production.
	AllowUnconfined bool `yaml:"allow_unconfined"`
	// Bound on one command.
	TimeoutSeconds Seconds `yaml:"timeout_seconds" check:"positive"`
	// Processor time of one command.
	CPUSeconds Seconds `yaml:"cpu_seconds" check:"positive"`
	// Memory of one process.
	MemoryBytes int64 `yaml:"memory_bytes" check:"min=16777216"`
	// Largest file a command may write.
	FileBytes int64 `yaml:"file_bytes" check:"min=4096"`
	// Processes a command may have at a time. The kernel does not bind root by it:
	// run the executor as another user.
	Processes int `yaml:"processes" check:"min=1"`
}

// Egress is about connections to the outside.
type Egress struct {
	// Hosts that may be dialled, `host[:port]`; `*.example.com` covers subdomains. A private, loopback, link-local or metadata address is refused unless listed.
	Allow []string `yaml:"allow" check:"egress"`
}

// Policy is about who may do what.
type Policy struct {
	// Profile of sessions that name none; `default` is the one that is shipped.
	DefaultProfile string `yaml:"default_profile" check:"token"`
	// Further profiles: name and file.
	Profiles map[string]string `yaml:"profiles" check:"keys=token"`
	// Standing authorizations, which turn a required approval into leave.
	Standing []Standing `yaml:"standing"`
}

// Standing is one standing authorization.
type Standing struct {
	// Name by which it is recorded and revoked.
	Name string `yaml:"name" check:"token"`
	// Tenant it is given in.
	Tenant string `yaml:"tenant" check:"token"`
	// Principal it is given to.
	Principal string `yaml:"principal" check:"token"`
	// Tool it is for, or `mcp.<server>.*`.
	Tool string `yaml:"tool" check:"required,pattern"`
	// CEL over the arguments. Empty: whatever they are.
	Condition string `yaml:"condition"`
	// When it ends, RFC 3339.
	ExpiresAt string `yaml:"expires_at" check:"required,time"`
}

// Tenant holds what differs from the rest for one tenant.
type Tenant struct {
	// Highest trust that a proposal may claim. Empty: `user`.
	MaximumTrust string `yaml:"maximum_trust" check:"oneof=|external_untrusted|internal_tool|user|trusted_configuration"`
	// Policy profile of the tenant's sessions that name none. Empty: `policy.default_profile`.
	Profile string `yaml:"profile"`
	// In place of `bridge.approval_hold_seconds`. Absent: that.
	BridgeApprovalHoldSeconds *Seconds `yaml:"bridge_approval_hold_seconds" check:"min=0"`
}

// Server is an MCP server that the operator provides to tenants. Checked, and
// without effect as long as this release has no MCP gateway.
type Server struct {
	// Name that appears in tool names.
	ServerID string `yaml:"server_id" check:"server"`
	// Tenants that have it.
	Tenants []string `yaml:"tenants" check:"required,token"`
	// How it is reached.
	Transport string `yaml:"transport" check:"oneof=stdio|http"`
	// Address of an HTTP server.
	URL string `yaml:"url"`
	// Command line of a stdio server; it begins with an absolute path.
	Command []string `yaml:"command"`
	// How it authenticates us. Empty: `none`.
	AuthScheme string `yaml:"auth_scheme" check:"oneof=|none|bearer|header|oauth2_client|env"`
	// Header or variable that carries the credential.
	AuthName string `yaml:"auth_name"`
	// Reference to the credential.
	CredentialRef string `yaml:"credential_ref"`
	// Token endpoint of `oauth2_client`.
	TokenEndpoint string `yaml:"token_endpoint"`
	// Scopes to ask for at the token endpoint.
	TokenScopes []string `yaml:"token_scopes"`
	// Side effect of its tools. Empty: `external_write`.
	SideEffect string `yaml:"side_effect" check:"oneof=|none|workspace_read|workspace_write|network_read|external_read|external_write|code_execution|platform_write"`
	// Risk of its tools. Empty: `high`.
	Risk string `yaml:"risk" check:"oneof=|low|medium|high|critical"`
	// Idempotency of its tools. Empty: `non_idempotent`.
	Idempotency string `yaml:"idempotency" check:"oneof=|read_only|idempotent|conditionally_idempotent|non_idempotent"`
	// Scopes that a principal needs.
	RequiredScopes []string `yaml:"required_scopes"`
	// Bound on one call. 0: `mcp.request_timeout_seconds`.
	TimeoutSeconds Seconds `yaml:"timeout_seconds" check:"min=0"`
	// Largest result. 0: `output.maximum_bytes`.
	MaximumOutputBytes int `yaml:"maximum_output_bytes" check:"min=0"`
	// Not connected while true.
	Disabled bool `yaml:"disabled"`
}
