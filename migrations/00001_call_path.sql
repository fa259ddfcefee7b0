-- +goose Up
-- The data of the call path. Conventions: tenant_id leads every key, so that
-- row-level security and sharding by tenant cost nothing later; times are
-- timestamptz by the database clock; enumerations are text with a CHECK.

CREATE TABLE pins (
    tenant_id          text        NOT NULL,
    sha256             text        NOT NULL,          -- over the full specs
    tool_schema_sha256 text        NOT NULL,          -- over the advertised list
    specs              bytea       NOT NULL,          -- JSON, immutable
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, sha256)
);

CREATE TABLE sessions (
    tenant_id            text        NOT NULL,
    id                   uuid        NOT NULL,
    request_id           text        NOT NULL,
    principal            text        NOT NULL,
    interactive          boolean     NOT NULL,
    scopes               text[]      NOT NULL,
    agent_id             text        NOT NULL,
    agent_tools          text[]      NOT NULL,
    profile              text        NOT NULL,
    pin_sha256           text        NOT NULL,
    run_deadline_seconds integer     NOT NULL CHECK (run_deadline_seconds > 0),
    max_tool_calls       integer     NULL CHECK (max_tool_calls > 0),
    opened_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at            timestamptz NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, request_id),
    FOREIGN KEY (tenant_id, pin_sha256) REFERENCES pins
);

CREATE TABLE runs (
    tenant_id   text        NOT NULL,
    id          uuid        NOT NULL,
    session_id  uuid        NOT NULL,
    status      text        NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'failed', 'cancelled', 'ended')),
    error       text        NULL,                     -- tool_policy_denied | tool_loop_detected
    reason      text        NULL,                     -- given by who cancelled
    deadline_at timestamptz NOT NULL,
    calls_used  integer     NOT NULL DEFAULT 0,
    restarts    integer     NOT NULL DEFAULT 0,       -- evidence restarts, capped over the whole run
    hot_step    integer     NULL,                     -- the step that left a count one below its threshold
    opened_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz NULL,
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 70);

CREATE TABLE call_counters (
    tenant_id                 text    NOT NULL,
    run_id                    uuid    NOT NULL,
    normalized_arguments_hash text    NOT NULL,
    tool_name                 text    NOT NULL,
    outcome_status            text    NOT NULL,       -- '' counts identical calls before dispatch
    reason_code               text    NOT NULL,
    count                     integer NOT NULL,
    step_number               integer NOT NULL,       -- the step that counted last
    evidence                  text    NULL,
    PRIMARY KEY (tenant_id, run_id, normalized_arguments_hash, tool_name, outcome_status, reason_code)
);

