package e2e

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slowPage is a page that is sent when the test releases it.
type slowPage struct {
	asked   chan struct{} // gets an item for each request
	release chan struct{} // closed when the page may be sent
}

func newSlowPage() *slowPage {
	return &slowPage{asked: make(chan struct{}, 10), release: make(chan struct{})}
}

func (p *slowPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked <- struct{}{}
	select {
	case <-p.release:
		io.WriteString(w, "at last")
	case <-r.Context().Done():
	}
}

// inFlight starts a request at each door, and returns when all have reached their origins.
func (w *world) inFlight(page *slowPage) <-chan reply {
	w.t.Helper()
	replies := make(chan reply, len(doors))
	for _, door := range doors {
		o := newOrigin(w.t, door.origin, shop(), page.ServeHTTP)
		go func() {
			replies <- w.curl(door.option, o.URL+"/products/1")
		}()
	}
	for range doors {
		w.await(page.asked, "a request at its origin")
	}
	return replies
}

func (w *world) await(c <-chan struct{}, what string) {
	w.t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		w.t.Fatalf("no %s; the log:\n%s", what, w.log)
	}
}

func TestRequestsInFlightMayEnd(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		w := start(t)
		page := newSlowPage()
		replies := w.inFlight(page)
		w.signal(signal)
		w.log.wait(t, w.exited, "stopping")
		if status, _ := w.get("/readyz"); status != 503 {
			t.Errorf("/readyz while draining: status %d, want 503", status)
		}
		if status, _ := w.get("/healthz"); status != 200 {
			t.Errorf("/healthz while draining: status %d, want 200", status)
		}
		w.wantNoListener()
		close(page.release)
		for range doors {
			if r := <-replies; r.status != 200 || r.body != "at last" {
				t.Errorf("a request in flight got %+v", r)
			}
		}
		if state := w.ended(); state.ExitCode() != 0 {
			t.Errorf("%v, want exit code 0", state)
		}
		if lines := w.log.Lines(`"message":"request"`); len(lines) != len(doors) {
			t.Errorf("%d decisions are logged, want %d", len(lines), len(doors))
		}
	}
}

// wantNoListener waits until the proxy accepts no more connections.
func (w *world) wantNoListener() {
	w.t.Helper()
	waitFor(w.t, func() bool {
		conn, err := net.Dial("tcp", w.proxy)
		if err == nil {
			conn.Close()
		}
		return err != nil
	}, func() string { return "connections are still accepted" })
}

func TestGraceIsOver(t *testing.T) {
	t.Parallel()
	w := start(t, "shutdown_grace: 50ms")
	page := newSlowPage()
	replies := w.inFlight(page)
	w.signal(syscall.SIGTERM)
	if state := w.ended(); state.ExitCode() != 0 {
		t.Errorf("%v, want exit code 0", state)
	}
	for range doors {
		if r := <-replies; r.exit == 0 {
			t.Errorf("a request in flight got %+v", r)
		}
	}
	w.log.wait(t, w.exited, `"level":"warn"`, "shutdown_grace")
	close(page.release)
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t, "shutdown_grace: 10m")
	page := newSlowPage()
	replies := w.inFlight(page)
	w.signal(syscall.SIGTERM)
	w.log.wait(t, w.exited, "stopping")
	w.signal(syscall.SIGTERM)
	if state := w.ended(); state.Success() {
		t.Errorf("%v, though requests were broken off", state)
	}
	for range doors {
		<-replies
	}
	close(page.release)
}

// Connections without a request do not delay the shutdown. (A new one that has sent nothing
// may, for five seconds: net/http waits that long for a request that is on its way.)
func TestConnectionsWithoutARequest(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, "https", shop(), nil)
	for name, open := range map[string]func(w *world) io.Closer{
		"silent tunnel":  func(w *world) io.Closer { return w.tunnel(o) },
		"kept alive, h1": func(w *world) io.Closer { return w.keepAlive(o, false) },
		"kept alive, h2": func(w *world) io.Closer { return w.keepAlive(o, true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, "shutdown_grace: 10m")
			client := open(w)
			defer client.Close()
			w.stop() // in much less time than the grace
		})
	}
}

// dial connects to the proxy.
func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.proxy)
	must(w.t, err)
	conn.SetDeadline(time.Now().Add(testTimeout))
	return conn
}

// tunnel opens a tunnel to an origin.
func (w *world) tunnel(o *origin) net.Conn {
	w.t.Helper()
	conn := w.dial()
	io.WriteString(conn, "CONNECT "+o.Listener.Addr().String()+" HTTP/1.1\r\nHost: x\r\n\r\n")
	answer := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, answer); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		w.t.Fatalf("CONNECT: %q, %v", answer, err)
	}
	return conn
}

// keepAlive makes a request to an https origin and keeps the connection.
func (w *world) keepAlive(o *origin, h2 bool) io.Closer {
	w.t.Helper()
	client := w.client(h2)
	resp, err := client.Get(o.URL + "/products/1")
	must(w.t, err)
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != 200 || resp.ProtoAtLeast(2, 0) != h2 {
		w.t.Fatalf("%s %s", resp.Proto, resp.Status)
	}
	return closeFunc(client.CloseIdleConnections)
}

type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }
