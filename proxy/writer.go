package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"robotsproxy/proxy/conns"
	"robotsproxy/proxy/flow"
)

// responseWriter is what every door hands to goproxy. It counts what the client
// gets, sends each piece of a body as it comes, and adds no Content-Type of its
// own.
type responseWriter struct {
	http.ResponseWriter
	exchange *exchange
	hijacked *conns.Set
	conn     net.Conn // once hijacked

	head   bool  // the request's method is HEAD
	length int64 // of the body, -1 if it is not stated
	status int   // 0 until the header has been written
	bytes  int64 // of the body, so far
}

func (w *responseWriter) WriteHeader(status int) {
	h := w.Header()
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.status = status
	if u := w.exchange.upload; u != nil && u.request.ProtoMajor == 1 && !u.whole() {
		// Where the next request begins on this connection is not known.
		h["Connection"] = []string{"close"}
	}
	w.exchange.watchdog.Start()
	if h["Content-Type"] == nil {
		h["Content-Type"] = nil // else net/http guesses one
	}
	var err error
	if w.length, err = strconv.ParseInt(h.Get("Content-Length"), 10, 64); err != nil {
		w.length = -1
	}
	w.ResponseWriter.WriteHeader(status)
	clear(h) // it has been sent: what is set from now on are trailers
	if w.length < 0 && !w.head && status != http.StatusSwitchingProtocols {
		w.flush()
	}
}

func (w *responseWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if w.head {
		return n, err
	}
	w.bytes += int64(n)
	if err == nil && w.bytes != w.length { // the last piece is sent when the handler ends
		err = w.flush()
	}
	return n, err
}

// ReadFrom copies by a pooled buffer. It hides that a connection can read from
// another by itself: for bodies of usual sizes that costs more than it saves.
func (w *responseWriter) ReadFrom(body io.Reader) (int64, error) {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	n, err := w.readFirst(body, buf[:])
	if err == io.EOF {
		return n, nil
	} else if err != nil {
		return n, err
	}
	rest, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{body}, buf[:])
	return n + rest, err
}

// headerDelay is how long a header waits for the body's first piece, to go out
// together with it.
const headerDelay = 5 * time.Millisecond

// readFirst copies the first piece of a body. A header whose body takes its time
// goes ahead of it.
func (w *responseWriter) readFirst(body io.Reader, buf []byte) (int64, error) {
	var (
		mu    sync.Mutex
		begun bool
	)
	ahead := time.AfterFunc(headerDelay, func() {
		mu.Lock()
		defer mu.Unlock()
		if !begun {
			w.flush()
		}
	})
	defer ahead.Stop()
	n, err := func() (int, error) {
		defer func() { // after a panic too: nobody may flush what the handler has left
			mu.Lock()
			defer mu.Unlock()
			begun = true
		}()
		return body.Read(buf)
	}()
	if n > 0 {
		if _, err := w.Write(buf[:n]); err != nil {
			return int64(n), err
		}
	}
	return int64(n), err
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (w *responseWriter) flush() error {
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush sends what has been written.
func (w *responseWriter) Flush() { w.flush() }

// Unwrap lets an [http.ResponseController] reach the connection.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack hands the connection over for a WebSocket. It is closed when the
// request has ended or the server is stopped.
func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.conn = conn
		w.hijacked.Add(conn)
		conn = flow.Conn{Conn: conn, Flow: &w.exchange.watchdog.Flow}
	}
	return conn, rw, err
}

// end closes a hijacked connection, which goproxy leaves open.
func (w *responseWriter) end() {
	if w.conn != nil {
		w.hijacked.Remove(w.conn)
		w.conn.Close()
	}
}
