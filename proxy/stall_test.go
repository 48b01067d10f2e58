package proxy

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A tunnel between two pipes: what its client and its origin do, and how it is found to
// stand still.
func TestWhatStandsStill(t *testing.T) {
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
		want           stall
	}{
		"both are silent":               {want: silent},
		"the client sends now and then": {client: func(c net.Conn) { drip(c, limit/2) }, origin: func(c net.Conn) { take(c, 0) }},
		"the origin sends now and then": {client: func(c net.Conn) { take(c, 0) }, origin: func(c net.Conn) { drip(c, limit/2) }},
		"the origin takes it slowly":    {client: func(c net.Conn) { drip(c, 0) }, origin: func(c net.Conn) { take(c, limit/2) }},
		"the origin takes nothing":      {client: func(c net.Conn) { drip(c, 0) }, want: upHeld},
		"the client takes nothing":      {origin: func(c net.Conn) { drip(c, 0) }, want: downHeld},
		"the client sends and takes nothing": {
			client: func(c net.Conn) { drip(c, time.Second) },
			origin: func(c net.Conn) { go take(c, 0); drip(c, 0) },
			want:   downHeld,
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
				var w watch
				w.start(limit, tunnelEnds{ours, up})
				relayBoth(ours, up, &w.flow)
				got, took := w.stop(), time.Since(begun)
				if got != test.want {
					t.Errorf("%d after %v, want %d", got, took, test.want)
				}
				if test.want != moves && (took < limit || took > limit*5/4+time.Second) {
					t.Errorf("it was broken off after %v", took)
				}
				if err := w.why(got); (err == nil) != (got == moves) {
					t.Errorf("%d: %v", got, err)
				}
				client.Close()
				origin.Close()
				time.Sleep(limit) // until they have noticed
			})
		})
	}
}

// What another limit is on is not counted, and nothing is without a limit.
func TestWhatIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w, unlimited watch
		broken := make(breaks, 1)
		w.paused.Store(true)
		w.start(time.Minute, broken)
		unlimited.start(0, broken)
		time.Sleep(time.Hour)
		if len(broken) > 0 {
			t.Error("it was broken off")
		}
		w.paused.Store(false)
		time.Sleep(time.Minute * 5 / 4)
		if len(broken) != 1 || w.stop() != silent || unlimited.stop() != moves {
			t.Error("it was not broken off")
		}
	})
}

// Nothing is broken off after stop, be it that very moment.
func TestWatchesThatStop(t *testing.T) {
	for range 100 {
		var w watch
		broken := make(breaks, 1)
		w.start(time.Microsecond, broken)
		if how := w.stop(); (how == moves) != (len(broken) == 0) {
			t.Errorf("%d, broken off %d times", how, len(broken))
		}
		time.Sleep(10 * time.Microsecond)
		if len(broken) > 1 {
			t.Error("it was broken off again")
		}
	}
}

type breaks chan stall

func (b breaks) breakOff(how stall) { b <- how }
