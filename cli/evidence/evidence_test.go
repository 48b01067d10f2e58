package evidence

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"robotsproxy/cli/evidence/sealedzip"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
)

// jan is midnight of a day in January 2026.
func jan(day int) time.Time { return time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC) }

func period(from, until int) counts.Period {
	return counts.Period{From: counts.DayOf(jan(from)), Until: counts.DayOf(jan(until))}
}

func sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// text is a version of a file, seen on these days at noon.
func text(text string, first, last int) store.Version {
	const noon = 12 * time.Hour
	return store.Version{SHA256: sum(text), Status: 200, FirstSeen: jan(first).Add(noon), LastSeen: jan(last).Add(noon)}
}

const shop, shopURL = "https://shop.example", "https://shop.example/robots.txt"

// textOf knows the texts of these tests.
func textOf(_ context.Context, sha256 string) ([]byte, bool, error) {
	for _, text := range []string{"User-agent: *\nDisallow: /new\n", "User-agent: *\nDisallow: /old\n", "User-agent: *\n", "[]"} {
		if sum(text) == sha256 {
			return []byte(text), true, nil
		}
	}
	return nil, false, nil
}

// shopFiles are those of every origin in these tests.
func shopFiles(_ context.Context, origin string) ([]File, error) {
	return []File{
		{URL: origin + "/robots.txt", MediaType: "text/plain", Decides: true, Versions: []store.Version{
			text("User-agent: *\nDisallow: /new\n", 9, 12), text("User-agent: *\nDisallow: /old\n", 2, 8), text("User-agent: *\n", 1, 1),
			{Status: 404, FirstSeen: jan(8).Add(13 * time.Hour), LastSeen: jan(8).Add(14 * time.Hour)},
		}, Text: textOf},
		{URL: origin + "/.well-known/tdmrep.json", MediaType: "application/json", Versions: []store.Version{text("[]", 3, 3)}, Text: textOf},
	}, nil
}

func line(day int, url, sum string) string {
	return fmt.Sprintf(`{"level":"info","client":"127.0.0.1","identity":"images","agent":"ExampleBot","method":"GET","url":%q,"verdict":"disallowed",`+
		`"reason":"rule","rule":"Disallow: /old","line":2,"robots_sha256":%q,"status":403,"time":%q,"message":"request"}`,
		url, sum, jan(day).Add(15*time.Hour).Format(time.RFC3339Nano))
}

// logOf is a log with these texts, each in a file.
func logOf(texts ...string) Log {
	var l Log
	for i := range texts {
		l.Names = append(l.Names, "logs/"+strconv.Itoa(i)+".log")
	}
	l.Open = func(name string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(texts[slices.Index(l.Names, name)])), nil
	}
	return l
}

func testKey(seed byte) *sign.Key {
	return sign.NewKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
}

// archiveOf is a signed archive of decisions from 5 to 10 January.
func archiveOf(source Source) *Archive {
	return &Archive{
		Scope: Scope{Period: period(5, 10)}, Source: source, Files: shopFiles, Software: "robotsproxy/test",
		Signers: []Signer{{"images", "https://bot.example.org", testKey(1)}, {"texts", "https://bot.example.org", testKey(1)}},
		Scratch: func() (io.ReadWriteSeeker, error) { return new(memoryFile), nil },
	}
}

// A memoryFile is a scratch file that is written, and then read.
type memoryFile struct {
	content []byte
	reader  *bytes.Reader
}

func (f *memoryFile) Write(p []byte) (int, error) {
	f.content = append(f.content, p...)
	return len(p), nil
}

func (f *memoryFile) Seek(at int64, whence int) (int64, error) {
	f.reader = bytes.NewReader(f.content)
	return f.reader.Seek(at, whence)
}

func (f *memoryFile) Read(p []byte) (int, error) { return f.reader.Read(p) }

