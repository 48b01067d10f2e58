package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The fields by which requests and responses of a run are known.
const (
	idField     = "Soak-Id"     // of a request: the number of its exchange
	originField = "Soak-Origin" // of a response: the number of the origin that it comes from
)

// A serving is one answer to a request for a robots.txt.
type serving struct {
	version version
	at      time.Time
}

// An origin is a web site that misbehaves: at some paths always, and for a while as a whole.
type origin struct {
	number   int
	secure   bool // https
	http2    bool
	ftp      bool
	steady   bool // it has one robots.txt, and is always well
	address  string
	versions []version // of its robots.txt

	seed    uint64
	checker *checker
	stop    func() error

	mu     sync.Mutex
	now    version // the robots.txt that is served
	mood   mood
	spans  []span
	served []serving
	conns  map[net.Conn]bool
}

// newOrigin starts an origin. Of four, the first two are steady; of 25, one is an FTP server.
// good is its certificate,
// wrong that
// of a host that it isn't.
func newOrigin(seed uint64, number int, n network, check *checker, good, wrong tls.Certificate) (*origin, error) {
	random := rand.New(rand.NewPCG(seed, uint64(1000+number)))
	isFTP := number%25 == 4
	o := &origin{
		number: number, ftp: isFTP, secure: number%3 > 0 && !isFTP, http2: number%3 == 2, steady: number%4 < 2,
		seed: seed, checker: check, mood: well, conns: map[net.Conn]bool{},
	}
	for i := range 5 {
		kind := robotsRules
		if !o.steady && i > 0 {
			kind = robotsKinds[random.IntN(len(robotsKinds))]
		}
		o.versions = append(o.versions, newVersion(random, i, kind))
	}
	o.now = o.versions[0]
	l, err := net.Listen("tcp", n.address(number, o.secure))
	if err != nil {
		return nil, fmt.Errorf("starting origin %d: %w", number, err)
	}
	o.address = l.Addr().String()
	l = moodyListener{l, o}
	if o.ftp {
		o.stop = l.Close
		go o.serveFTP(l)
		return o, nil
	}
	server := &http.Server{Handler: o, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(o.http2)
	o.stop = server.Close
	if !o.secure {
		go server.Serve(l)
		return o, nil
	}
	server.TLSConfig = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if o.is(wrongTLS) {
			return &wrong, nil
		}
		return &good, nil
	}}
	go server.ServeTLS(l, "", "")
	return o, nil
}

// url is that of a path at the origin.
func (o *origin) url(path string) string {
	return o.scheme() + "://" + o.address + path
}

func (o *origin) scheme() string {
	switch {
	case o.ftp:
		return "ftp"
	case o.secure:
		return "https"
	}
	return "http"
}

// page is that at a path. An FTP server has fewer faults.
func (o *origin) page(path string) page {
	p := pageOf(o.seed, o.number, path)
	if o.ftp {
		switch p.fault {
		case circle, failing:
			p.fault = faultless
		case brokenChunk:
			p.fault = cut
		}
	}
	return p
}

// isMine says whether a response may be the origin's. Those of FTP servers carry no mark.
func (o *origin) isMine(header http.Header) bool {
	return o.ftp || header.Get(originField) == strconv.Itoa(o.number)
}

// close ends the origin, with all its connections.
func (o *origin) close() {
	o.stop()
	o.turn(down)
}

// publish has the origin serve another robots.txt.
func (o *origin) publish(v version) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = v
}

// past returns the versions of robots.txt that were served since a time, and the moods since
// then.
func (o *origin) past(since time.Time) (served []version, moods []mood) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.served {
		if s.at.After(since) {
			served = append(served, s.version)
		}
	}
	for _, s := range o.spans {
		if s.until.IsZero() || s.until.After(since) {
			moods = append(moods, s.mood)
		}
	}
	return served, moods
}

// memory is how long an origin remembers its past.
const memory = 10 * time.Minute

// forget drops what happened too long ago. The caller must hold mu.
func (o *origin) forget(now time.Time) {
	o.served = slices.DeleteFunc(o.served, func(s serving) bool { return now.Sub(s.at) > memory })
	o.spans = slices.DeleteFunc(o.spans, func(s span) bool { return !s.until.IsZero() && now.Sub(s.until) > memory })
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(originField, strconv.Itoa(o.number))
	if r.URL.Path == "/robots.txt" {
		o.serveRobots(w, r)
		return
	}
	p := o.page(r.URL.Path)
	o.checker.reached(o, r)
	if !o.takeUpload(p, r) {
		panic(http.ErrAbortHandler)
	}
	if o.is(burst) {
		http.Error(w, burstText, http.StatusServiceUnavailable)
		return
	}
	o.servePage(w, r, p)
}

