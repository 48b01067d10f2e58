// Package guard says who may use the admin server's API and dashboard: whoever has the [Token]
// or, where there is none, whoever asks for a name of the server. A [Guard] stands before their
// handlers.
package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Token is the secret that the API and the dashboard require; "" means none. Printing one
// does not show it.
type Token string

// UnmarshalText accepts what a header can carry. Its error does not show the token.
func (t *Token) UnmarshalText(text []byte) error {
	if strings.ContainsFunc(string(text), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("it has a space, or a character that no header can carry; use printable ASCII only, such as openssl rand -hex 32 prints")
	}
	*t = Token(text)
	return nil
}

func (t Token) String() string {
	if t == "" {
		return ""
	}
	return "(secret)"
}

// Warning returns what is unsafe about listening on an address with this token; "" if nothing
// is.
func (t Token) Warning(listening net.Addr) string {
	tcp, ok := listening.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() || t != "" {
		return ""
	}
	return "the admin server can be reached from other machines and requires no token: whoever reaches it can see every URL that clients ask for, forget policies and reload the configuration; set admin_token"
}

// admits reports whether a request has the token: as a Bearer token (RFC 6750 2.1), or as the
// password of any user (Basic, RFC 7617).
func (t Token) admits(r *http.Request) bool {
	_, given, ok := r.BasicAuth()
	if !ok {
		scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		given = strings.TrimLeft(rest, " ")
	}
	// Hashes have one length, so the comparison does not leak that of the token.
	want, got := sha256.Sum256([]byte(t)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// A Guard lets requests with the token through. If there is no token, it lets through those for
// a name of this server. Otherwise a web page whose name was made to resolve to this server
// (DNS rebinding) could read the API through its visitor's browser. With a token it can't,
// since browsers don't send the token under that name.
type Guard struct {
	Token  Token
	Listen string // the address that the server listens on, as configured; its host is a name of the server
	// Refuse answers a request that may not pass. The detail says how to pass.
	Refuse func(w http.ResponseWriter, status int, detail string)
}

// Protect returns a handler that hands on to next what may pass. Other sites can't load the
// responses into their own pages.
func (g Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		switch {
		case g.Token == "" && !g.isOwnName(r.Host):
			g.Refuse(w, http.StatusForbidden, "without a token, this server answers requests for IP addresses, localhost and the host in admin_listen, not for "+r.Host)
		case g.Token != "" && !g.Token.admits(r):
			w.Header().Add("WWW-Authenticate", `Basic realm="robotsproxy admin", charset="UTF-8"`)
			w.Header().Add("WWW-Authenticate", `Bearer realm="robotsproxy admin"`)
			g.Refuse(w, http.StatusUnauthorized, "send the admin_token: as a Bearer token, or as the password of any user")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isOwnName reports whether a host is a name of this server: an IP address, localhost, or the
// host that the server is configured to listen on.
func (g Guard) isOwnName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	own, _, _ := net.SplitHostPort(g.Listen)
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || own != "" && strings.EqualFold(host, own)
}
