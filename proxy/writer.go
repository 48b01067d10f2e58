package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
)

// responseWriter is what every door hands to goproxy. It counts what the client
// gets, sends pieces of a body of unknown length as they come, and adds no
// Content-Type of its own.
type responseWriter struct {
	http.ResponseWriter
	hijacked *connections
	conn     net.Conn // once hijacked

	head   bool // the request's method is HEAD
	stream bool // the body's length is unknown
	status int  // 0 until the header has been written
	bytes  int64
}

func newResponseWriter(w http.ResponseWriter, r *http.Request, hijacked *connections) *responseWriter {
	return &responseWriter{ResponseWriter: w, hijacked: hijacked, head: r.Method == http.MethodHead}
}

func (w *responseWriter) WriteHeader(status int) {
	h := w.Header()
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.status = status
		w.stream = h["Content-Length"] == nil
		if h["Content-Type"] == nil {
			h["Content-Type"] = nil // else net/http guesses one
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *responseWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if !w.head {
		w.bytes += int64(n)
	}
	if err == nil && w.stream {
		err = w.flush()
	}
	return n, err
}

// ReadFrom copies by a pooled buffer. It hides that a connection can read from
// another by itself: for bodies of usual sizes that costs more than it saves.
func (w *responseWriter) ReadFrom(body io.Reader) (int64, error) {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{body}, buf[:])
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
		w.hijacked.add(conn)
	}
	return conn, rw, err
}

// end closes a hijacked connection, which goproxy leaves open.
func (w *responseWriter) end() {
	if w.conn != nil {
		w.hijacked.remove(w.conn)
		w.conn.Close()
	}
}
