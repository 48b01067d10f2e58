package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"robotsproxy/internal/conntest"

	"github.com/coder/websocket"
)

// echo starts a server that sends back what it gets, without HTTP or TLS, and returns its
// address.
func echo(t *testing.T, address string) string {
	t.Helper()
	return conntest.Serve(t, address, func(conn net.Conn) { io.Copy(conn, conn) })
}

// wantEcho sends a word and expects it back.
func wantEcho(t *testing.T, conn io.ReadWriter, word string) {
	t.Helper()
	io.WriteString(conn, word)
	echo := make([]byte, len(word))
	if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != word {
		t.Errorf("%q came back as %q, %v", word, echo, err)
	}
}

// After SIGTERM, what is under way may end: slow downloads, tunnels, WebSockets and streams.
func TestDrain(t *testing.T) {
	t.Parallel()
	const long = 16 << 20 // more than socket buffers hold between two processes
	echo := echo(t, "127.0.0.1:0")
	w := start(t, `shutdown_grace: 10m
https: {passthrough: ["localhost"]}
overrides: [{origin: "https://localhost:*", verdict: allow}]`)
	release := make(chan struct{})
	page := func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			rw.Write(bytes.Repeat([]byte("x"), long))
		case "/stream":
			io.WriteString(rw, "begin ")
			rw.(http.Flusher).Flush()
			<-release
			io.WriteString(rw, "end")
		case "/socket":
			conn, err := websocket.Accept(rw, r, nil)
			if err != nil {
				return
			}
			defer conn.CloseNow()
			for {
				kind, message, err := conn.Read(r.Context())
				if err != nil || conn.Write(r.Context(), kind, message) != nil {
					return
				}
			}
		}
	}
	replies := make(chan reply, len(doors))
	for _, d := range doors {
		o := newOrigin(t, d.origin, shop(), page)
		go func() { replies <- w.curl(d.option, "--limit-rate", "6M", o.URL+"/long") }()
		waitFor(t, func() bool { return len(o.pages()) > 0 }, func() string { return d.name + ": the request does not reach its origin" })
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	site := newOrigin(t, "h2", shop(), page)
	socket, _, err := websocket.Dial(ctx, site.URL+"/socket", &websocket.DialOptions{HTTPClient: w.client(false)})
	must(t, err)
	defer socket.CloseNow()
	stream, err := w.client(true).Get(site.URL + "/stream")
	must(t, err)
	defer stream.Body.Close()
	_, port, _ := net.SplitHostPort(echo)
	tunnel, err := w.connect(ctx, "tcp", "localhost:"+port)
	must(t, err)
	defer tunnel.Close()
	wantEcho(t, tunnel, "before")

	begun := time.Now()
	w.signal(syscall.SIGTERM)
	w.log.wait(t, w.exited, "stopping")
	w.wantNoListener()
	if status, _ := w.get("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz while draining: status %d", status)
	}
	wantEcho(t, tunnel, "while it is stopping")
	must(t, socket.Write(ctx, websocket.MessageText, []byte("hello")))
	if _, message, err := socket.Read(ctx); err != nil || string(message) != "hello" {
		t.Errorf("the WebSocket brings %q, %v", message, err)
	}
	for range doors {
		if r := <-replies; r.exit != 0 || r.status != 200 || len(r.body) != long {
			t.Errorf("a slow download ends with curl's %d, status %d, %d octets", r.exit, r.status, len(r.body))
		}
	}
	select {
	case <-w.exited:
		t.Error("the program did not wait for the tunnel, the WebSocket and the stream")
	default:
	}
	close(release)
	if rest, err := io.ReadAll(stream.Body); err != nil || string(rest) != "begin end" {
		t.Errorf("the stream brings %q, %v", rest, err)
	}
	tunnel.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(tunnel); err != nil || len(rest) > 0 {
		t.Errorf("the tunnel ends with %q, %v", rest, err)
	}
	must(t, socket.Close(websocket.StatusNormalClosure, ""))
	if state := w.ended(); state.ExitCode() != 0 {
		t.Errorf("%v, want exit code 0", state)
	}
	t.Logf("the shutdown took %v", time.Since(begun))
	if lines := w.log.Lines(`"message":"request"`); len(lines) != len(doors)+3 {
		t.Errorf("%d decisions are logged, want %d:\n%s", len(lines), len(doors)+3, strings.Join(lines, ""))
	}
	if lines := w.log.Lines("broken off"); len(lines) > 0 {
		t.Errorf("the log says %s", lines)
	}
}
