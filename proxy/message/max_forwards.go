package message

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// CountHop counts down the Max-Forwards of a TRACE or OPTIONS request (RFC 9110 7.6.2). It
// returns the final response to a request that must go no further, else nil.
func CountHop(r *http.Request) *http.Response {
	stated := r.Header["Max-Forwards"]
	if r.Method != http.MethodTrace && r.Method != http.MethodOptions || len(stated) != 1 {
		return nil
	}
	left, err := strconv.ParseUint(stated[0], 10, 31)
	switch {
	case err != nil && left == 0: // not a number
		return nil
	case left > 0: // a number out of range counts as the largest one
		r.Header["Max-Forwards"] = []string{strconv.FormatUint(left-1, 10)}
		return nil
	}
	resp := &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Length": {"0"}}, Body: http.NoBody, Request: r,
	}
	if r.Method == http.MethodOptions {
		return resp
	}
	echo := new(bytes.Buffer)
	fmt.Fprintf(echo, "%s %s %s\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Proto, r.Host)
	r.Header.WriteSubset(echo, map[string]bool{"Authorization": true, "Cookie": true, "Proxy-Authorization": true}) // RFC 9110 9.3.8
	echo.WriteString("\r\n")
	resp.Header.Set("Content-Type", "message/http")
	resp.Header.Set("Content-Length", strconv.Itoa(echo.Len()))
	resp.ContentLength, resp.Body = int64(echo.Len()), io.NopCloser(echo)
	return resp
}