const burstText = "overloaded"

// takeUpload reads what a client sends, and checks it. It reports whether all has come.
func (o *origin) takeUpload(p page, r *http.Request) bool {
	got := compareWith(p.uploaded())
	_, err := io.Copy(got, r.Body)
	if r.Method != http.MethodPost || r.Header.Get(idField) == "" {
		return err == nil // from clients that send what they like
	}
	o.checker.uploaded(o, r, p, got, err)
	return err == nil
}

func (o *origin) servePage(w http.ResponseWriter, r *http.Request, p page) {
	switch p.fault {
	case reset:
		abort(w, nil)
	case garbled:
		abort(w, []byte("220 this is no web server\r\n"))
	case silent:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case circle:
		w.Header().Set("Location", o.url(r.URL.Path))
	}
	if p.framed && p.fault != endless && p.fault != brokenChunk {
		w.Header().Set("Content-Length", strconv.Itoa(p.length))
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(p.status())
	if r.Method == http.MethodHead {
		return
	}
	body := p.body()
	switch p.fault {
	case cut:
		io.CopyN(w, body, int64(p.length/2))
		flush(w)
		panic(http.ErrAbortHandler)
	case brokenChunk:
		io.CopyN(w, body, int64(p.length/2))
		flush(w)
		abort(w, []byte("zz\r\nno chunk\r\n"))
	case endless:
		io.Copy(w, &paced{body, r.Context(), 64 << 10})
	case slow:
		io.CopyN(w, &paced{body, r.Context(), p.length/4 + 1}, int64(p.length))
	default:
		io.CopyN(w, body, int64(p.length))
	}
}

// serving returns the robots.txt to serve, and whether the origin is too busy for that.
func (o *origin) serving() (v version, isBurst bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mood == burst {
		return o.now, true
	}
	now := time.Now()
	o.forget(now)
	o.served = append(o.served, serving{o.now, now})
	o.checker.count("robots.txt served: "+string(o.now.kind), 1)
	return o.now, false
}

func (o *origin) serveRobots(w http.ResponseWriter, r *http.Request) {
	v, isBurst := o.serving()
	if isBurst {
		http.Error(w, burstText, http.StatusServiceUnavailable)
		return
	}
	switch v.kind {
	case robotsSlow:
		pause(r.Context(), time.Second)
		io.WriteString(w, v.text())
	case robotsLong:
		io.Copy(w, io.MultiReader(strings.NewReader(v.text()), comments{}))
	case robotsMissing:
		http.NotFound(w, r)
	case robotsCircle:
		http.Redirect(w, r, "/robots.txt", http.StatusFound)
	case robotsBinary:
		io.CopyN(w, content(o.seed, "binary"), 10_000)
	case robotsFailing:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case robotsCut:
		w.Header().Set("Content-Length", "100000")
		io.WriteString(w, v.text())
		flush(w)
		panic(http.ErrAbortHandler)
	case robotsBadChunk:
		io.WriteString(w, v.text())
		flush(w)
		abort(w, []byte("zz\r\nno chunk\r\n"))
	default:
		io.WriteString(w, v.text())
	}
}

// abort breaks the exchange off, after last words where the connection is the exchange's own.
func abort(w http.ResponseWriter, lastWords []byte) {
	if hijacker, ok := w.(http.Hijacker); ok {
		if conn, _, err := hijacker.Hijack(); err == nil {
			conn.Write(lastWords)
			if len(lastWords) == 0 {
				breakOff(conn)
			}
			conn.Close()
		}
	}
	panic(http.ErrAbortHandler)
}

func flush(w http.ResponseWriter) { http.NewResponseController(w).Flush() }

// pause waits, and reports whether it waited for all of the time.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// paced is a reader that takes breath after each piece.
type paced struct {
	io.Reader
	ctx   context.Context
	piece int
}

func (p *paced) Read(b []byte) (int, error) {
	if !pause(p.ctx, 100*time.Millisecond) {
		return 0, p.ctx.Err()
	}
	n, err := io.ReadFull(p.Reader, b[:min(len(b), p.piece)])
	if err == io.ErrUnexpectedEOF {
		err = nil // a last piece
	}
	return n, err
}
