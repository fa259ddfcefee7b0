package config

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour

	kib = 1 << 10
	mib = 1 << 20
)

// Default returns the configuration of an empty file.
func Default() Config {
	return Config{
		Database:   Database{Connections: 4},
		NATS:       NATS{Replicas: 1},
		HTTP:       HTTP{Address: "127.0.0.1:8080"},
		Log:        Log{Level: "info", Format: "text"},
		Output:     Output{InlineMaximumBytes: 4 * kib, MaximumBytes: mib},
		Batch:      Batch{Concurrency: 8},
		Lease:      Lease{Seconds: 30},
		Run:        Run{DeadlineSeconds: day},
		Gatekeeper: Gatekeeper{Concurrency: 512},
		Executor:   Executor{Slots: 64, TenantShare: 0.5},
		Recovery:   Recovery{MaximumAttempts: 5, SweepSeconds: 1},
		Dispatch:   Dispatch{RetrySeconds: 10},
		Outbox:     Outbox{TakeoverSeconds: 2},
		Retention:  Retention{StreamSeconds: 7 * day, OrphanArtifactSeconds: day},
		Approval:   Approval{ExpirySeconds: hour},
		MCP: MCP{
			ConnectTimeoutSeconds: 10, RequestTimeoutSeconds: 30,
			IdleTimeoutSeconds: 15 * minute, DiscoveryReuseSeconds: 5 * minute,
			WarmupConnectTimeoutSeconds: minute, WarmupRetrySeconds: 30, WarmupAttempts: 5,
		},
		Bridge: Bridge{ApprovalHoldSeconds: 5 * minute, CallsPerTurn: 64},
		Sandbox: Sandbox{
			TimeoutSeconds: minute, CPUSeconds: minute,
			MemoryBytes: 512 * mib, FileBytes: 64 * mib, Processes: 64,
		},
		Policy: Policy{DefaultProfile: "default"},
	}
}
