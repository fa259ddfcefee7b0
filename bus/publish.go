package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolbus/toolbus/subjects"
)

// Errors of a single publish. A nil error means that the expected stream has
// the message, now or from an earlier publish with the same id.
var (
	// ErrTooLarge says that the message can never be published: its content is
	// above a limit of the stream or of the server.
	ErrTooLarge = errors.New("message is too large for its stream")
	// ErrUnacknowledged says that it is unknown whether the stream has the
	// message: publish it again with the same id.
	ErrUnacknowledged = errors.New("publish was not acknowledged")
	// ErrBusy says that too many publishes await acknowledgement; nothing was sent.
	ErrBusy = errors.New("too many publishes under way")
	// ErrStreamFull says that the stream refuses new messages for want of space.
	ErrStreamFull = errors.New("stream is full")
	// ErrWrongStream says that another stream than the expected one listens on
	// the subject; nothing was stored.
	ErrWrongStream = errors.New("subject belongs to another stream")
	// ErrNoStream says that no stream listens on the subject.
	ErrNoStream = errors.New("no stream listens on the subject")
	// ErrNotAccepted says that the stream called a message without an id of ours
	// a duplicate: nothing was stored.
	ErrNotAccepted = errors.New("stream dropped the message as a duplicate")
)

// Publish sends pubs and waits until every one is acknowledged or refused, ctx
// ends or the acknowledgement timeout passes. It returns one error per
// publication, nil for those that are stored. With too many publishes under way
// it waits for room.
func (b *Bus) Publish(ctx context.Context, pubs []subjects.Publication) []error {
	return b.publisher.publish(ctx, pubs)
}

// PublishAsync sends pubs and returns; done gets one error per publication
// later, on a goroutine that [Bus.Close] waits for. What finds no room fails
// with [ErrBusy] instead of waiting. pubs must not be changed until it returns.
func (b *Bus) PublishAsync(pubs []subjects.Publication, done func([]error)) {
	b.publisher.publishAsync(pubs, done)
}

// publisher keeps the publishes that await their acknowledgement in numbered
// slots. The number is the last token of the reply subject, so that one
// subscription serves them all, without a goroutine, a channel or a timer for
// each.
type publisher struct {
	conn    *nats.Conn
	prefix  string
	timeout time.Duration
	sub     *nats.Subscription
	stop    chan struct{}
	workers sync.WaitGroup
	buffers sync.Pool

	mu     sync.Mutex
	slots  []slot
	free   []uint32
	room   chan struct{} // closed and replaced when a slot becomes free for a waiter
	closed bool
}

type slot struct {
	batch    *batch
	index    int
	stream   string
	hasID    bool
	use      uint32 // tells the uses of one slot apart
	deadline time.Time
}

// batch is the publications of one call. Its errors begin as ErrUnacknowledged
// and are replaced as answers arrive.
type batch struct {
	errs     []error
	open     int
	finished chan struct{} // nil when callback is set
	callback func([]error)
	owned    bool // the publisher's wait group counts the callback
}

// outgoing is a message whose parts are used again and again: the connection
// copies it before PublishMsg returns.
type outgoing struct {
	msg   nats.Msg
	id    []string
	strm  []string
	reply []byte
}

func newPublisher(conn *nats.Conn, options Options) (*publisher, error) {
	p := &publisher{
		conn:    conn,
		prefix:  conn.NewInbox() + ".",
		timeout: options.AckTimeout,
		stop:    make(chan struct{}),
		slots:   make([]slot, options.MaxPending),
		free:    make([]uint32, options.MaxPending),
		room:    make(chan struct{}),
	}
	p.buffers.New = func() any {
		return &outgoing{msg: nats.Msg{Header: nats.Header{}}, id: make([]string, 1), strm: make([]string, 1)}
	}
	for i := range p.free {
		p.free[i] = uint32(len(p.free) - 1 - i) //nolint:gosec // MaxPending is far below 2^32
	}
	sub, err := conn.Subscribe(p.prefix+"*", p.onAck)
	if err != nil {
		return nil, fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
	p.sub = sub
	p.workers.Go(p.expire)
	return p, nil
}

func (p *publisher) publish(ctx context.Context, pubs []subjects.Publication) []error {
	b := newBatch(len(pubs))
	b.finished = make(chan struct{})
	for rest := pubs; len(rest) > 0; {
		taken, room, err := p.reserve(b, len(pubs)-len(rest), rest)
		if err != nil {
			p.refuse(b, len(pubs)-len(rest), len(pubs), err)
			break
		}
		p.send(taken, rest[:len(taken)])
		rest = rest[len(taken):]
		if len(rest) == 0 {
			break
		}
		select {
		case <-room:
		case <-ctx.Done():
			p.refuse(b, len(pubs)-len(rest), len(pubs), fmt.Errorf("%w: %w", ErrBusy, ctx.Err()))
			rest = nil
		}
	}
	if len(pubs) == 0 {
		return nil
	}
	select {
	case <-b.finished:
		return b.errs
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]error(nil), b.errs...)
}

