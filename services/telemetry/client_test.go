package telemetry_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// patience bounds what a test waits for; it is met only by a failure.
const patience = 20 * time.Second

// start runs the service until the test ends.
func (w *world) start(t *testing.T) *world {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case <-w.Ready():
	case err := <-ended:
		t.Fatalf("ended: %v", err)
	case <-time.After(patience):
		t.Fatal("not ready")
	}
	return w
}

// get asks the running service.
func (w *world) get(t *testing.T, path string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// message is one server-sent event.
type message struct{ ID, Event, Data string }

// subscription is a client's side of the event stream.
type subscription struct {
	t    *testing.T
	body *bufio.Reader
	// last is the last event id, as a browser keeps it.
	last     string
	messages chan message
}

// follow opens the event stream.
func (w *world) follow(t *testing.T, token, query, last string) *subscription {
	t.Helper()
	header := []string{"Authorization", "Bearer " + token}
	if last != "" {
		header = append(header, "Last-Event-ID", last)
	}
	response := w.get(t, "/v1/events?"+query, header...)
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("answer %s of type %q", response.Status, response.Header.Get("Content-Type"))
	}
	s := &subscription{t: t, body: bufio.NewReader(response.Body)}
	// The first block comes at once, and says where the client stands.
	if first, err := s.block(); err != nil || first.Event != "" && first.Event != "reset" {
		t.Fatalf("first block: %+v, %v", first, err)
	} else if first.Event == "reset" {
		s.messages = make(chan message, 1)
		s.messages <- first
	}
	return s
}

// block reads up to the next empty line.
func (s *subscription) block() (message, error) {
	var m message
	for {
		line, err := s.body.ReadString('\n')
		if err != nil {
			return m, err
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			if m.ID != "" {
				s.last = m.ID
			}
			return m, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			m.ID = value
		case "event":
			m.Event = value
		case "data":
			m.Data += value
		}
	}
}

// next gives the next event, past blocks without data.
func (s *subscription) next() message {
	s.t.Helper()
	if s.messages != nil {
		defer func() { s.messages = nil }()
		return <-s.messages
	}
	for {
		m, err := s.block()
		if err != nil {
			s.t.Fatalf("event stream: %v", err)
		}
		if m.Data != "" {
			return m
		}
	}
}

// expect reads events and compares their bodies.
func (s *subscription) expect(bodies ...string) {
	s.t.Helper()
	var got []string
	for range bodies {
		m := s.next()
		if !strings.Contains(m.Data, `"event":"`+m.Event+`"`) {
			s.t.Errorf("message is named %q, its body is %s", m.Event, m.Data)
		}
		got = append(got, m.Data)
	}
	if diff := cmp.Diff(bodies, got); diff != "" {
		s.t.Fatalf("events (-want +got):\n%s", diff)
	}
}

// recorder is an http.ResponseWriter whose writes can be held up.
type recorder struct {
	header http.Header
	status int
	wrote  chan string
	// gate is read before each write; nil lets all through.
	gate chan struct{}
	// deadline is obeyed by a held-up write.
	deadline time.Time
}

func newRecorder(gate chan struct{}) *recorder {
	return &recorder{header: http.Header{}, wrote: make(chan string, 1<<16), gate: gate}
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(s int)   { r.status = s }
func (r *recorder) Flush()              {}
func (r *recorder) SetWriteDeadline(at time.Time) error {
	r.deadline = at
	return nil
}

func (r *recorder) Write(data []byte) (int, error) {
	if r.gate != nil {
		timer := time.NewTimer(time.Until(r.deadline))
		defer timer.Stop()
		select {
		case <-r.gate:
		case <-timer.C:
			return 0, errors.New("write deadline")
		}
	}
	r.wrote <- string(data)
	return len(data), nil
}

// text gives what was written so far.
func (r *recorder) text() string {
	var b strings.Builder
	for {
		select {
		case s := <-r.wrote:
			b.WriteString(s)
		default:
			return b.String()
		}
	}
}
