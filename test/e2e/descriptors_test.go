package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A proxy without a descriptor for a connection says that the fault is its own. Neither it
// nor its fleet takes an origin for unreachable, and its admin server answers.
func TestOneOfAFleetRunsOutOfDescriptors(t *testing.T) {
	t.Parallel()
	const places, many = 32, 38 // of 64 descriptors, half are for connections
	server := newRedis(t)
	short := newWorld(t, server.config(), "limits: {header_timeout: 1h}")
	short.files = 2 * places
	short.run()
	t.Cleanup(short.stop)
	neighbour := start(t, server.config())
	short.log.wait(t, short.exited, `"open_files":64`, "leaves room for only 32 connections")
	var origins []*origin
	for range many {
		origins = append(origins, newOrigin(t, "http", shop(), nil))
	}

	client := dialProxy(t, short)
	var others []net.Conn
	for range places - 1 {
		conn, err := net.Dial("tcp", short.proxy)
		must(t, err)
		defer conn.Close()
		others = append(others, conn)
	}
	short.wantMetric("robotsproxy_connections", fmt.Sprint(places))
	for _, o := range origins {
		resp := client.ask(o.URL + "/products/1")
		if status := resp.Header.Get("Proxy-Status"); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" ||
			!strings.HasPrefix(status, "robotsproxy; error=connection_limit_reached;") {
			t.Fatalf("without a descriptor: %s, %v", resp.Status, resp.Header)
		}
	}
	if status, _ := short.get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	short.wantMetric(`robotsproxy_limit_reached_total{limit="descriptors"}`, fmt.Sprint(many))
	short.wantMetric(`robotsproxy_upstream_errors_total{error="connection_limit_reached"}`, fmt.Sprint(many))
	short.wantMetric(`robotsproxy_robots_fetches_total{outcome="unreachable"}`, "0")
	if lines := short.log.Lines(`"level":"warn"`, `"limit":"descriptors"`); len(lines) != 1 {
		t.Errorf("%d warnings: %s", len(lines), lines)
	}

	for _, o := range origins {
		if r := neighbour.curl(o.URL + "/products/1"); r.status != http.StatusOK {
			t.Errorf("the neighbour: status %d", r.status)
		}
	}
	for _, conn := range others {
		conn.Close()
	}
	short.wantMetric("robotsproxy_connections", "1")
	for _, o := range origins {
		if resp := client.ask(o.URL + "/products/1"); resp.StatusCode != http.StatusOK {
			t.Errorf("afterwards: %s", resp.Status)
		}
		if n := o.robotsFetches(); n != 1 {
			t.Errorf("robots.txt was fetched %d times", n)
		}
	}
}

// Idle connections of clients and origins are closed for new ones.
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.files = 64
	w.run()
	t.Cleanup(w.stop)
	for range 50 {
		o := newOrigin(t, "http", shop(), nil)
		if resp := dialProxy(t, w).ask(o.URL + "/products/1"); resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", resp.Status, resp.Header)
		}
		o = newOrigin(t, "h2", shop(), nil)
		resp, err := w.client(true).Get(o.URL + "/products/1")
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("over HTTP/2: %s, %v", resp.Status, resp.Header)
		}
	}
	if n, err := strconv.Atoi(w.metric(`robotsproxy_limit_reached_total{limit="descriptors"}`)); err != nil || n == 0 {
		t.Errorf("the limit was reached %d times, %v", n, err)
	}
	if status, _ := w.get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
}

// proxyConn is a client with a single connection to a proxy.
type proxyConn struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dialProxy(t *testing.T, w *world) *proxyConn {
	t.Helper()
	conn, err := net.Dial("tcp", w.proxy)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	return &proxyConn{t, conn, bufio.NewReader(conn)}
}

// ask gets a URL and returns the response, after reading its body.
func (c *proxyConn) ask(url string) *http.Response {
	c.t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	must(c.t, err)
	must(c.t, r.WriteProxy(c))
	resp, err := http.ReadResponse(c.r, r)
	must(c.t, err)
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		c.t.Fatal(err)
	}
	return resp
}
