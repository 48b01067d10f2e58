package distrust

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// Handshake follows the TLS that a client speaks in one tunnel, and reports to a Detector.
// One goroutine at a time may call its methods. The zero value is that of a tunnel without
// TLS, and reports nothing.
type Handshake struct {
	detector *Detector
	pair     pair
	shown    bool      // the client has been shown a certificate
	done     time.Time // when the handshake was done
	asked    bool      // a request has come
}

// Handshake begins to follow a handshake for host, with the client at an address.
func (d *Detector) Handshake(client net.Addr, host string) Handshake {
	ip, _, _ := net.SplitHostPort(client.String())
	return Handshake{detector: d, pair: pair{ip, host}}
}

// CertificateShown notes that the client gets to see a certificate.
func (h *Handshake) CertificateShown() { h.shown = true }

// Failed notes that the handshake has failed.
func (h *Handshake) Failed(err error) {
	var timeout net.Error
	if !h.shown || errors.Is(err, net.ErrClosed) || errors.As(err, &timeout) && timeout.Timeout() {
		h.detector.log.Debug().Err(err).Str("client", h.pair.client).Str("host", h.pair.host).Msg("TLS handshake with a client failed")
		return
	}
	h.detector.left(h.pair)
}

// Done notes that the handshake is done.
func (h *Handshake) Done() { h.done = time.Now() }

// NoteState notes a new state of the connection, after the handshake: its first request
// shows that the client trusts the CA, its end without one that it may not.
func (h *Handshake) NoteState(state http.ConnState) {
	switch {
	case h.asked || h.done.IsZero():
	case state == http.StateActive:
		h.asked = true
		h.detector.asked(h.pair)
	case state == http.StateClosed && h.shown && time.Since(h.done) < leaveWindow:
		h.detector.left(h.pair)
	case state == http.StateClosed:
		h.detector.unused.Inc()
	}
}
