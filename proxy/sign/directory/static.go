package directory

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"robotsproxy/proxy/sign"
)

// A StaticFile is a file of a directory on a static host.
type StaticFile struct {
	Name    string // with slashes, relative to the host's root
	Content []byte
}

// StaticFiles returns the files with which a static host serves the agent's directory: the
// keys at both paths, and the header fields for Netlify, Cloudflare Pages and nginx. The
// signatures hold from a few seconds before now until hold after now. hold must be more than
// [MaxAge].
func (a Agent) StaticFiles(now time.Time, hold time.Duration) ([]StaticFile, error) {
	d, err := a.sign(now, hold)
	if err != nil {
		return nil, err
	}
	about := fmt.Sprintf("# The key directory of %s; its signatures expire on %s.\n", a.Origin, now.Add(hold).UTC().Format(time.DateOnly))
	h := http.Header{}
	d.Set(h)
	h.Set("Cache-Control", cacheControl)
	return []StaticFile{
		{"index.html", d.Body}, // what static hosts send for /
		{strings.TrimPrefix(sign.DirectoryPath, "/"), d.Body},
		{"_headers", netlifyHeaders(about, h)},
		{"nginx.conf", nginxConfig(about, h)},
	}, nil
}

// publishedFields are the names of the header fields, in the order in which people read them.
var publishedFields = []string{"Content-Type", "Cache-Control", "Content-Digest", "Signature-Input", "Signature"}

// netlifyHeaders is the file _headers, which Netlify and Cloudflare Pages read.
func netlifyHeaders(about string, h http.Header) []byte {
	text := about
	for _, path := range []string{"/", sign.DirectoryPath} {
		text += path + "\n"
		for _, name := range publishedFields {
			text += "  " + name + ": " + h.Get(name) + "\n"
		}
	}
	return []byte(text)
}

// nginxConfig is a part of the server of the agent's host. No value has a quotation mark of
// nginx's, or a $.
func nginxConfig(about string, h http.Header) []byte {
	text := about + "# Include this in its server, and have root of that server name the folder with these files.\n" +
		"location = / {\n    rewrite ^ " + sign.DirectoryPath + " last;\n}\n" +
		"location = " + sign.DirectoryPath + " {\n    default_type " + h.Get("Content-Type") + ";\n    charset off;\n    gzip off;\n"
	for _, name := range publishedFields[1:] {
		text += "    add_header " + name + " '" + h.Get(name) + "';\n"
	}
	return []byte(text + "}\n")
}
