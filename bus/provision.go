package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolbus/toolbus/subjects/topology"
)

// Provision makes the server's streams and durables what t declares, creating
// or updating, and returns what it found different. Only the provisioner calls
// it; services bind and [Bus.Check]. What matches already is not touched, since
// an update may drop delayed messages.
func (b *Bus) Provision(ctx context.Context, t topology.Topology) (topology.Differences, error) {
	sealed, err := t.Sealed()
	if err != nil {
		return nil, fmt.Errorf("provision: %w", err)
	}
	var found topology.Differences
	for _, stream := range sealed.Streams {
		diff, err := b.compareStream(ctx, stream)
		if err != nil {
			return found, fmt.Errorf("provision: %w", err)
		}
		found = append(found, diff...)
		if len(diff) == 0 {
			continue
		}
		if _, err := b.js.CreateOrUpdateStream(ctx, stream); err != nil {
			return found, fmt.Errorf("provision stream %s: %w", stream.Name, err)
		}
	}
	for _, durable := range sealed.Durables {
		diff, err := b.compareDurable(ctx, durable)
		if err != nil {
			return found, fmt.Errorf("provision: %w", err)
		}
		found = append(found, diff...)
		if len(diff) == 0 {
			continue
		}
		if _, err := b.js.CreateOrUpdateConsumer(ctx, durable.Stream, durable.Config); err != nil {
			return found, fmt.Errorf("provision durable %s: %w", durable.Config.Durable, err)
		}
	}
	return found, nil
}

// Check compares the server with t and returns an error that matches
// [topology.ErrDiffers] and names every field that is not as declared.
func (b *Bus) Check(ctx context.Context, t topology.Topology) error {
	sealed, err := t.Sealed()
	if err != nil {
		return fmt.Errorf("check streams: %w", err)
	}
	var found topology.Differences
	for _, stream := range sealed.Streams {
		diff, err := b.compareStream(ctx, stream)
		if err != nil {
			return fmt.Errorf("check streams: %w", err)
		}
		found = append(found, diff...)
	}
	for _, durable := range sealed.Durables {
		diff, err := b.compareDurable(ctx, durable)
		if err != nil {
			return fmt.Errorf("check streams: %w", err)
		}
		found = append(found, diff...)
	}
	return found.Err()
}

func (b *Bus) compareStream(ctx context.Context, want jetstream.StreamConfig) (topology.Differences, error) {
	stream, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return topology.Differences{{Object: want.Name}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", want.Name, err)
	}
	return topology.CompareStream(want, stream.CachedInfo().Config)
}

func (b *Bus) compareDurable(ctx context.Context, want topology.Durable) (topology.Differences, error) {
	consumer, err := b.js.Consumer(ctx, want.Stream, want.Config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return topology.Differences{{Object: want.Stream + "/" + want.Config.Durable}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("durable %s: %w", want.Config.Durable, err)
	}
	return topology.CompareDurable(want, consumer.CachedInfo().Config)
}