func (a *Archive) write(t testing.TB) ([]byte, Found) {
	t.Helper()
	var b bytes.Buffer
	found, err := a.Write(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), found
}

// unpack returns the files of an archive by name, and those that end in .gz unpacked too.
func unpack(t testing.TB, archive []byte) map[string]string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	must(t, err)
	files := map[string]string{}
	for _, f := range r.File {
		file, err := f.Open()
		must(t, err)
		content, err := io.ReadAll(file)
		must(t, err)
		files[f.Name] = string(content)
		if name, packed := strings.CutSuffix(f.Name, ".gz"); packed {
			unpacked, err := gzip.NewReader(bytes.NewReader(content))
			must(t, err)
			content, err := io.ReadAll(unpacked)
			must(t, err)
			files[name] = string(content)
		}
	}
	return files
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A record is one of a WARC file.
type record struct {
	http.Header
	block string
}

// readWARC reads a WARC file, and checks what WARC/1.1 requires of every record.
func readWARC(t testing.TB, file string) (records []record) {
	t.Helper()
	for r := bufio.NewReader(strings.NewReader(file)); ; {
		version, err := r.ReadString('\n')
		if err == io.EOF {
			return records
		}
		must(t, err)
		if version != "WARC/1.1\r\n" {
			t.Fatalf("a record begins with %q", version)
		}
		header, err := textproto.NewReader(r).ReadMIMEHeader()
		must(t, err)
		length, err := strconv.Atoi(header.Get("Content-Length"))
		must(t, err)
		block := make([]byte, length+4)
		_, err = io.ReadFull(r, block)
		must(t, err)
		rec := record{http.Header(header), string(block[:length])}
		if string(block[length:]) != "\r\n\r\n" {
			t.Fatalf("a record ends with %q", block[length:])
		}
		if got := rec.Get("WARC-Block-Digest"); got != "sha256:"+sum(rec.block) {
			t.Errorf("the digest of %q is %s", rec.block, got)
		}
		if _, err := time.Parse(time.RFC3339Nano, rec.Get("WARC-Date")); err != nil {
			t.Error(err)
		}
		if id := rec.Get("WARC-Record-ID"); !strings.HasPrefix(id, "<urn:uuid:") || slices.ContainsFunc(records, func(r record) bool { return r.Get("WARC-Record-ID") == id }) {
			t.Errorf("a record has the ID %q", id)
		}
		records = append(records, rec)
	}
}

