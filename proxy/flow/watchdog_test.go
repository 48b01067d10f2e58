package flow

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Each case is a tunnel between two pipes: what its client and its origin do, and how the
// Watchdog finds it to stand still.
func TestStalledFlowsAreBrokenOff(t *testing.T) {
	const limit = time.Minute
	drip := func(conn net.Conn, pause time.Duration) {
		for err := error(nil); err == nil; time.Sleep(pause) {
			_, err = conn.Write([]byte("x"))
		}
	}
	take := func(conn net.Conn, pause time.Duration) {
		for err := error(nil); err == nil; time.Sleep(pause) {
			_, err = conn.Read(make([]byte, 1))
		}
	}
	for name, test := range map[string]struct {
		client, origin func(net.Conn)
		want           Stall
	}{
		"both are silent":               {want: Silent},
		"the client sends now and then": {client: func(c net.Conn) { drip(c, limit/2) }, origin: func(c net.Conn) { take(c, 0) }},
		"the origin sends now and then": {client: func(c net.Conn) { take(c, 0) }, origin: func(c net.Conn) { drip(c, limit/2) }},
		"the origin takes it slowly":    {client: func(c net.Conn) { drip(c, 0) }, origin: func(c net.Conn) { take(c, limit/2) }},
		"the origin takes nothing":      {client: func(c net.Conn) { drip(c, 0) }, want: UpBlocked},
		"the client takes nothing":      {origin: func(c net.Conn) { drip(c, 0) }, want: DownBlocked},
		"the client sends and takes nothing": {
			client: func(c net.Conn) { drip(c, time.Second) },
			origin: func(c net.Conn) { go take(c, 0); drip(c, 0) },
			want:   DownBlocked,
		},
		"the client sends and leaves": {
			client: func(c net.Conn) { c.Write([]byte("x")); c.Close() },
			origin: func(c net.Conn) { io.Copy(io.Discard, c); c.Close() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, ours := net.Pipe()
				up, origin := net.Pipe()
				for conn, does := range map[net.Conn]func(net.Conn){client: test.client, origin: test.origin} {
					if does != nil {
						go does(conn)
					}
				}
				begun := time.Now()
				time.AfterFunc(20*limit, func() { ours.Close(); up.Close() })
				w := Watchdog{Limit: limit}
				_, err := w.Join(ours, up)
				got, took := w.Stop(), time.Since(begun)
				if got != test.want {
					t.Errorf("%d after %v, want %d", got, took, test.want)
				}
				if test.want != Moving && (took < limit || took > limit*5/4+time.Second) {
					t.Errorf("it was broken off after %v", took)
				}
				if (err == nil) != (got == Moving) {
					t.Errorf("%d: %v", got, err)
				}
				client.Close()
				origin.Close()
				time.Sleep(limit) // until they have noticed
			})
		})
	}
}

// A Watchdog does not count the time while it is paused, and watches nothing without a limit.
func TestNoLimitAndPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := make(aborted, 1)
		w, unlimited := Watchdog{Limit: time.Minute, Target: broken}, Watchdog{Target: broken}
		w.Sync(w.Pause)
		w.Start()
		unlimited.Start()
		time.Sleep(time.Hour)
		if len(broken) > 0 {
			t.Error("it was broken off")
		}
		w.Sync(w.Resume)
		time.Sleep(time.Minute * 5 / 4)
		if len(broken) != 1 || w.Stop() != Silent || unlimited.Stop() != Moving {
			t.Error("it was not broken off")
		}
	})
}

// A Watchdog breaks nothing off after Stop, even if its time is up at that moment.
func TestNoAbortAfterStop(t *testing.T) {
	for range 100 {
		broken := make(aborted, 1)
		w := Watchdog{Limit: time.Microsecond, Target: broken}
		w.Start()
		if how := w.Stop(); (how == Moving) != (len(broken) == 0) {
			t.Errorf("%d, broken off %d times", how, len(broken))
		}
		time.Sleep(10 * time.Microsecond)
		if len(broken) > 1 {
			t.Error("it was broken off again")
		}
	}
}

type aborted chan Stall

func (a aborted) Abort(how Stall) { a <- how }
