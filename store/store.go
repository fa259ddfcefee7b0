package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/toolbus/toolbus/pipeline"
)

// Options configure a store.
type Options struct {
	// URL is a PostgreSQL connection string. Its user must be a member of the
	// roles toolbus_service and toolbus_sweeper; it acts as them.
	URL string
	// Pool is the number of connections for everything that is not a lane;
	// 0 means 4.
	Pool   int
	Logger *slog.Logger
	// Announce is told of every committed flush that owes messages. It must not
	// block; nil leaves publishing to the relay.
	Announce func(pipeline.Announcement)
}

// Store speaks to PostgreSQL. Safe for concurrent use.
type Store struct {
	log      *slog.Logger
	announce func(pipeline.Announcement)
	pool     *pgxpool.Pool
	sweeper  *pgxpool.Pool
	beat     oneConn
	poolAway atomic.Int64 // like lane.since, for everything that is not a lane
	watch    sync.WaitGroup
	unwatch  context.CancelFunc

	admit lane[*pipeline.Admission, pipeline.Ruling]
	claim lane[*pipeline.ClaimRequest, []pipeline.Claim]
	mark  lane[*pipeline.Mark, pipeline.MarkVerdict]
	end   lane[*pipeline.Ending, pipeline.EndVerdict]
}

// Open connects, compares the schema with this build and starts the lanes. The
// store lives until [Store.Close], not until ctx ends. Errors: [ErrSchema], or
// why the database cannot be reached.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{log: o.Logger, announce: o.Announce}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.announce == nil {
		s.announce = func(pipeline.Announcement) {}
	}
	var err error
	if s.pool, err = openPool(ctx, o, roleService); err != nil {
		return nil, err
	}
	if s.sweeper, err = openPool(ctx, o, roleSweeper); err != nil {
		s.pool.Close()
		return nil, err
	}
	if err := checkSchema(ctx, s.pool); err != nil {
		s.sweeper.Close()
		s.pool.Close()
		return nil, err
	}
	if err := s.startLanes(context.WithoutCancel(ctx), o.URL); err != nil {
		s.sweeper.Close()
		s.pool.Close()
		return nil, err
	}
	return s, nil
}

func openPool(ctx context.Context, o Options, role string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	c.MaxConns = 4
	if o.Pool > 0 {
		c.MaxConns = int32(o.Pool) //nolint:gosec // a number of connections
	}
	c.MinConns = 0
	c.ConnConfig.RuntimeParams["role"] = role
	c.ConnConfig.RuntimeParams["application_name"] = "toolbus"
	c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "10000"
	c.ConnConfig.RuntimeParams["jit"] = "off" // it costs more than any query here
	c.ConnConfig.ConnectTimeout = 5 * time.Second
	if role == roleSweeper {
		// An index scan, unlike the others, remembers which entries were dead: each
		// sweep over the open calls makes the next one cheaper.
		c.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
		c.ConnConfig.RuntimeParams["enable_bitmapscan"] = "off"
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return pool, nil
}

func (s *Store) startLanes(ctx context.Context, url string) error {
	names := []string{"admit", "claim", "mark", "end", "heartbeat"}
	configs := make([]*pgx.ConnConfig, len(names))
	for i, name := range names {
		c, err := laneConfig(url, roleService, name)
		if err != nil {
			return err
		}
		configs[i] = c
	}
	s.admit = lane[*pipeline.Admission, pipeline.Ruling]{name: "admit", log: s.log, size: admissionSize, keys: admissionKeys, flush: s.flushAdmit}
	s.claim = lane[*pipeline.ClaimRequest, []pipeline.Claim]{
		name: "claim", log: s.log, flush: s.flushClaim,
		size: func(*pipeline.ClaimRequest) int { return 0 },
		keys: func(*pipeline.ClaimRequest) []string { return []string{""} }, // one request a flush
	}
	s.mark = lane[*pipeline.Mark, pipeline.MarkVerdict]{
		name: "mark", log: s.log, flush: s.flushMark,
		size: func(*pipeline.Mark) int { return 128 },
		keys: func(m *pipeline.Mark) []string { return []string{m.Tenant + "/" + string(m.ID[:])} },
	}
	s.end = lane[*pipeline.Ending, pipeline.EndVerdict]{name: "end", log: s.log, size: endingSize, keys: endingKeys, flush: s.flushEnd}
	s.admit.start(ctx, configs[0])
	s.claim.start(ctx, configs[1])
	s.mark.start(ctx, configs[2])
	s.end.start(ctx, configs[3])
	s.beat.conn.config = configs[4]
	ctx, s.unwatch = context.WithCancel(ctx)
	s.watch.Go(func() { s.watchPool(ctx) })
	return nil
}

// watchPool asks whether a database that was away is back: consumers that wait
// for it ask nothing themselves.
func (s *Store) watchPool(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.poolAway.Load() == 0 {
			continue
		}
		bound, cancel := context.WithTimeout(ctx, 2*time.Second)
		if s.pool.Ping(bound) == nil {
			s.poolAway.Store(0)
		}
		cancel()
	}
}

// Close ends the lanes, in the order in which a call passes them, and closes
// the connections. Operations that were not written get [ErrStopped].
func (s *Store) Close() {
	s.admit.close()
	s.claim.close()
	s.mark.close()
	s.end.close()
	s.unwatch()
	s.watch.Wait()
	s.beat.close()
	s.sweeper.Close()
	s.pool.Close()
}

// Ping asks the database for an answer.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	return nil
}

// Away gives for how long a lane has been without an answer from the database;
// zero while all is well. Consumers stop pulling while it lasts.
func (s *Store) Away() time.Duration {
	return max(s.admit.away(), s.claim.away(), s.mark.away(), s.end.away(), since(s.poolAway.Load()))
}

// Stats counts operations and flushes of the lanes.
func (s *Store) Stats() map[string][2]int64 {
	return map[string][2]int64{
		"admit": {s.admit.ops.Load(), s.admit.flushes.Load()},
		"claim": {s.claim.ops.Load(), s.claim.flushes.Load()},
		"mark":  {s.mark.ops.Load(), s.mark.flushes.Load()},
		"end":   {s.end.ops.Load(), s.end.flushes.Load()},
	}
}

// oneConn is a connection behind a lock, for a caller that must not wait for
// anybody else's work.
type oneConn struct {
	mu   sync.Mutex
	conn laneConn
}

func (o *oneConn) batch(ctx context.Context, queue func(*pgx.Batch), read func(pgx.BatchResults) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	c, err := o.conn.get(ctx)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	queue(b)
	res := c.SendBatch(ctx, b)
	if err := errors.Join(read(res), res.Close()); err != nil {
		o.conn.drop(ctx)
		return err
	}
	return nil
}

func (o *oneConn) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn.conn != nil { // idle: the server needs no goodbye
		_ = o.conn.conn.PgConn().Conn().Close()
		o.conn.conn = nil
	}
}

// inTenant runs fn in a transaction of the service role that sees one tenant.
func (s *Store) inTenant(ctx context.Context, tenant string, fn func(tx pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, setTenants, tenant); err != nil {
			return err
		}
		return fn(tx)
	})
	if err != nil && ctx.Err() == nil && lostConnection(err) {
		s.poolAway.CompareAndSwap(0, time.Now().UnixNano())
	}
	return err
}
