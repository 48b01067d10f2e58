package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/proxy/admin/ledger"
)

// A watcher reads a stream, and may stop reading.
type watcher struct {
	*httptest.ResponseRecorder
	reads chan struct{} // holds a value while it reads; whoever takes it may read the body
}

func (w *watcher) Write(p []byte) (int, error) {
	<-w.reads
	defer func() { w.reads <- struct{}{} }()
	return w.ResponseRecorder.Write(p)
}

// watch starts a watcher, which reads until the test ends.
func (a *Admin) watch(t *testing.T, query string) *watcher {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	w := &watcher{httptest.NewRecorder(), make(chan struct{}, 1)}
	w.reads <- struct{}{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/decisions/stream"+query, nil)
		a.ServeHTTP(w, r.WithContext(ctx))
	}()
	t.Cleanup(func() {
		leave()
		<-ended
	})
	synctest.Wait()
	return w
}

// events returns the values of a field in all events since the last call.
func (w *watcher) events(field string) (values []string) {
	time.Sleep(streamPoll)
	synctest.Wait()
	<-w.reads
	defer func() { w.reads <- struct{}{} }()
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			values = append(values, strings.TrimSpace(value))
		}
	}
	w.Body.Reset()
	return values
}

func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t)
		a.enter("before.example", 3)
		all, some := a.watch(t, ""), a.watch(t, "?host=some.example")
		again := a.watch(t, "?after="+a.eventID(1))
		if n := len(again.events("data")); n != 2 {
			t.Errorf("%d decisions come after the first, want 2", n)
		}
		a.enter("some.example", 100)
		a.enter("other.example", 150)
		if got := some.events("data"); len(got) != 100 || !strings.Contains(got[99], "https://some.example/99") {
			t.Errorf("by filter: %q", got)
		}
		ids := all.events("id")
		if len(ids) != 250 || ids[249] != a.eventID(253) || a.numberOf(ids[249]) != 253 {
			t.Errorf("IDs %q", ids)
		}
		if got := all.events("data"); got != nil {
			t.Errorf("nothing new is %q", got)
		}
		time.Sleep(3 * heartbeat)
		if got := all.events(""); len(got) < 2 || len(got) > 4 {
			t.Errorf("%d heartbeats in %v", len(got), 3*heartbeat)
		}
	})
}

// A watcher that does not read holds nobody up. It is told how many decisions it has missed.
func TestSlowWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t)
		slow := a.watch(t, "")
		<-slow.reads
		a.enter("first.example", 10)
		time.Sleep(time.Second)
		synctest.Wait() // until it waits in a write
		a.enter("second.example", 5*ledger.Size)
		if n := a.ledger.Newest(); n != 10+5*ledger.Size {
			t.Errorf("%d decisions are recorded", n)
		}
		slow.reads <- struct{}{}
		time.Sleep(streamPoll)
		synctest.Wait()
		<-slow.reads
		defer func() { slow.reads <- struct{}{} }()
		text := slow.Body.String()
		want := fmt.Sprintf("event: dropped\nid: %s\ndata: {\"dropped\":%d}\n", a.eventID(10+4*ledger.Size), 4*ledger.Size)
		if strings.Count(text, "data: ") != 10+1+ledger.Size || !strings.Contains(text, want) {
			t.Errorf("%d events, want %d and\n%s", strings.Count(text, "data: "), 10+1+ledger.Size, want)
		}
	})
}

func TestCloseEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/decisions/stream", nil))
		}()
		synctest.Wait()
		a.Close()
		a.Close()
		<-ended
	})
}