func (p *publisher) publishAsync(pubs []subjects.Publication, done func([]error)) {
	b := newBatch(len(pubs))
	b.callback = done
	if len(pubs) == 0 {
		done(nil)
		return
	}
	taken, _, err := p.reserve(b, 0, pubs)
	if err != nil {
		p.refuse(b, 0, len(pubs), err)
		done(b.errs)
		return
	}
	p.send(taken, pubs[:len(taken)])
	p.refuse(b, len(taken), len(pubs), ErrBusy)
}

func newBatch(n int) *batch {
	b := &batch{errs: make([]error, n), open: n}
	for i := range b.errs {
		b.errs[i] = ErrUnacknowledged
	}
	return b
}

// ticket is a reserved slot.
type ticket struct{ slot, use uint32 }

// reserve takes slots for as many of pubs as there is room for; first is the
// index of pubs[0] in the batch. room is closed when there may be more.
func (p *publisher) reserve(b *batch, first int, pubs []subjects.Publication) ([]ticket, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrClosed
	}
	if b.callback != nil && !b.owned {
		b.owned = true
		p.workers.Add(1) // under the lock that close takes before it waits
	}
	n := min(len(pubs), len(p.free))
	taken := make([]ticket, n)
	deadline := time.Now().Add(p.timeout)
	for i := range taken {
		number := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		s := &p.slots[number]
		s.use++
		s.batch, s.index, s.deadline = b, first+i, deadline
		s.stream, s.hasID = pubs[i].Stream, pubs[i].ID != ""
		taken[i] = ticket{slot: number, use: s.use}
	}
	return taken, p.room, nil
}

// send publishes pubs under their tickets.
func (p *publisher) send(tickets []ticket, pubs []subjects.Publication) {
	out := p.buffers.Get().(*outgoing) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	defer p.buffers.Put(out)
	for i := range pubs {
		out.fill(p.prefix, tickets[i], &pubs[i])
		if err := p.conn.PublishMsg(&out.msg); err != nil {
			p.resolve(tickets[i], sendError(err))
		}
	}
}

func (o *outgoing) fill(prefix string, t ticket, pub *subjects.Publication) {
	o.reply = append(o.reply[:0], prefix...)
	o.reply = strconv.AppendUint(o.reply, uint64(t.slot), 36)
	o.reply = append(o.reply, '-')
	o.reply = strconv.AppendUint(o.reply, uint64(t.use), 36)
	clear(o.msg.Header)
	o.msg.Subject, o.msg.Reply, o.msg.Data = pub.Subject, string(o.reply), pub.Data
	o.strm[0] = pub.Stream
	o.msg.Header[jetstream.ExpectedStreamHeader] = o.strm
	if pub.ID != "" {
		o.id[0] = pub.ID
		o.msg.Header[jetstream.MsgIDHeader] = o.id
	}
	addTrace(o.msg.Header, pub.Header)
}

func sendError(err error) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting):
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return fmt.Errorf("publish: %w", err)
}

