package warc_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"robotsproxy/cli/evidence/warc"
)

// wanted is a file with one text, unpacked. Its line ends are CRLF, but that of the text.
const wanted = `WARC/1.1
WARC-Type: warcinfo
WARC-Record-ID: <urn:uuid:aa056112-24b1-5bc4-a978-4dcf1e38f585>
WARC-Date: 2026-01-05T00:00:00Z
WARC-Filename: texts.warc.gz
WARC-Block-Digest: sha256:55b4d846f63569b959d54bb25e7918c1e0e013a3348b4d8b7380c4001e577d29
Content-Type: application/warc-fields
Content-Length: 179

software: robotsproxy/test
format: WARC File Format 1.1
conformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/
description: what was read


WARC/1.1
WARC-Type: resource
WARC-Record-ID: <urn:uuid:58fa298f-5bc2-5164-ac8b-49ca1a89dbcc>
WARC-Date: 2026-01-05T12:00:00.5Z
WARC-Target-URI: https://shop.example/robots.txt
WARC-Warcinfo-ID: <urn:uuid:aa056112-24b1-5bc4-a978-4dcf1e38f585>
WARC-Block-Digest: sha256:fd89345af6aca5dab85f2aa6a830e270a362b1fa6b5f19607ddd773a081ed651
WARC-Payload-Digest: sha256:fd89345af6aca5dab85f2aa6a830e270a362b1fa6b5f19607ddd773a081ed651
Content-Type: text/plain
Content-Length: 14

` + text + `

`

const text = "User-agent: *|"

func TestFile(t *testing.T) {
	var b bytes.Buffer
	w, err := warc.NewWriter(&b, warc.Info{
		Filename: "texts.warc.gz", Software: "robotsproxy/test", Description: "what was read",
		Date: time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	content := []byte(strings.Replace(text, "|", "\n", 1))
	at := time.Date(2026, 1, 5, 13, 0, 0, 5e8, time.FixedZone("", 3600))
	id, err := w.Resource("https://shop.example/robots.txt", "text/plain", content, at)
	if err != nil {
		t.Fatal(err)
	}
	if want := "urn:uuid:58fa298f-5bc2-5164-ac8b-49ca1a89dbcc"; id != want {
		t.Errorf("the ID is %s, want %s", id, want)
	}
	records, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(records)
	want := strings.NewReplacer("\n", "\r\n", "|", "\n").Replace(wanted)
	if err != nil || string(got) != want {
		t.Errorf("%v; the file is\n%s\nwant\n%s", err, got, want)
	}
}
