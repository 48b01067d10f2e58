package message

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

// Writer writes the response to a client. It counts what the client gets, sends each piece
// of a body as it comes, and adds no Content-Type of its own. The exported fields must be
// set before the first call.
type Writer struct {
	http.ResponseWriter
	Upload   *Upload        // the request's body; nil if it has none
	Watchdog *flow.Watchdog // is started with the final response, unless that can't stand still
	Hijacked *conns.Set     // holds the connection while it is hijacked
	Head     bool           // the request's method is HEAD

	conn   net.Conn // once hijacked
	length int64    // of the body; -1 if it is not stated
	status int
	octets int64
}

// Status is the status of the final response; 0 until its header has been written.
func (w *Writer) Status() int { return w.status }

// Octets is how much of the response's body has been written.
func (w *Writer) Octets() int64 { return w.octets }

// WriteHeader passes on interim responses too. After the final one, the header is empty:
// what is set from then on are trailers.
func (w *Writer) WriteHeader(status int) {
	h := w.Header()
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.status = status
	if u := w.Upload; u != nil && u.request.ProtoMajor == 1 && !u.Whole() {
		// Where the next request begins on this connection is not known.
		h["Connection"] = []string{"close"}
	}
	if h["Content-Type"] == nil {
		h["Content-Type"] = nil // else net/http guesses one
	}
	var err error
	if w.length, err = strconv.ParseInt(h.Get("Content-Length"), 10, 64); err != nil {
		w.length = -1
		w.Watchdog.Start()
	}
	w.ResponseWriter.WriteHeader(status)
	clear(h)
	if w.length < 0 && !w.Head && status != http.StatusSwitchingProtocols {
		w.flush()
	}
}

func (w *Writer) Write(p []byte) (int, error) {
	if int64(len(p)) != w.length || len(p) > maxDelayed {
		w.Watchdog.Start()
	}
	n, err := w.ResponseWriter.Write(p)
	if w.Head {
		return n, err
	}
	w.octets += int64(n)
	if err == nil && w.octets != w.length { // net/http sends the last piece when the handler ends
		err = w.flush()
	}
	return n, err
}

// maxDelayed bounds the bodies that net/http keeps until the handler ends, so that to write
// them never waits for the client.
const maxDelayed = 2 << 10

// ReadFrom copies through a pooled buffer. It does not let one connection read from the
// other, as io.Copy would: for bodies of usual sizes that costs more than it saves.
func (w *Writer) ReadFrom(body io.Reader) (int64, error) {
	buf := buffers.Get().(*[bufferSize]byte)
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

// headerDelay is how long a header waits for the first piece of the body, to be sent in one
// packet with it.
const headerDelay = 5 * time.Millisecond

// readFirst copies the first piece of a body. If that takes longer than headerDelay, it
// sends the header first.
func (w *Writer) readFirst(body io.Reader, buf []byte) (int64, error) {
	var (
		mu    sync.Mutex
		begun bool
	)
	ahead := time.AfterFunc(headerDelay, func() {
		mu.Lock()
		defer mu.Unlock()
		if !begun {
			w.Watchdog.Start()
			w.flush()
		}
	})
	defer ahead.Stop()
	n, err := func() (int, error) {
		defer func() { // after a panic too: nothing may flush when the handler has ended
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

// bufferSize is the size of the buffers that bodies are copied through.
const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func (w *Writer) flush() error {
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush sends what has been written.
func (w *Writer) Flush() { w.flush() }

// Unwrap lets an [http.ResponseController] reach the connection.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack hands the connection over for a WebSocket. Close closes it.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.Watchdog.Start()
		w.conn = conn
		w.Hijacked.Add(conn)
		conn = flow.Conn{Conn: conn, Flow: &w.Watchdog.Flow}
	}
	return conn, rw, err
}

// Close closes a hijacked connection. Any other connection is still net/http's.
func (w *Writer) Close() {
	if w.conn != nil {
		w.Hijacked.Remove(w.conn)
		w.conn.Close()
	}
}
