package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"robotsproxy/test/build"
)

// resident is how much of the machine's memory the program holds, in KiB.
func (w *world) resident() (kib int) {
	w.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.command.Process.Pid))
	must(w.t, err)
	for line := range strings.Lines(string(status)) {
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib
		}
	}
	w.t.Skip("this system does not tell a process's memory")
	return 0
}

// What many connections held goes back to the system when they are closed.
func TestMemoryIsGivenBack(t *testing.T) {
	t.Parallel()
	const connections = 2000
	w := newWorld(t, "https: {mode: intercept}\nlog: {decisions: none}")
	w.binary = build.Plain(t) // the race detector keeps memory of its own
	w.run()
	t.Cleanup(w.stop)
	ca, err := os.ReadFile(w.caFile())
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	site := newOrigin(t, "https", shop(), nil)
	site.Config.SetKeepAlivesEnabled(true)
	host := strings.TrimPrefix(site.URL, "https://")
	before := w.resident()

	var mu sync.Mutex
	var open []*tls.Conn
	var opening sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		opening.Go(func() {
			for next.Add(1) <= connections {
				tunnel, err := w.connect(context.Background(), "tcp", host)
				if err != nil {
					t.Error(err)
					return
				}
				conn := tls.Client(tunnel, &tls.Config{RootCAs: roots, ServerName: "localhost"})
				r, _ := http.NewRequest(http.MethodGet, site.URL+"/cart", nil)
				if err := r.Write(conn); err != nil {
					t.Error(err)
				}
				if n, err := conn.Read(make([]byte, 32<<10)); n == 0 || err != nil && !bytes.Contains([]byte(err.Error()), []byte("EOF")) {
					t.Error(err)
				}
				mu.Lock()
				open = append(open, conn)
				mu.Unlock()
			}
		})
	}
	opening.Wait()
	full := w.resident()
	for _, conn := range open {
		conn.Close()
	}
	w.wantMetric("robotsproxy_connections", "0")
	left := func() int { return w.resident() - before }
	waitFor(t, func() bool { return left() < (full-before)/2 },
		func() string {
			return fmt.Sprintf("%d KiB before, %d KiB with %d connections, %d KiB more than before when they are gone", before, full, connections, left())
		})
	t.Logf("%d KiB before, %d KiB with %d connections, %d KiB after", before, full, connections, w.resident())
}
