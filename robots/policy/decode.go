package policy

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// decoded is the body as text. No encoding is asked for, but some servers know
// nothing else than gzip, and some name in Content-Encoding what is none (the
// character set): those are read as they come.
func decoded(resp *http.Response) (io.Reader, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ",")))
	switch coding {
	case "gzip", "x-gzip":
		body := bufio.NewReader(resp.Body)
		if _, err := body.Peek(1); err == io.EOF {
			return body, nil // 204 and other empty ones
		}
		return gzip.NewReader(body)
	}
	for _, compressed := range []string{"gzip", "br", "zstd", "deflate", "compress"} {
		for name := range strings.SplitSeq(coding, ",") {
			if strings.TrimSpace(name) == compressed {
				return nil, fmt.Errorf("Content-Encoding %s, which was not asked for", coding)
			}
		}
	}
	return resp.Body, nil
}
