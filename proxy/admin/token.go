package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"strings"
)

// Token is the secret that the API and the dashboard ask for; "" means none. Printing one does
// not show it.
type Token string

// UnmarshalText takes what a header can carry. Its error does not show the token.
func (t *Token) UnmarshalText(text []byte) error {
	if strings.ContainsFunc(string(text), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("a space, or a character that no header can carry, is in it; write printable ASCII alone, as openssl rand -hex 32 does")
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

// Warning says what is unsafe about listening on an address with this token; "" if nothing is.
func (t Token) Warning(listening net.Addr) string {
	tcp, ok := listening.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() || t != "" {
		return ""
	}
	return "the admin server listens beyond this machine and asks for no token: everyone who can reach it may see every URL that is asked for, forget policies and reload the configuration; set admin_token"
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

// guard lets requests with the token through. Without a token, it lets requests through that
// use a name of this server. Otherwise a web page whose name was made to point here (DNS
// rebinding) could read the API by its visitor's browser; with a token it cannot, since a
// browser does not send the token to a page of that name. No other site may load the answers
// into its own pages.
func (a *Admin) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		switch {
		case a.setup.Token == "" && !a.isOwnName(r.Host):
			writeProblem(w, http.StatusForbidden, "without a token this answers to IP addresses, localhost and the name in admin_listen, not to "+r.Host)
		case a.setup.Token != "" && !a.setup.Token.admits(r):
			w.Header().Add("WWW-Authenticate", `Basic realm="robotsproxy admin", charset="UTF-8"`)
			w.Header().Add("WWW-Authenticate", `Bearer realm="robotsproxy admin"`)
			writeProblem(w, http.StatusUnauthorized, "this wants the admin_token: as a Bearer token, or as the password of any user")
		default:
			next.ServeHTTP(w, r)
		}
	})
}
