// Package topology declares the streams and durables of toolbus as data: what
// the provisioner creates, what every service compares before it binds, and
// what the documentation shows (the contract, section 2). Beside them stands how
// a connection to them behaves.
package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// HashKey is the metadata key under which a stream or durable carries the hash
// of its declared configuration.
const HashKey = "toolbus.config"

// Params are what an installation may choose. The zero value is one replica and
// the default sizes.
type Params struct {
	// Replicas of every stream; 0 means 1.
	Replicas int
	// WorkBytes bounds each work queue; 0 means 1 GiB. A full work queue refuses
	// new messages and never drops old ones.
	WorkBytes int64
	// HistoryBytes bounds each of the outcome and event streams, which drop
	// their oldest messages; 0 means 4 GiB.
	HistoryBytes int64
	// HistoryAge bounds the age of their messages; 0 means seven days. Servers
	// refuse less than the deduplication window, five minutes.
	HistoryAge time.Duration
	// AckWait is how long a delivered message may stay without a sign of life;
	// 0 means 30 s.
	AckWait time.Duration
	// MaxAckPending bounds the unsettled messages of a durable over all
	// instances; 0 means 10,000.
	MaxAckPending int
}

// Topology is every stream and every durable.
type Topology struct {
	Streams  []jetstream.StreamConfig
	Durables []Durable
}

// Durable is a pull consumer of one stream.
type Durable struct {
	Stream string
	Config jetstream.ConsumerConfig
}

const (
	mebibyte      = 1 << 20
	historyAge    = 7 * 24 * time.Hour
	dedupeWindow  = 5 * time.Minute
	headerReserve = 8 << 10
	hintBytes     = 4 << 10
	eventBytes    = 16 << 10
)

// Build declares the topology.
func Build(p Params) Topology {
	p = p.withDefaults()
	t := Topology{
		Streams: []jetstream.StreamConfig{
			p.work(subjects.StreamPropose, subjects.AllPropose, subjects.MaxProposalBytes),
			p.work(subjects.StreamExecute, subjects.AllExecute, hintBytes),
			p.work(subjects.StreamCommand, subjects.AllCommand, subjects.MaxMessageBytes),
			p.history(subjects.StreamOutcome, subjects.AllOutcome, subjects.MaxMessageBytes),
			p.history(subjects.StreamEvent, subjects.AllEvent, eventBytes),
		},
		Durables: []Durable{
			p.durable(subjects.StreamPropose, subjects.DurableProposals, subjects.AllPropose),
			p.durable(subjects.StreamCommand, subjects.DurableCommands, subjects.AllCommand),
		},
	}
	for _, target := range tool.Targets() {
		d := p.durable(subjects.StreamExecute, subjects.DurableExecutor(target), subjects.ExecuteOf(target))
		t.Durables = append(t.Durables, d)
	}
	return t
}

func (p Params) withDefaults() Params {
	p.Replicas = max(p.Replicas, 1)
	if p.WorkBytes == 0 {
		p.WorkBytes = 1024 * mebibyte
	}
	if p.HistoryAge == 0 {
		p.HistoryAge = historyAge
	}
	if p.HistoryBytes == 0 {
		p.HistoryBytes = 4096 * mebibyte
	}
	if p.AckWait == 0 {
		p.AckWait = 30 * time.Second
	}
	if p.MaxAckPending == 0 {
		p.MaxAckPending = 10_000
	}
	return p
}

// work declares a work queue: a message is gone once it is settled, and when the
// queue is full its publisher hears so. Nothing unprocessed is ever dropped.
func (p Params) work(name, subject string, maxBody int32) jetstream.StreamConfig {
	c := p.stream(name, subject, maxBody)
	c.Retention = jetstream.WorkQueuePolicy
	c.Discard = jetstream.DiscardNew
	c.MaxBytes = p.WorkBytes
	return c
}

// history declares a stream that keeps what was said for HistoryAge, whether or
// not anybody listened.
func (p Params) history(name, subject string, maxBody int32) jetstream.StreamConfig {
	c := p.stream(name, subject, maxBody)
	c.Retention = jetstream.LimitsPolicy
	c.Discard = jetstream.DiscardOld
	c.MaxBytes = p.HistoryBytes
	c.MaxAge = p.HistoryAge
	return c
}