// What an archive of a log has: the decisions of the period as they stand in the log, the
// versions that may have ruled, and what leads from one to the other.
func TestArchiveOfALog(t *testing.T) {
	old, gone := sum("User-agent: *\nDisallow: /old\n"), sum("served once")
	kept := []string{line(5, shop+"/old/1", old), line(10, shop+"/old/2", gone), line(10, "https://other.example/", "")}
	archive, found := archiveOf(logOf(
		line(4, shop+"/before", old)+"\n"+kept[0]+"\n"+`{"message":"robots.txt fetched","url":"x"}`+"\n15:04 INF request\n",
		kept[1]+"\r\n"+kept[2]+"\n"+line(11, shop+"/after", old)+"\n"+kept[0][:100],
	)).write(t)
	files := unpack(t, archive)
	if got, want := files["decisions.jsonl"], strings.Join(kept, "\n")+"\n"; got != want {
		t.Errorf("the decisions are\n%swant\n%s", got, want)
	}
	missing := []Missing{{shop, gone}}
	if found.Decisions != 3 || found.Unreadable != 1 || found.Origins != 2 || found.Versions != 8 || !slices.Equal(found.Missing, missing) {
		t.Errorf("found %+v", found)
	}

	texts := map[string]record{}
	records := readWARC(t, files["robots.warc"])
	for _, r := range records[1:] {
		if r.Get("WARC-Type") != "resource" || r.Get("WARC-Payload-Digest") != "sha256:"+sum(r.block) || r.Get("WARC-Warcinfo-ID") != records[0].Get("WARC-Record-ID") {
			t.Errorf("a record has %v", r.Header)
		}
		texts[r.Get("WARC-Record-ID")] = r
	}
	if info := records[0]; info.Get("WARC-Type") != "warcinfo" || !strings.Contains(info.block, "software: robotsproxy/test\r\n") {
		t.Errorf("the file begins with %v", info)
	}
	var index []string
	for text := range strings.Lines(files["robots.jsonl"]) {
		var l indexLine
		must(t, json.Unmarshal([]byte(text), &l))
		index = append(index, fmt.Sprint(l.URL, " ", l.Status, " ", l.Missing, " ", l.FirstSeen.Day(), "-", l.LastSeen.Day()))
		r := texts["<"+l.RecordID+">"]
		if l.RecordID != "" && (sum(r.block) != l.SHA256 || r.Get("WARC-Target-URI") != l.URL || r.Get("WARC-Date") != l.FirstSeen.Format(time.RFC3339Nano)) {
			t.Errorf("%s leads to %v", text, r)
		}
		delete(texts, "<"+l.RecordID+">")
	}
	want := []string{
		"https://other.example/robots.txt 200 false 2-8", "https://other.example/robots.txt 404 false 8-8", "https://other.example/robots.txt 200 false 9-12",
		"https://other.example/.well-known/tdmrep.json 200 false 3-3",
		shopURL + " 200 false 2-8", shopURL + " 404 false 8-8", shopURL + " 200 false 9-12", shopURL + " 0 true 1-1", shop + "/.well-known/tdmrep.json 200 false 3-3",
	}
	if !slices.Equal(index, want) || len(texts) > 0 {
		t.Errorf("the index is\n%s\nwant\n%s\nand does not have %v", strings.Join(index, "\n"), strings.Join(want, "\n"), texts)
	}

	for _, want := range []string{"2026-01-05", "2026-01-10", "0.log, 1.log\n", "no longer kept:  1\n", "damaged, and left out:  1\n", "sha256sum -c", testKey(1).ID()} {
		if !strings.Contains(files["README.txt"], want) {
			t.Errorf("the README.txt does not have %q:\n%s", want, files["README.txt"])
		}
	}
	for name, content := range files {
		if strings.Contains(content, "PRIVATE") {
			t.Errorf("%s has a private key", name)
		}
	}
	verified, err := Verify(bytes.NewReader(archive), int64(len(archive)))
	if err != nil || len(verified.Files) != 6 || !slices.Equal(verified.Keys, []string{testKey(1).ID()}) {
		t.Errorf("verified %+v, %v", verified, err)
	}
	again, _ := archiveOf(logOf(
		line(4, shop+"/before", old)+"\n"+kept[0]+"\n"+`{"message":"robots.txt fetched","url":"x"}`+"\n15:04 INF request\n",
		kept[1]+"\r\n"+kept[2]+"\n"+line(11, shop+"/after", old)+"\n"+kept[0][:100],
	)).write(t)
	if !bytes.Equal(archive, again) {
		t.Error("the same again makes another archive")
	}
}

