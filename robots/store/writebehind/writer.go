package writebehind

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"robotsproxy/robots/store"
)

const (
	retryWriteAfter = 5 * time.Second // after a failed write
	slowWriteAfter  = 5 * time.Second // a write that takes longer counts as failed
	closeTimeout    = 5 * time.Second // for what is pending when a Store is closed

	// writeBatch is how many records are written at once: one transaction in SQLite.
	writeBatch = 128
	// gatherFor is how long records gather for a batch that is not full. A transaction costs
	// as much as many records.
	gatherFor = 25 * time.Millisecond
)

// Close writes what is pending, as far as that is possible within five seconds.
func (w *Store) Close() {
	w.closed.Do(func() { close(w.closing) })
	timeout := time.AfterFunc(closeTimeout, w.cancel)
	<-w.stopped
	timeout.Stop()
	w.cancel()
	w.outage.Close()
}

// writeAll writes pending records until the Store is closed.
func (w *Store) writeAll() {
	defer close(w.stopped)
	defer w.logLosses()
	for {
		closing := w.gather()
		found, written := w.writeOldest()
		switch {
		case closing && !(found && written):
			return
		case found && !written:
			select {
			case <-time.After(retryWriteAfter):
			case <-w.closing:
			}
		}
	}
}

// hasBatch reports whether what is pending is to be written at once: it fills a batch, or half
// of the room.
func (w *Store) hasBatch() bool {
	pending, bytes := w.pending.Held()
	return pending >= writeBatch || bytes >= maxPendingBytes/2
}

// gather waits for a batch of records, or until gatherFor has passed since there was something
// to write. It does not wait once the Store is closed, which it reports.
func (w *Store) gather() (closing bool) {
	select {
	case <-w.closing:
		return true
	default:
	}
	if pending, _ := w.pending.Held(); pending == 0 {
		select {
		case <-w.added:
		case <-w.closing:
			return true
		}
	}
	if !w.hasBatch() {
		select {
		case <-w.full:
		case <-time.After(gatherFor):
		case <-w.closing:
			return true
		}
	}
	return false
}

// writeOldest writes a batch of pending records, if there are any, and reports whether
// that worked.
func (w *Store) writeOldest() (found, written bool) {
	w.writing <- struct{}{}
	defer func() { <-w.writing }()
	recs := w.pending.Oldest(writeBatch)
	if len(recs) == 0 {
		return false, false
	}
	if w.write(recs...) {
		return true, true
	}
	for _, rec := range recs { // perhaps only one of them cannot be written
		if len(recs) == 1 || !w.write(rec) {
			w.pending.Get(w.ctx, rec.Origin) // makes it the youngest: the others come first now
			return true, false
		}
	}
	return true, true
}

// errSlow is the failure of a write that takes longer than slowWriteAfter.
var errSlow = fmt.Errorf("writing has taken more than %v", slowWriteAfter)

// write writes pending records and reports whether that worked. Only a write proves that a
// store works again: a full disk can still be read.
func (w *Store) write(recs ...store.Record) bool {
	defer w.wakeWaiting()
	attempt := w.outage.Begin()
	slow := time.AfterFunc(slowWriteAfter, func() { w.failed(w.ctx, errSlow) })
	err := w.guardedPut(recs)
	slow.Stop()
	if w.counted(w.ctx, putting, err) != nil {
		w.failed(w.ctx, err)
		return false
	}
	attempt.Succeeded()
	for _, rec := range recs {
		w.pending.Remove(rec)
	}
	return true
}

// guardedPut is the store's Put. A panic, which something that a site has sent may cause,
// becomes an error.
func (w *Store) guardedPut(recs []store.Record) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			w.log.Error().Any("panic", cause).Bytes("stack", debug.Stack()).
				Msg("a fault in the program kept it from storing a policy; please report this")
			err = errors.New("a fault in the program")
		}
	}()
	return w.beneath.Put(w.ctx, recs...)
}

// failed takes note that the store fails, unless ctx has ended: then the error says nothing
// about the store.
func (w *Store) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.outage.Failed(err)
	w.trim()
	w.wakeWaiting()
}

func (w *Store) logOutage(err error) {
	w.log.Error().Err(err).Msg("policies cannot be kept; going on with those in memory and fetching the others")
}

func (w *Store) logRecovery() {
	line := w.log.Info()
	if n := w.unlogged.Swap(0); n > 0 {
		line.Int64("lost", n)
	}
	line.Msg("policies can be kept again")
}

// lose counts records that the store will not get.
func (w *Store) lose(n int) {
	w.metrics.lost.Add(float64(n))
	if w.unlogged.Add(int64(n)) == int64(n) {
		w.log.Warn().Msg("there is no room for all policies that wait to be stored; the oldest are given up")
	}
}

// logLosses has the log say at the end how many records the store has not got.
func (w *Store) logLosses() {
	left, _ := w.pending.Held()
	w.metrics.lost.Add(float64(left))
	if n := w.unlogged.Add(int64(left)); n > 0 {
		w.log.Error().Int64("lost", n).Msg("some policies could not be stored before the end; they will be fetched again when they are needed")
	}
}