CREATE TABLE tool_invocations (
    tenant_id                 text        NOT NULL,
    id                        uuid        NOT NULL,
    session_id                uuid        NOT NULL,
    run_id                    uuid        NOT NULL,
    step_number               integer     NOT NULL,
    call_id                   text        NOT NULL,
    tool_name                 text        NOT NULL,
    tool_version              text        NOT NULL,
    tool_source               text        NOT NULL DEFAULT 'builtin' CHECK (tool_source IN ('builtin', 'mcp', 'device', 'sandbox')),
    server_id                 text        NULL,
    target_kind               text        NOT NULL,
    side_effect               text        NOT NULL,
    idempotency_class         text        NOT NULL CHECK (idempotency_class IN ('read_only', 'idempotent', 'conditionally_idempotent', 'non_idempotent')),
    canonical_arguments       bytea       NOT NULL,   -- what was hashed, approved and sent; immutable
    normalized_arguments_hash text        NOT NULL,
    idempotency_key           text        NOT NULL,
    argument_trust            jsonb       NOT NULL,
    origin_trust              text        NOT NULL,
    policy_version            text        NULL,
    matrix_row                text        NULL,
    authority                 text        NULL CHECK (authority IN ('policy', 'approval', 'standing')),
    authority_id              uuid        NULL,
    proposal_n                integer     NOT NULL,
    parallel_group            uuid        NULL,
    batch_position            integer     NULL,
    batch_parallel            boolean     NOT NULL DEFAULT false,
    status                    text        NOT NULL CHECK (status IN ('proposed', 'waiting_for_approval', 'authorized', 'running', 'succeeded', 'failed', 'denied', 'uncertain')),
    attempt_number            integer     NOT NULL DEFAULT 1,
    claim_id                  uuid        NULL,
    event_seq                 integer     NOT NULL,
    hinted_at                 timestamptz NULL,
    deadline_at               timestamptz NOT NULL,
    effect_sent_at            timestamptz NULL,
    suspended_kind            text        NULL CHECK (suspended_kind IN ('user_input', 'child_run')),
    suspended_ref             text        NULL,
    outcome_status            text        NULL,
    reason_code               text        NULL,
    output_bytes              bigint      NULL,
    truncated                 boolean     NOT NULL DEFAULT false,
    artifact_id               uuid        NULL,
    artifact                  jsonb       NULL,       -- the reference as the outcome carries it
    item                      bytea       NULL,       -- the rendered item, nonces included
    result                    jsonb       NULL,       -- canonical content
    error                     jsonb       NULL,       -- for operators
    run_error                 text        NULL,
    synthesis_only            boolean     NOT NULL DEFAULT false,
    traceparent               text        NULL,
    created_at                timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at                timestamptz NULL,
    completed_at              timestamptz NULL,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT one_key_per_tenant UNIQUE (tenant_id, idempotency_key),
    CONSTRAINT terminal_is_complete CHECK (
        (status IN ('succeeded', 'failed', 'denied', 'uncertain')) = (completed_at IS NOT NULL)
        AND (completed_at IS NOT NULL) = (outcome_status IS NOT NULL)
        AND (completed_at IS NOT NULL) = (item IS NOT NULL)),
    CONSTRAINT outcome_matches_status CHECK (
        outcome_status IS NULL OR outcome_status = status OR (outcome_status = 'unavailable' AND status = 'failed')),
    CONSTRAINT uncertain_has_watermark CHECK (status <> 'uncertain' OR effect_sent_at IS NOT NULL),
    CONSTRAINT running_was_claimed CHECK (status <> 'running' OR (claim_id IS NOT NULL AND started_at IS NOT NULL)),
    CONSTRAINT suspended_is_running CHECK (suspended_kind IS NULL OR status = 'running'),
    CONSTRAINT batch_has_position CHECK ((parallel_group IS NULL) = (batch_position IS NULL))
) WITH (fillfactor = 50);

-- No index names status, attempt or lease: claim and watermark stay HOT updates.
CREATE UNIQUE INDEX one_call_per_step ON tool_invocations (tenant_id, run_id, step_number, call_id)
    WHERE call_id NOT LIKE 'bridge:%';
CREATE INDEX bridge_calls ON tool_invocations (tenant_id, run_id, step_number)
    WHERE call_id LIKE 'bridge:%';
CREATE INDEX batches ON tool_invocations (tenant_id, parallel_group)
    WHERE parallel_group IS NOT NULL;
CREATE INDEX open_calls ON tool_invocations (created_at)
    WHERE completed_at IS NULL;

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was proposed is immutable' USING ERRCODE = 'integrity_constraint_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER arguments_are_immutable
    BEFORE UPDATE OF canonical_arguments, normalized_arguments_hash, idempotency_key, idempotency_class, tool_name, tool_version
    ON tool_invocations FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- arguments for people and for ad hoc SQL; the hashed bytes are the record.