// refuse settles the publications from index first to end, which were never sent.
func (p *publisher) refuse(b *batch, first, end int, err error) {
	if first == end {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := first; i < end; i++ {
		b.errs[i] = err
	}
	p.settled(b, end-first)
}

// resolve gives a slot's publication its result; a ticket that is out of date
// does nothing.
func (p *publisher) resolve(t ticket, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int(t.slot) < len(p.slots) && p.slots[t.slot].use == t.use && p.slots[t.slot].batch != nil {
		p.release(t.slot, err)
	}
}

// release frees a slot in use. The lock is held.
func (p *publisher) release(number uint32, err error) {
	s := &p.slots[number]
	b := s.batch
	b.errs[s.index] = err
	s.batch = nil
	if len(p.free) == 0 {
		close(p.room)
		p.room = make(chan struct{})
	}
	p.free = append(p.free, number)
	p.settled(b, 1)
}

// settled counts results and ends the batch with the last. The lock is held.
func (p *publisher) settled(b *batch, n int) {
	b.open -= n
	switch {
	case b.open > 0:
	case b.owned:
		go func() {
			defer p.workers.Done()
			b.callback(b.errs)
		}()
	case b.finished != nil:
		close(b.finished)
	}
}

// onAck reads one acknowledgement.
func (p *publisher) onAck(m *nats.Msg) {
	number, use, ok := strings.Cut(m.Subject[min(len(p.prefix), len(m.Subject)):], "-")
	n, err := strconv.ParseUint(number, 36, 32)
	u, err2 := strconv.ParseUint(use, 36, 32)
	if !ok || err != nil || err2 != nil || n >= uint64(len(p.slots)) {
		return
	}
	t := ticket{slot: uint32(n), use: uint32(u)}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.slots[t.slot]
	if s.use != t.use || s.batch == nil {
		return
	}
	p.release(t.slot, ackError(m, s.stream, s.hasID))
}

// Codes of the JetStream API that a publish may meet.
const (
	codeInsufficientResources = 10023
	codeStorageExceeded       = 10047
	codeMessageTooLarge       = 10054
	codeStreamMismatch        = 10060
	codeStoreFailed           = 10077
	codeHeaderTooLarge        = 10097
)

// ackError reads what the server answered. The answer of success has a fixed
// beginning and is recognised by it; everything else is decoded.
func ackError(m *nats.Msg, stream string, hasID bool) error {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return ErrNoStream
	}
	rest, ok := bytes.CutPrefix(m.Data, []byte(`{"stream":"`))
	if ok && bytes.HasPrefix(rest, []byte(stream+`"`)) && bytes.Count(rest, []byte(`"`)) == 3 {
		return nil // stream and seq, and nothing else
	}
	var ack struct {
		Stream    string              `json:"stream"`
		Duplicate bool                `json:"duplicate"`
		Error     *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return fmt.Errorf("%w: the answer is no acknowledgement", ErrUnacknowledged)
	}
	switch {
	case ack.Error != nil:
		return refusal(ack.Error)
	case ack.Stream != stream:
		return ErrWrongStream
	case ack.Duplicate && !hasID:
		return ErrNotAccepted
	}
	return nil
}

func refusal(answer *jetstream.APIError) error {
	switch answer.ErrorCode {
	case codeMessageTooLarge, codeHeaderTooLarge:
		return fmt.Errorf("%w: %w", ErrTooLarge, answer)
	case codeStreamMismatch:
		return fmt.Errorf("%w: %w", ErrWrongStream, answer)
	case codeStoreFailed, codeInsufficientResources, codeStorageExceeded:
		return fmt.Errorf("%w: %w", ErrStreamFull, answer)
	}
	return fmt.Errorf("publish refused: %w", answer)
}

// expire gives up on acknowledgements that do not come.
func (p *publisher) expire() {
	ticker := time.NewTicker(p.timeout / 4)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-ticker.C:
			p.failWhere(func(s *slot) bool { return now.After(s.deadline) })
		}
	}
}

// failAll gives up on everything: the connection that would have carried the
// acknowledgements is gone.
func (p *publisher) failAll() { p.failWhere(func(*slot) bool { return true }) }

func (p *publisher) failWhere(matches func(*slot) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == len(p.slots) {
		return
	}
	for i := range p.slots {
		if s := &p.slots[i]; s.batch != nil && matches(s) {
			p.release(uint32(i), ErrUnacknowledged)
		}
	}
}

// close lets what is under way finish, for at most the timeout, and waits for
// the callbacks.
func (p *publisher) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	limit := time.NewTimer(p.timeout)
	defer limit.Stop()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for waiting := true; waiting && p.pending() > 0; {
		select {
		case <-poll.C:
		case <-limit.C:
			waiting = false
		}
	}
	p.failAll()
	close(p.stop)
	p.workers.Wait()
}

func (p *publisher) pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.slots) - len(p.free)
}