func (p Params) stream(name, subject string, maxBody int32) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              name,
		Subjects:          []string{subject},
		Storage:           jetstream.FileStorage,
		Replicas:          p.Replicas,
		MaxMsgSize:        maxBody + headerReserve,
		MaxMsgs:           -1,
		MaxConsumers:      -1,
		MaxMsgsPerSubject: -1,
		Duplicates:        dedupeWindow,
		DenyDelete:        true,
	}
}

// durable declares a pull consumer. MaxDeliver is unlimited: an outage of the
// database must not burn deliveries, and at the limit a work queue would keep
// the message for ever. Poison is ended by its handler, which counts deliveries.
func (p Params) durable(stream, name, filter string) Durable {
	return Durable{Stream: stream, Config: jetstream.ConsumerConfig{
		Durable:       name,
		FilterSubject: filter,
		AckPolicy:     jetstream.AckExplicitPolicy,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		ReplayPolicy:  jetstream.ReplayInstantPolicy,
		AckWait:       p.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: p.MaxAckPending,
		MaxWaiting:    512,
	}}
}

// Sealed gives the topology with each configuration's hash in its metadata: the
// form in which it is stored.
func (t Topology) Sealed() (Topology, error) {
	out := Topology{Streams: slices.Clone(t.Streams), Durables: slices.Clone(t.Durables)}
	for i := range out.Streams {
		s := &out.Streams[i]
		sealed, err := seal(s.Metadata, *s)
		if err != nil {
			return Topology{}, fmt.Errorf("stream %s: %w", s.Name, err)
		}
		s.Metadata = sealed
	}
	for i := range out.Durables {
		c := &out.Durables[i].Config
		sealed, err := seal(c.Metadata, *c)
		if err != nil {
			return Topology{}, fmt.Errorf("durable %s: %w", c.Durable, err)
		}
		c.Metadata = sealed
	}
	return out, nil
}

func seal(metadata map[string]string, config any) (map[string]string, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	sum := sha256.Sum256(text)
	sealed := maps.Clone(metadata)
	if sealed == nil {
		sealed = map[string]string{}
	}
	sealed[HashKey] = hex.EncodeToString(sum[:])
	return sealed, nil
}

// Difference is one field whose value on the server is not the declared one.
type Difference struct {
	// Object is a stream, or stream/durable.
	Object string
	// Field is the name in the server's JSON; empty when the object is missing.
	Field string
	// Want and Have are compact JSON.
	Want, Have string
}

// String says it in one line.
func (d Difference) String() string {
	if d.Field == "" {
		return d.Object + ": missing"
	}
	return fmt.Sprintf("%s: %s is %s, declared %s", d.Object, d.Field, d.Have, d.Want)
}

// ErrDiffers is matched by the error that [Differences.Err] gives.
var ErrDiffers = errors.New("streams differ from their declaration")

// Differences is a list of them.
type Differences []Difference

// Err gives nil for none, else an error that names each of them.
func (d Differences) Err() error {
	if len(d) == 0 {
		return nil
	}
	lines := make([]string, len(d))
	for i := range d {
		lines[i] = d[i].String()
	}
	return fmt.Errorf("%w: %s", ErrDiffers, strings.Join(lines, "; "))
}

// CompareStream lists the fields in which have differs from want. What want
// leaves to the server is not compared, nor is metadata beyond the hash.
func CompareStream(want, have jetstream.StreamConfig) (Differences, error) {
	return compare(want.Name, want, have)
}

// CompareDurable does the same for a durable.
func CompareDurable(want Durable, have jetstream.ConsumerConfig) (Differences, error) {
	return compare(want.Stream+"/"+want.Config.Durable, want.Config, have)
}

func compare(object string, want, have any) (Differences, error) {
	wanted, err := fields(want)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", object, err)
	}
	found, err := fields(have)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", object, err)
	}
	var out Differences
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if w, h := wanted[name], found[name]; w != h {
			out = append(out, Difference{Object: object, Field: name, Want: w, Have: h})
		}
	}
	return out, nil
}

// fields gives the members of a configuration as compact JSON; of the metadata
// it keeps the hash, since servers add keys of their own.
func fields(config any) (map[string]string, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	out := make(map[string]string, len(raw))
	for name, value := range raw {
		out[name] = string(value)
	}
	delete(out, "consumer_limits")
	var metadata map[string]string
	if err := json.Unmarshal(raw["metadata"], &metadata); err == nil {
		out["metadata"] = metadata[HashKey]
	}
	return out, nil
}
