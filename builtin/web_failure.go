package builtin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/toolbus/toolbus/internal/egress"
	"github.com/toolbus/toolbus/tool"
)

// maximumExternalText bounds what is kept of a foreign error page.
const maximumExternalText = 4096

// requestFailure classifies why a request got no response. The error's own text is
// never used: it may quote what the other side sent, or who it claims to be.
func requestFailure(err error) tool.Result {
	if refused, ok := errors.AsType[*egress.RefusedError](err); ok {
		return refusal(refused)
	}
	if unresolved, ok := errors.AsType[*egress.ResolveError](err); ok {
		if unresolved.NotFound {
			return fail(tool.FailNotFound, "host", "the host does not exist")
		}
		return retryable(fail(tool.FailTransport, "dns", "the host could not be resolved"))
	}
	var timeout net.Error
	switch {
	case isTLS(err):
		return fail(tool.FailTransport, "tls", "no secure connection could be made: the server's certificate or protocol is not acceptable")
	case errors.As(err, &timeout) && timeout.Timeout():
		return retryable(fail(tool.FailTransport, "timeout", "the server did not answer in time"))
	case isConnect(err):
		return retryable(fail(tool.FailTransport, "connect", "no connection could be made"))
	}
	return retryable(fail(tool.FailTransport, "protocol", "the connection broke or the answer was no HTTP"))
}

// refusal tells the model why a destination is out of reach, in fixed words.
func refusal(r *egress.RefusedError) tool.Result {
	switch r.Reason {
	case egress.BadURL, egress.BadHost:
		return fail(tool.FailInvalidArguments, "url", "the URL is malformed, carries credentials, or names its host in an unusual notation")
	case egress.TooManyRedirects:
		return fail(tool.FailUpstreamError, "too_many_redirects", "the server redirects too often")
	case egress.BadScheme:
		return fail(tool.FailPermission, "scheme", "the scheme is not permitted for this host; try https")
	case egress.NotListed, egress.AddressRefused:
	}
	return fail(tool.FailPermission, "egress", "this deployment does not permit requests to that destination")
}

func brokenBody() tool.Result {
	return retryable(fail(tool.FailTransport, "body", "the connection broke while the content was being read"))
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

func isConnect(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// statusFailure classifies a response that is an error. said is its body, already
// bounded.
func statusFailure(status int, said string) tool.Result {
	words := fmt.Sprintf("the server answered with status %d", status)
	var r tool.Result
	switch {
	case status == http.StatusNotFound || status == http.StatusGone:
		r = fail(tool.FailNotFound, "http", words)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired,
		status == http.StatusUnavailableForLegalReasons:
		r = fail(tool.FailPermission, "http", words)
	case status == http.StatusTooManyRequests:
		r = retryable(fail(tool.FailUpstreamError, "rate_limited", words))
	case status >= 500 || status == http.StatusRequestTimeout:
		r = retryable(fail(tool.FailUpstreamError, "http", words))
	default:
		r = fail(tool.FailUpstreamError, "http", words)
	}
	r.Failure.ExternalText = strings.ToValidUTF8(said, "�")
	return r
}

// interrupted gives the error of an ended context, if it has ended.
func interrupted(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	return nil
}
