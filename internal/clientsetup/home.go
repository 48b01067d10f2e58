package clientsetup

import (
	"net/url"
	"strings"
)

// callHome are the hosts that browsers ask by themselves, for updates, lists and accounts. A
// name stands for its subdomains too.
var callHome = []string{
	// Chromium
	"accounts.google.com", "android.clients.google.com", "clients1.google.com", "clients2.google.com",
	"clients2.googleusercontent.com", "clients4.google.com", "clientservices.googleapis.com",
	"content-autofill.googleapis.com", "edgedl.me.gvt1.com", "mtalk.google.com",
	"optimizationguide-pa.googleapis.com", "passwordsleakcheck-pa.googleapis.com", "redirector.gvt1.com",
	"safebrowsing.googleapis.com", "safebrowsingohttpgateway.googleapis.com", "update.googleapis.com",
	// Firefox
	"aus5.mozilla.org", "cdn.mozilla.net", "ciscobinary.openh264.org", "detectportal.firefox.com",
	"location.services.mozilla.com", "services.mozilla.com", "telemetry.mozilla.org",
}

// CallsHome returns the host of an origin, and whether browsers ask it by themselves.
func CallsHome(origin string) (host string, calls bool) {
	u, err := url.Parse(origin)
	if err != nil {
		return origin, false
	}
	host = u.Hostname()
	for _, name := range callHome {
		if host == name || strings.HasSuffix(host, "."+name) {
			return host, true
		}
	}
	return host, false
}
