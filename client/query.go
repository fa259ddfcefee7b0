package client

import (
	"context"
	"iter"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// ApprovalsList lists approvals; a zero filter lists the open ones of the tenant.
// The portions are fetched as the iteration proceeds; Page sets their size and
// the first cursor. An error ends the iteration as its last pair.
func (c *Client) ApprovalsList(ctx context.Context, filter subjects.ApprovalsListRequest) iter.Seq2[subjects.ApprovalInfo, error] {
	return pages(filter.Page, func(page subjects.Page) ([]subjects.ApprovalInfo, string, error) {
		filter.Page = page
		var answer subjects.ApprovalsListResponse
		err := c.ask(ctx, subjects.VerbApprovalsList, &filter, &answer)
		return answer.Approvals, answer.NextCursor, err
	})
}

// UncertainList lists uncertain calls that nobody has reviewed, or with Reviewed
// all of them. It iterates as [Client.ApprovalsList] does.
func (c *Client) UncertainList(ctx context.Context, filter subjects.UncertainListRequest) iter.Seq2[subjects.UncertainInfo, error] {
	return pages(filter.Page, func(page subjects.Page) ([]subjects.UncertainInfo, string, error) {
		filter.Page = page
		var answer subjects.UncertainListResponse
		err := c.ask(ctx, subjects.VerbUncertainList, &filter, &answer)
		return answer.Calls, answer.NextCursor, err
	})
}

// InvocationsList lists calls, newest first. It iterates as
// [Client.ApprovalsList] does.
func (c *Client) InvocationsList(ctx context.Context, filter subjects.InvocationsListRequest) iter.Seq2[subjects.InvocationInfo, error] {
	return pages(filter.Page, func(page subjects.Page) ([]subjects.InvocationInfo, string, error) {
		filter.Page = page
		var answer subjects.InvocationsListResponse
		err := c.ask(ctx, subjects.VerbInvocationsList, &filter, &answer)
		return answer.Invocations, answer.NextCursor, err
	})
}

// pages strings the portions of a listing together. A portion may be empty and
// not the last.
func pages[T any](page subjects.Page, fetch func(subjects.Page) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for at := page; ; {
			items, next, err := fetch(at)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			at.Cursor = next
		}
	}
}

// InvocationsGet gives one call, whole: the canonical content, intact up to the
// tool's own maximum, and the history. A call that does not exist is a
// [*subjects.RPCError] with the code not_found.
func (c *Client) InvocationsGet(ctx context.Context, invocation tool.ID) (subjects.InvocationsGetResponse, error) {
	return c.invocation(ctx, subjects.InvocationsGetRequest{InvocationID: invocation})
}

// InvocationsGetByCall is [Client.InvocationsGet] by the place of the call.
func (c *Client) InvocationsGetByCall(ctx context.Context, run tool.ID, step int, callID string) (subjects.InvocationsGetResponse, error) {
	return c.invocation(ctx, subjects.InvocationsGetRequest{RunID: run, StepNumber: step, CallID: callID})
}

func (c *Client) invocation(ctx context.Context, r subjects.InvocationsGetRequest) (subjects.InvocationsGetResponse, error) {
	var answer subjects.InvocationsGetResponse
	err := c.ask(ctx, subjects.VerbInvocationsGet, r, &answer)
	return answer, err
}
