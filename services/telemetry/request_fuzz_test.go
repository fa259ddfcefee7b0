package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/toolbus/toolbus/subjects"
)

// Whatever a client asks for, a viewer of one tenant is answered with a
// refusal or with that tenant's events.
func FuzzEventsRequest(f *testing.F) {
	f.Add("tenant=acme&event=tool.call.*", "one.1")
	f.Fuzz(func(t *testing.T, query, last string) {
		w := newWorld(t, nil)
		w.stream.publish(other(t, "acme", subjects.EventServerPinned), other(t, "globex", subjects.EventServerPinned))
		ctx, stop := context.WithCancel(t.Context())
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			w.Follow(ctx)
		}()
		waitFor(t, w.Primed())
		request, leave := context.WithCancel(ctx)
		r := httptest.NewRequestWithContext(request, http.MethodGet, "/v1/events", nil)
		r.URL = &url.URL{Path: "/v1/events", RawQuery: query}
		r.Header.Set("Authorization", "Bearer "+acmeToken)
		r.Header.Set("Last-Event-ID", last)
		leave() // what is there is sent, and then the client is gone
		out := httptest.NewRecorder()
		w.Handler().ServeHTTP(out, r)
		if strings.Contains(out.Body.String(), `"tenant_id":"globex"`) {
			t.Errorf("query %q after %q shows another tenant", query, last)
		}
		switch out.Code {
		case http.StatusOK, http.StatusBadRequest, http.StatusForbidden:
		default:
			t.Errorf("query %q after %q: status %d", query, last, out.Code)
		}
		stop()
		<-followed
	})
}

func waitFor(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-t.Context().Done():
		t.Fatal("ended while waiting")
	}
}
