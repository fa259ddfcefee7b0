package bus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// The pull protocol of JetStream, spoken directly: a request says how many
// messages may come and for how long, and every message that comes takes one
// from that number. The client library's own consumers decide for themselves
// when to ask for how much; here the number asked for is exactly the number of
// free slots, and a request is outstanding whenever there is one.
const (
	pullExpires   = 30 * time.Second
	pullHeartbeat = 5 * time.Second
)

var (
	errGone      = errors.New("consumer is gone")
	errSilent    = errors.New("no heartbeat from the server")
	errRestarted = errors.New("pull requests were lost")
)

// puller asks one durable for messages. It is used by one goroutine.
type puller struct {
	conn        *nats.Conn
	request     string
	sub         *nats.Subscription
	messages    chan *nats.Msg
	ended       chan struct{}
	outstanding int
	heard       time.Time
	expires     time.Duration
	heartbeat   time.Duration
}

// openPuller subscribes to an inbox of its own, so that what answers the
// requests of an earlier puller can never exceed this one's count.
func openPuller(conn *nats.Conn, stream, durable string, room int) (*puller, error) {
	p := &puller{
		conn:      conn,
		request:   "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + durable,
		messages:  make(chan *nats.Msg, 2*room+64), // messages, and status notes among them
		ended:     make(chan struct{}),
		heard:     time.Now(),
		expires:   pullExpires,
		heartbeat: pullHeartbeat,
	}
	sub, err := conn.ChanSubscribe(conn.NewInbox(), p.messages)
	if err != nil {
		return nil, fmt.Errorf("subscribe to deliveries: %w", err)
	}
	var once sync.Once
	sub.SetClosedHandler(func(string) { once.Do(func() { close(p.ended) }) })
	p.sub = sub
	return p, nil
}

// ask requests n more messages.
func (p *puller) ask(n int) error {
	body := make([]byte, 0, 96)
	body = append(body, `{"batch":`...)
	body = strconv.AppendInt(body, int64(n), 10)
	body = append(body, `,"expires":`...)
	body = strconv.AppendInt(body, int64(p.expires), 10)
	body = append(body, `,"idle_heartbeat":`...)
	body = strconv.AppendInt(body, int64(p.heartbeat), 10)
	body = append(body, '}')
	if err := p.conn.PublishRequest(p.request, p.sub.Subject, body); err != nil {
		return sendError(err)
	}
	if p.outstanding == 0 {
		p.heard = time.Now()
	}
	p.outstanding += n
	return nil
}

// accept tells a message from a note of the server and keeps count. An error
// means that this puller is of no more use.
func (p *puller) accept(m *nats.Msg, now time.Time) (isMessage bool, err error) {
	p.heard = now
	status := ""
	if len(m.Data) == 0 && len(m.Header) > 0 {
		status = m.Header.Get("Status")
	}
	switch status {
	case "":
		p.outstanding--
		return true, nil
	case "100":
		return false, nil
	case "404", "408":
		left, _ := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")) // absent means none
		p.outstanding = max(0, p.outstanding-left)
		return false, nil
	case "503":
		return false, errGone
	}
	why := strings.ToLower(m.Header.Get("Description"))
	if strings.Contains(why, "batch completed") {
		return false, nil
	}
	if strings.Contains(why, "deleted") {
		return false, errGone
	}
	return false, fmt.Errorf("%w: %s", errRestarted, why)
}

// check reports a server that should have been heard of by now.
func (p *puller) check(now time.Time) error {
	if p.outstanding > 0 && now.Sub(p.heard) > 2*p.heartbeat+time.Second {
		return errSilent
	}
	return nil
}

// close withdraws the requests. What the server had sent before it knew of that
// still arrives, and stands in messages when close returns. Without a connection
// there is nothing to wait for, and the inbox must be gone before the client
// subscribes to it again: a request that outlives its connection would have
// messages sent there that nobody reads.
func (p *puller) close() {
	if !p.conn.IsConnected() || p.sub.Drain() != nil {
		_ = p.sub.Unsubscribe() // fails only when it, or the connection, has ended
		return
	}
	limit := time.NewTimer(5 * time.Second)
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		_ = p.sub.Unsubscribe() // the connection is gone, or will be
	}
}