-- +goose StatementBegin
CREATE FUNCTION arguments_json(form bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN convert_from(form, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE VIEW invocations WITH (security_invoker = true) AS
    SELECT t.*, arguments_json(t.canonical_arguments) AS arguments FROM tool_invocations t;

-- Leases are heartbeaten: narrow, apart, and without an index on until.
CREATE TABLE invocation_leases (
    tenant_id     text        NOT NULL,
    invocation_id uuid        NOT NULL,
    attempt       integer     NOT NULL,
    claim_id      uuid        NOT NULL,
    owner         text        NOT NULL,
    until         timestamptz NOT NULL,
    hinted_at     timestamptz NULL,
    PRIMARY KEY (tenant_id, invocation_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

-- The history an auditor reads: what an event carries beyond this comes from
-- the invocation row, whose other columns do not change.
CREATE TABLE events (
    tenant_id      text        NOT NULL,
    invocation_id  uuid        NOT NULL,
    seq            integer     NOT NULL,
    event          text        NOT NULL,
    occurred_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempt        integer     NOT NULL,
    effect_sent    boolean     NOT NULL,
    outcome_status text        NULL,
    reason_code    text        NULL,
    PRIMARY KEY (tenant_id, invocation_id, seq)
);

-- Events of no call: runs, commands, servers. id is their derivation key.
CREATE TABLE other_events (
    tenant_id   text        NOT NULL,
    id          uuid        NOT NULL,
    event       text        NOT NULL,
    run_id      uuid        NULL,
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    data        jsonb       NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

-- One row per flush and tenant names what is still to be published.
CREATE TABLE outbox (
    tenant_id   text        NOT NULL,
    id          uuid        NOT NULL,
    refs        uuid[]      NOT NULL,
    kinds       smallint[]  NOT NULL,                 -- 1 event, 2 outcome, 3 pending notice, 4 hint, 5 other event
    seqs        integer[]   NOT NULL,                 -- event seq or n of the proposal
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken_until timestamptz NULL,
    tries       integer     NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE approvals (
    tenant_id                 text        NOT NULL,
    id                        uuid        NOT NULL,
    invocation_id             uuid        NOT NULL,
    tool_name                 text        NOT NULL,
    tool_version              text        NOT NULL,
    normalized_arguments_hash text        NOT NULL,
    policy_version            text        NOT NULL,
    matrix_row                text        NOT NULL,
    requested_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at                timestamptz NOT NULL,
    decision                  text        NULL CHECK (decision IN ('approved', 'denied', 'expired', 'withdrawn')),
    decided_at                timestamptz NULL,
    decided_by                text        NULL,
    comment                   text        NULL,
    used_at                   timestamptz NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, invocation_id),
    CHECK ((decision IS NULL) = (decided_at IS NULL)),
    CHECK (used_at IS NULL OR decision = 'approved')
);
CREATE INDEX open_approvals ON approvals (expires_at) WHERE decision IS NULL;

CREATE TABLE standing_authorizations (
    tenant_id  text        NOT NULL,
    id         uuid        NOT NULL,
    principal  text        NOT NULL,
    tool       text        NOT NULL,                  -- a name, or mcp.<server>.*
    condition  text        NOT NULL DEFAULT 'true',   -- CEL
    created_by text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX standing_by_principal ON standing_authorizations (tenant_id, principal);

CREATE TABLE revocations (
    tenant_id  text        NOT NULL,
    principal  text        NOT NULL,
    scope      text        NOT NULL,                  -- '*' takes everything
    revoked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_by text        NOT NULL,
    PRIMARY KEY (tenant_id, principal, scope)
);

CREATE TABLE commands (
    tenant_id  text        NOT NULL,
    command_id text        NOT NULL,
    kind       text        NOT NULL,
    actor      text        NOT NULL,
    result     text        NOT NULL CHECK (result IN ('applied', 'refused')),
    code       text        NULL,
    event_id   uuid        NOT NULL,                  -- other_events: command.settled
    settled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, command_id)
);

CREATE TABLE suspensions (
    tenant_id     text        NOT NULL,
    invocation_id uuid        NOT NULL,
    kind          text        NOT NULL CHECK (kind IN ('user_input', 'child_run')),
    ref           text        NOT NULL,
    answer        jsonb       NULL,
    asked_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    answered_at   timestamptz NULL,
    PRIMARY KEY (tenant_id, invocation_id)
);

CREATE TABLE reviews (
    tenant_id     text        NOT NULL,
    invocation_id uuid        NOT NULL,
    verdict       text        NOT NULL CHECK (verdict IN ('happened', 'did_not_happen', 'unknown')),
    reviewed_by   text        NOT NULL,
    comment       text        NULL,
    reviewed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, invocation_id)
);

CREATE TABLE late_results (
    tenant_id     text        NOT NULL,
    invocation_id uuid        NOT NULL,
    attempt       integer     NOT NULL,
    arrived_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome_status text       NOT NULL,
    reason_code   text        NULL,
    result        jsonb       NULL,
    error         jsonb       NULL,
    PRIMARY KEY (tenant_id, invocation_id, attempt)
);

CREATE TABLE artifacts (
    tenant_id     text        NOT NULL,
    id            uuid        NOT NULL,
    session_id    uuid        NOT NULL,
    run_id        uuid        NOT NULL,
    invocation_id uuid        NOT NULL,
    attempt       integer     NOT NULL,
    media_type    text        NOT NULL,
    trust         text        NOT NULL,
    bytes         bigint      NOT NULL,
    sha256        text        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX artifacts_by_invocation ON artifacts (tenant_id, invocation_id);

CREATE TABLE artifact_chunks (
    tenant_id   text    NOT NULL,
    artifact_id uuid    NOT NULL,
    chunk       integer NOT NULL,                     -- 256 KiB each, the last one less
    data        bytea   NOT NULL,
    PRIMARY KEY (tenant_id, artifact_id, chunk)
);

CREATE TABLE dead_letters (
    tenant_id   text        NOT NULL,                 -- '-' when the subject names none
    id          uuid        NOT NULL,
    kind        text        NOT NULL,                 -- proposal | command | hint | publication | operation
    subject     text        NOT NULL,
    reason      text        NOT NULL,
    payload     bytea       NOT NULL,                 -- at most 1 MiB
    deliveries  integer     NOT NULL,
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id)
);

CREATE TABLE devices (
    tenant_id   text        NOT NULL,
    device_id   text        NOT NULL,
    specs       bytea       NOT NULL,                 -- JSON, forced to untrusted
    attached_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    detached_at timestamptz NULL,
    PRIMARY KEY (tenant_id, device_id)
);

-- +goose StatementBegin
DO $$
DECLARE
    t text;
BEGIN
    -- The setting is read once per statement (an InitPlan), not once per row. IS TRUE
    -- keeps the planner from looking rows up by their tenant alone.
    FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema()
        AND tablename IN (SELECT table_name FROM information_schema.columns
                          WHERE table_schema = current_schema() AND column_name = 'tenant_id')
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format($p$CREATE POLICY tenants ON %I TO toolbus_service
            USING ((tenant_id = ANY ((SELECT string_to_array(current_setting('toolbus.tenants', true), ','))::text[])) IS TRUE)$p$, t);
        EXECUTE format('CREATE POLICY sweeper ON %I TO toolbus_sweeper USING (true)', t);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO toolbus_service', t);
        EXECUTE format('GRANT SELECT ON %I TO toolbus_sweeper', t);
    END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT ON invocations TO toolbus_service, toolbus_sweeper;
GRANT UPDATE ON sessions, runs, call_counters, tool_invocations, approvals,
    standing_authorizations, suspensions, devices, invocation_leases TO toolbus_service;
GRANT UPDATE (taken_until, tries) ON outbox TO toolbus_service, toolbus_sweeper;
GRANT DELETE ON invocation_leases, outbox TO toolbus_service;
GRANT DELETE ON outbox TO toolbus_sweeper;
GRANT UPDATE (hinted_at) ON tool_invocations, invocation_leases TO toolbus_sweeper;

-- +goose Down
DROP VIEW invocations;
DROP TABLE pins, sessions, runs, call_counters, tool_invocations, invocation_leases, events,
    other_events, outbox, approvals, standing_authorizations, revocations, commands, suspensions,
    reviews, late_results, artifacts, artifact_chunks, dead_letters, devices CASCADE;
DROP FUNCTION arguments_json(bytea);
DROP FUNCTION refuse_change();
