package outcome

// The reason codes of the policy matrix, one per row. An approver's denial
// carries the code of the row that required the approval.
const (
	CodeMatrixControl                 = "policy.matrix.control"
	CodeMatrixCritical                = "policy.matrix.critical"
	CodeMatrixNoEffect                = "policy.matrix.no_effect"
	CodeMatrixWorkspaceRead           = "policy.matrix.workspace_read"
	CodeMatrixWorkspaceWrite          = "policy.matrix.workspace_write"
	CodeMatrixWorkspaceWriteUntrusted = "policy.matrix.workspace_write_untrusted"
	CodeMatrixNetworkRead             = "policy.matrix.network_read"
	CodeMatrixExternalRead            = "policy.matrix.external_read"
	CodeMatrixRiskyRead               = "policy.matrix.risky_read"
	CodeMatrixSandboxedCode           = "policy.matrix.sandboxed_code"
	CodeMatrixCode                    = "policy.matrix.code"
	CodeMatrixPlatformWriteUntrusted  = "policy.matrix.platform_write_untrusted"
	CodeMatrixPlatformWrite           = "policy.matrix.platform_write"
	CodeMatrixExternalWrite           = "policy.matrix.external_write"
	CodeMatrixUnattended              = "policy.matrix.unattended"
	CodeMatrixUnknownTool             = "policy.matrix.unknown_tool"
)

// The reason codes of policy beyond the matrix.
const (
	CodeRuleDenied      = "policy.rule.denied"
	CodeScopeMissing    = "policy.scope.missing"
	CodeAgentDisabled   = "policy.agent.disabled"
	CodeApprovalExpired = "policy.approval.expired"
	// CodeAuthorityRevoked says that authority was lost before any effect.
	CodeAuthorityRevoked = "policy.authority.revoked"
	// CodeAuthorityRevokedAfterEffect says that authority was lost while an
	// earlier attempt already carried its effect watermark.
	CodeAuthorityRevokedAfterEffect = "policy.authority.revoked_after_effect"
)

// The reason codes a tool's own failure may carry, with or without a detail
// appended (tool.{kind}.{detail}).
const (
	// CodeInvalidArguments is said by a tool; [CodeArgumentsInvalid] by the validator.
	CodeInvalidArguments = "tool.invalid_arguments"
	CodeNotFound         = "tool.not_found"
	CodePermission       = "tool.permission"
	CodeTimeout          = "tool.timeout"
	CodeOutputTooLarge   = "tool.output_too_large"
	CodeOutputInvalid    = "tool.output_invalid"
	CodeUpstreamError    = "tool.upstream_error"
	CodeTransport        = "tool.transport"
	CodeInternal         = "tool.internal"
)

// The reason codes only the pipeline concludes.
const (
	CodeArgumentsInvalid = "tool.arguments_invalid"
	// CodeNotOffered is the answer to a tool.call that names what the run does
	// not offer.
	CodeNotOffered        = "tool.not_found.not_offered"
	CodeRunCancelled      = "tool.run_cancelled"
	CodeNotStarted        = "tool.not_started"
	CodeBudgetExhausted   = "tool.budget_exhausted"
	CodeLoopDetected      = "tool.loop_detected"
	CodeServerUnreachable = "tool.server_unreachable"
	// CodeServerUnauthorized says that the re-authentication ladder was used up.
	CodeServerUnauthorized = "tool.server_unauthorized"
	CodeWithdrawn          = "tool.withdrawn"
	CodeDeviceOffline      = "tool.device_offline"
	CodeOutcomeUnknown     = "tool.outcome_unknown"
	// CodeUncertainRepeat denies the repetition of a call whose outcome is unknown.
	CodeUncertainRepeat = "tool.uncertain_repeat"
)

// The reason codes of servers: why a connection to one did not come about.
const (
	CodeAuthFailed            = "tool.auth_failed"
	CodeAuthUnsupported       = "tool.auth_unsupported"
	CodeCapabilityUnsupported = "tool.capability_unsupported"
)

// requiredCodes lists what the table must contain: every constant above.
func requiredCodes() []string {
	return []string{
		CodeMatrixControl, CodeMatrixCritical, CodeMatrixNoEffect, CodeMatrixWorkspaceRead,
		CodeMatrixWorkspaceWrite, CodeMatrixWorkspaceWriteUntrusted, CodeMatrixNetworkRead,
		CodeMatrixExternalRead, CodeMatrixRiskyRead, CodeMatrixSandboxedCode, CodeMatrixCode,
		CodeMatrixPlatformWriteUntrusted, CodeMatrixPlatformWrite, CodeMatrixExternalWrite,
		CodeMatrixUnattended, CodeMatrixUnknownTool,
		CodeRuleDenied, CodeScopeMissing, CodeAgentDisabled, CodeApprovalExpired,
		CodeAuthorityRevoked, CodeAuthorityRevokedAfterEffect,
		CodeInvalidArguments, CodeNotFound, CodePermission, CodeTimeout, CodeOutputTooLarge,
		CodeOutputInvalid, CodeUpstreamError, CodeTransport, CodeInternal,
		CodeArgumentsInvalid, CodeNotOffered, CodeRunCancelled, CodeNotStarted,
		CodeBudgetExhausted, CodeLoopDetected, CodeServerUnreachable, CodeServerUnauthorized,
		CodeWithdrawn, CodeDeviceOffline, CodeOutcomeUnknown, CodeUncertainRepeat,
		CodeAuthFailed, CodeAuthUnsupported, CodeCapabilityUnsupported,
	}
}
