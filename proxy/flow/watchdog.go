package flow

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// Stall says how a flow stands still.
type Stall int

// Moving is the state of a flow that does not stand still. The others name what is wrong.
const (
	Moving      Stall = iota
	Silent            // neither side sends anything
	UpBlocked         // the origin takes nothing of what the client sends
	DownBlocked       // the client takes nothing of what the origin sends
)

// checksPerLimit is how often a Watchdog checks its flow within Limit. So it breaks a flow
// off at most a quarter of Limit too late.
const checksPerLimit = 4

// Watchdog breaks its flow off when that stands still: when neither side sends anything, or
// one takes nothing of what the other sends. Silence of one side is no fault while the
// other sends.
//
// It compares the flow's counts at intervals, so that what moves pays for counting alone.
// The zero value watches nothing.
type Watchdog struct {
	Flow
	Limit        time.Duration // how long the flow may stand still; 0 is no limit
	Target       Aborter       // what to break off
	AllowSilence bool          // silence is no fault

	timer     *time.Timer
	seen      [2]uint32 // the counts at the last check
	unchanged [2]int    // how many checks have found them so

	mu     sync.Mutex
	paused bool
	over   bool  // Stop has been called, or the flow has been broken off
	how    Stall // why it was broken off
}

// An Aborter can be broken off.
type Aborter interface {
	// Abort ends what stands still, without waiting for it. A Watchdog calls it once at
	// most, from a goroutine of its own, and with its lock held.
	Abort(how Stall)
}

// Start begins to watch, if that has not begun and there is a limit. Limit and Target must
// not change afterwards.
func (w *Watchdog) Start() {
	if w.Limit <= 0 || w.timer != nil {
		return
	}
	w.mu.Lock() // check must not run before timer is set
	defer w.mu.Unlock()
	if !w.over {
		w.timer = time.AfterFunc(w.Limit/checksPerLimit, w.check)
	}
}

// Stop ends the watch for good; a running Abort returns first. It returns how the flow
// stood still if it was broken off, else Moving.
func (w *Watchdog) Stop() Stall {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	return w.how
}

// Sync calls f while no Abort runs, and says whether one has run before, as Stop does. f
// may call Pause and Resume.
func (w *Watchdog) Sync(f func()) Stall {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	return w.how
}

// Pause stops the time that counts against Limit, because another limit holds. It must be
// called within Sync.
func (w *Watchdog) Pause() { w.paused = true }

// Resume ends Pause. It must be called within Sync.
func (w *Watchdog) Resume() { w.paused = false }

func (w *Watchdog) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	if w.how = w.stall(); w.how == Moving {
		w.timer.Reset(w.Limit / checksPerLimit)
		return
	}
	w.over = true
	w.Target.Abort(w.how)
}

// stall compares the counts with those of the last check.
func (w *Watchdog) stall() Stall {
	for i, d := range []*Direction{&w.Up, &w.Down} {
		if now := d.steps.Load(); now != w.seen[i] || w.paused {
			w.seen[i], w.unchanged[i] = now, 0
		} else {
			w.unchanged[i]++
		}
	}
	blocked := func(i int) bool { return w.unchanged[i] >= checksPerLimit && w.seen[i]%2 == 1 }
	switch {
	case blocked(1):
		return DownBlocked
	case blocked(0):
		return UpBlocked
	case !w.AllowSilence && w.unchanged[0] >= checksPerLimit && w.unchanged[1] >= checksPerLimit:
		return Silent
	}
	return Moving
}

// Error says in words how the flow stood still; nil if it did not.
func (w *Watchdog) Error(how Stall) error {
	switch how {
	case UpBlocked:
		return fmt.Errorf("broken off: the origin took nothing for %v", w.Limit)
	case DownBlocked:
		return fmt.Errorf("broken off: the client took nothing for %v", w.Limit)
	case Silent:
		return fmt.Errorf("broken off: neither side sent anything for %v", w.Limit)
	}
	return nil
}

// Join is [Join] under w, which closes both connections to break off what stands still, and
// needs no Target. The error says so.
func (w *Watchdog) Join(client, origin net.Conn) (down int64, err error) {
	w.Target = ends{client, origin}
	w.Start()
	defer w.Stop()
	down = Join(client, origin, &w.Flow)
	return down, w.Error(w.Stop())
}

// ends are the two connections that Watchdog.Join carries octets between.
type ends struct{ client, origin net.Conn }

func (e ends) Abort(Stall) {
	e.client.Close()
	e.origin.Close()
}