// A sealed file that lacks one of the files of an archive is none.
func TestWhatIsNoArchive(t *testing.T) {
	all := []string{readmeFile, indexFile, textsFile, Log{}.file()}
	for missing, want := range map[string]string{
		"":           "",
		readmeFile:   "it has no README.txt",
		indexFile:    "it has no robots.jsonl",
		textsFile:    "it has no robots.warc.gz",
		Log{}.file(): "it has neither decisions.jsonl.gz nor counts.jsonl.gz",
	} {
		var members []sealedzip.Member
		for _, name := range all {
			if name != missing {
				members = append(members, sealedzip.InMemory(name, nil))
			}
		}
		var b bytes.Buffer
		must(t, sealedzip.Write(&b, members, []*sign.Key{testKey(1)}))
		v, err := Verify(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && (got != want || v.Files != nil) {
			t.Errorf("without %q it is %+v, %v; want %q", missing, v, err, want)
		}
	}
}

// Only decisions of the origins asked for are in an archive. That there was none is evidence
// too.
func TestArchiveOfOneOrigin(t *testing.T) {
	a := archiveOf(logOf(line(5, "https://other.example/", "") + "\n" + line(6, "HTTPS://Shop.Example:443/a", "") + "\n"))
	a.Origins = []string{shop}
	archive, found := a.write(t)
	if got := unpack(t, archive)["decisions.jsonl"]; strings.Count(got, "\n") != 1 || !strings.Contains(got, "Shop.Example") || found.Origins != 1 {
		t.Errorf("%+v: %s", found, got)
	}
	a.Source = logOf(line(5, "https://other.example/", "") + "\n")
	archive, found = a.write(t)
	if files := unpack(t, archive); found.Decisions != 0 || files["decisions.jsonl"] != "" || !strings.Contains(files["robots.jsonl"], shopURL) {
		t.Errorf("%+v: %v", found, files)
	}
	for _, text := range []string{"", line(4, shop+"/", "") + "\n", "{}\n", `{"message":"request","time":"2026-01-05T00:00:00Z"}` + "\n"} {
		a.Source = logOf(text)
		if _, err := a.Write(t.Context(), io.Discard); !errors.Is(err, ErrNothing) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Lines that are no decisions are left out. Those that may have been one are counted.
func TestLinesOfLogs(t *testing.T) {
	good := line(5, shop+"/", "")
	packed := new(bytes.Buffer)
	w := gzip.NewWriter(packed)
	io.WriteString(w, strings.Repeat(good+"\n", 1000))
	must(t, w.Close())
	for name, test := range map[string]struct {
		log                   string
		decisions, unreadable int64
	}{
		"no last line end":     {good, 1, 0},
		"empty lines":          {"\n\r\n" + good + "\n\n", 1, 0},
		"spaces":               {"{ " + good[1:], 1, 0},
		"a cut line within":    {good[:50] + "\n" + good, 1, 1},
		"two lines in one":     {good[:50] + good + "\n" + good, 1, 1},
		"a long line":          {`{"` + strings.Repeat("x", 3<<20) + "\n" + good, 1, 1},
		"a long last line":     {good + "\n" + `{"` + strings.Repeat("x", 3<<20), 1, 1},
		"not UTF-8":            {strings.Replace(good, "images", "\xff", 1) + "\n" + good, 1, 1},
		"no time":              {strings.Replace(good, `"time"`, `"at"`, 1) + "\n" + good, 1, 1},
		"no sum":               {strings.Replace(good, `"robots_sha256":""`, `"robots_sha256":"../../x"`, 1) + "\n" + good, 1, 1},
		"another verdict":      {strings.Replace(good, "disallowed", "maybe", 1) + "\n" + good, 1, 0},
		"another program's":    {`{"message":{"request":1}}` + "\n" + `["request"]` + "\n" + good, 1, 0},
		"another time zone":    {strings.Replace(good, "2026-01-05T15:00:00Z", "2026-01-04T20:00:00-05:00", 1), 1, 0},
		"the day before in it": {good + "\n" + strings.Replace(good, "2026-01-05T15:00:00Z", "2026-01-05T01:00:00+05:00", 1), 1, 0},
		"no origin":            {line(5, "what is this", ""), 1, 0},
		"compressed":           {packed.String(), 1000, 0},
		"several compressed":   {packed.String() + packed.String(), 2000, 0},
	} {
		archive, found := archiveOf(logOf(test.log)).write(t)
		if found.Decisions != test.decisions || found.Unreadable != test.unreadable {
			t.Errorf("%s: %+v", name, found)
		}
		if n := strings.Count(unpack(t, archive)["decisions.jsonl"], "\n"); int64(n) != test.decisions {
			t.Errorf("%s: %d lines", name, n)
		}
	}

	incompressible := new(bytes.Buffer)
	w = gzip.NewWriter(incompressible)
	for i := range 1000 {
		fmt.Fprintln(w, line(5, shop+"/"+sum(strconv.Itoa(i)), sum(strconv.Itoa(-i))))
	}
	must(t, w.Close())
	if _, found := archiveOf(logOf(incompressible.String()[:incompressible.Len()/2])).write(t); found.Decisions < 300 || found.Unreadable != 1 {
		t.Errorf("of half a compressed log: %d decisions, %d unreadable", found.Decisions, found.Unreadable)
	}
	damaged := bytes.Clone(packed.Bytes())
	damaged[len(damaged)-5] ^= 1
	if _, err := archiveOf(logOf(string(damaged))).Write(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "reading the log logs/0.log: gzip") {
		t.Errorf("of a damaged one: %v", err)
	}
}

// Without logs an archive has counts, in an order that does not depend on the store.
func TestArchiveOfCounts(t *testing.T) {
	var kept counts.Memory
	row := func(day int, origin, rule string, n int64) counts.Row {
		return counts.Row{Day: counts.DayOf(jan(day)), Count: counts.Count{Requests: n, Paced: 1, Waited: 1500 * time.Millisecond},
			Decision: counts.Decision{Identity: "images", Origin: origin, Outcome: counts.Refused, Verdict: "disallowed", Reason: "rule", Rule: rule}}
	}
	must(t, kept.AddCounts(t.Context(), counts.Batch{ID: "1", Days: []counts.Day{counts.DayOf(jan(6)), counts.DayOf(jan(7))}, Rows: []counts.Row{
		row(7, shop, "Disallow: /b", 2), row(6, shop, "Disallow: /b\u202e<", 1), row(7, "https://other.example", "", 3), row(7, "", "", 4), row(7, shop, "Disallow: /a", 5), row(11, shop, "", 6),
	}}))
	a := archiveOf(Counts{&kept})
	a.Origins = []string{shop}
	archive, found := a.write(t)
	files := unpack(t, archive)
	const members = `"identity":"images","origin":"https://shop.example","outcome":"refused","verdict":"disallowed","reason":"rule","rule":"Disallow: /`
	want := `{"day":"2026-01-06",` + members + `b\u202e<","requests":1,"paced":1,"paced_ms":1500}` + "\n" +
		`{"day":"2026-01-07",` + members + `a","requests":5,"paced":1,"paced_ms":1500}` + "\n" +
		`{"day":"2026-01-07",` + members + `b","requests":2,"paced":1,"paced_ms":1500}` + "\n"
	if got := files["counts.jsonl"]; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if found.Decisions != 3 || found.Unassigned != 4 || !strings.Contains(files["README.txt"], "to which site they went:  4\n") {
		t.Errorf("%+v", found)
	}
	a.Origins = nil
	if _, found = a.write(t); found.Decisions != 5 || found.Unassigned != 0 || found.Origins != 2 {
		t.Errorf("%+v", found)
	}
	a.Period = period(20, 21)
	if _, err := a.Write(t.Context(), io.Discard); !errors.Is(err, ErrNothing) {
		t.Errorf("of days without a proxy: %v", err)
	}
	kind := reflect.TypeFor[counts.Row]()
	parts := kind.NumField() - 2 + reflect.TypeFor[counts.Decision]().NumField() + reflect.TypeFor[counts.Count]().NumField()
	if got := reflect.TypeFor[countLine]().NumField(); got != parts {
		t.Errorf("a line has %d members, and a count %d", got, parts)
	}
}

// The versions in an archive are those that may have ruled in its period.
func TestVersionsThatMayHaveRuled(t *testing.T) {
	all := []store.Version{text("d", 20, 25), text("c", 12, 14), text("b", 10, 10), text("a", 8, 16)} // a was served again after b and c
	names := map[string]string{sum("a"): "a", sum("b"): "b", sum("c"): "c", sum("d"): "d"}
	for _, test := range []struct {
		from, until int
		want        string
	}{
		{1, 7, ""}, {1, 8, "a"}, {9, 9, "a"}, {10, 10, "ab"}, {11, 11, "ab"}, {12, 12, "abc"}, {13, 14, "ac"}, {15, 15, "ac"}, {17, 19, "a"},
		{20, 20, "ad"}, {21, 22, "d"}, {26, 30, "d"}, {1, 31, "abcd"},
	} {
		got := ""
		for _, v := range oldestFirst(all) {
			if mayRule(v, all, period(test.from, test.until)) {
				got += names[v.SHA256]
			}
		}
		if got != test.want {
			t.Errorf("from %d to %d: %q, want %q", test.from, test.until, got, test.want)
		}
	}
	damaged := text("a", 5, 5)
	a := archiveOf(logOf(line(5, shop+"/", damaged.SHA256)))
	a.Files = func(context.Context, string) ([]File, error) {
		return []File{{URL: shopURL, Decides: true, Versions: []store.Version{damaged}, Text: func(context.Context, string) ([]byte, bool, error) {
			return []byte("b"), true, nil
		}}}, nil
	}
	if _, found := a.write(t); len(found.Missing) != 1 || found.Versions != 0 {
		t.Errorf("of a damaged text: %+v", found)
	}
}

func TestErrorsEndAnArchive(t *testing.T) {
	broken := errors.New("broken")
	a := archiveOf(logOf(line(5, shop+"/", "")))
	a.Files = func(context.Context, string) ([]File, error) { return nil, broken }
	if _, err := a.Write(t.Context(), io.Discard); !errors.Is(err, broken) {
		t.Errorf("of the store: %v", err)
	}
	a = archiveOf(logOf(line(5, shop+"/", "")))
	a.Scratch = func() (io.ReadWriteSeeker, error) { return nil, broken }
	if _, err := a.Write(t.Context(), io.Discard); !errors.Is(err, broken) {
		t.Errorf("of the disk: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := archiveOf(logOf(line(5, shop+"/", ""))).Write(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("of one who is tired of it: %v", err)
	}
}

// Whatever stands in a log, its archive is one that holds: lines of JSON, records that readers
// of WARC understand, and sums.
func FuzzLog(f *testing.F) {
	f.Add(line(5, shop+"/", sum("a")) + "\n" + line(6, "ftp://[2001:db8::1]:2121/x", ""))
	f.Add(line(5, "http://a\r\nX: y/", "") + "\n{")
	f.Add(`{"message":"request","url":"http://a@b/","reason":"rule","verdict":"allowed","time":"2026-01-06T00:00:00+23:59"}`)
	f.Fuzz(func(t *testing.T, log string) {
		a := archiveOf(logOf(log))
		var b bytes.Buffer
		found, err := a.Write(t.Context(), &b)
		if errors.Is(err, ErrNothing) || err != nil && strings.HasPrefix(log, "\x1f\x8b") {
			return
		}
		must(t, err)
		if _, err := Verify(bytes.NewReader(b.Bytes()), int64(b.Len())); err != nil {
			t.Fatal(err)
		}
		files := unpack(t, b.Bytes())
		lines := int64(0)
		for text := range strings.Lines(files["decisions.jsonl"]) {
			lines++
			if !json.Valid([]byte(text)) || !strings.HasSuffix(text, "\n") {
				t.Errorf("%q is a decision", text)
			}
		}
		records := readWARC(t, files["robots.warc"])
		if index := strings.Count(files["robots.jsonl"], "\n"); lines != found.Decisions || index != found.Versions+len(found.Missing) || len(records) != 1+strings.Count(files["robots.jsonl"], `"warc_record_id"`) {
			t.Errorf("%+v: %d decisions, %d lines of the index, %d records", found, lines, index, len(records))
		}
	})
}
