package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Error codes of JetStream after which the same message fares no better.
const (
	codeMessageTooLarge = 10054
	codeStreamMismatch  = 10060
	codeHeaderTooLarge  = 10097
)

// publish stores data in the work queue stream and waits for its
// acknowledgement. A tenant has none of the JetStream API, but the answer to a
// publish that asks for one crosses accounts. The message carries no id for
// deduplication: ids are shared by all tenants of a stream, and what arrives
// twice is recognised by its content.
func (c *Client) publish(ctx context.Context, stream, subject string, data []byte) error {
	headers := map[string]string{nats.ExpectedStreamHdr: stream}
	return c.insist(ctx, func(ctx context.Context) error {
		answer, err := c.send(ctx, subject, data, headers, attemptTimeout)
		if err != nil {
			return err
		}
		return readAck(answer.Data, stream)
	})
}

// readAck gives nil for the acknowledgement of a stored message. A duplicate is
// none: this message had no id, so what was called its first copy was another.
func readAck(data []byte, stream string) error {
	var ack struct {
		Stream    string `json:"stream"`
		Duplicate bool   `json:"duplicate"`
		Error     *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return fmt.Errorf("%w: the answer is no acknowledgement", ErrNotAccepted)
	}
	switch {
	case ack.Error != nil:
		err := fmt.Errorf("%w: %s (%d)", ErrNotAccepted, ack.Error.Description, ack.Error.Code)
		switch ack.Error.Code {
		case codeMessageTooLarge, codeHeaderTooLarge, codeStreamMismatch:
			return err
		}
		return transient(err) // a full queue empties, a leader is found
	case ack.Stream != stream:
		return fmt.Errorf("%w: the subject belongs to another stream", ErrNotAccepted)
	case ack.Duplicate:
		return fmt.Errorf("%w: called a duplicate", ErrNotAccepted)
	}
	return nil
}
