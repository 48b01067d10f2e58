package robots

import "bytes"

// Cut is what counts of a body of which at most one octet over max has been
// read: without what is over max, and without a last line that max cuts, since
// half of a rule is another rule (Disallow: / for Disallow: /private).
func Cut(body []byte, max int64) []byte {
	if int64(len(body)) <= max {
		return body
	}
	over := body[max]
	body = body[:max]
	if over == '\n' || over == '\r' {
		return body
	}
	return body[:bytes.LastIndexAny(body, "\r\n")+1]
}
