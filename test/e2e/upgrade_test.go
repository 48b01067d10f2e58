package e2e

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"robotsproxy/internal/redistest"
)

// The program goes on with the data directory and the configuration of each older version. A new
// schema needs a fixture: testdata/upgrade/README.md says how to make it.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	fresh := start(t)
	fresh.stop()
	newest := schemaOf(t, fresh.dir)
	for n := 1; n <= newest; n++ {
		t.Run(fmt.Sprintf("schema %d", n), func(t *testing.T) {
			t.Parallel()
			testUpgrade(t, filepath.Join("testdata", "upgrade", fmt.Sprintf("schema%d", n)), newest)
		})
	}
}

// testUpgrade starts the program on the data directory that a fixture describes.
func testUpgrade(t *testing.T, fixture string, newest int) {
	site := newOrigin(t, "http", says("User-agent: *\nDisallow: /\n"), nil)
	w := newWorld(t)
	config := bytes.ReplaceAll(readFile(t, filepath.Join(fixture, "robotsproxy.yaml")), []byte("${PARENT}"), []byte("http://"+newParent(t, site)))
	must(t, os.WriteFile(w.config, config, 0o600))
	w.restore(filepath.Join(fixture, "policies.sql"))
	ca := readFile(t, filepath.Join(fixture, "..", "ca.pem"))
	must(t, os.WriteFile(w.caFile(), ca, 0o644))
	must(t, os.WriteFile(filepath.Join(w.dir, "ca-key.pem"), readFile(t, filepath.Join(fixture, "..", "ca-key.pem")), 0o600))
	counted := w.countedRequests()
	if out, err := exec.Command(program, "validate", "--config", w.config).CombinedOutput(); err != nil || string(out) != w.config+": valid\n" {
		t.Errorf("validate: %v: %s", err, out)
	}
	w.run()
	t.Cleanup(w.stop)

	// What is known of sites rules as before, and none is asked again.
	wantRefused(t, w.curl("-A", "ExampleBot/1.0", "http://one.example/new/page"), "Disallow: /new/")
	wantRefused(t, w.curl("-A", "Scrapy/2.11", "http://three.example/new/page"), "Disallow: /new/")
	for _, url := range []string{"http://one.example/old/page", "http://two.example/page"} {
		if r := w.curl("-A", "Scrapy/2.11", url); r.status != 200 {
			t.Errorf("%s: status %d", url, r.status)
		}
	}
	const requests = 5 // these, and the one by which the CA is tried
	if agent := site.last(t).UserAgent(); agent != "ExampleBot-Image/1.0 (+https://example.org/bot)" {
		t.Errorf("Scrapy comes to sites as %q", agent)
	}
	if n := site.robotsFetches(); n != 0 {
		t.Errorf("robots.txt was fetched %d times", n)
	}
	if down := w.ask("/api/v1/policy?origin=http://down.example"); down["unreachable_since"] == nil {
		t.Errorf("of http://down.example is known %v", down)
	}
	// Clients that trust the CA need nothing new.
	if r := w.curl("-A", "ExampleBot/1.0", "https://four.example/"); r.exit != 0 || r.status != 403 {
		t.Errorf("with the CA that the client knows: curl's exit code %d, status %d", r.exit, r.status)
	}
	if !bytes.Equal(readFile(t, w.caFile()), ca) {
		t.Error("the CA is another one")
	}

	var history struct{ Versions []struct{ Text, Diff string } }
	must(t, json.Unmarshal([]byte(w.runCommand("history", "http://one.example", "--json")), &history))
	if v := history.Versions; len(v) != 2 || v[0].Text != "User-agent: *\nDisallow: /new/\n" || v[1].Text != "User-agent: *\nDisallow: /old/\n" || v[0].Diff == "" {
		t.Errorf("the history of http://one.example is %+v", v)
	}
	w.stop()
	if n := w.report().reported(); n != float64(counted+requests) {
		t.Errorf("the report has %v requests, want the %d of before and %d", n, counted, requests)
	}
	if lines := append(w.log.Lines(`"level":"warn"`), w.log.Lines(`"level":"error"`)...); len(lines) > 0 {
		t.Errorf("logged %s", lines)
	}
	if n := schemaOf(t, w.dir); n != newest {
		t.Errorf("the schema is version %d, want %d", n, newest)
	}
	if got := queryText(t, openDatabase(t, w.dir), "PRAGMA integrity_check"); got != "ok" {
		t.Errorf("integrity_check: %s", got)
	}
}

// A data directory that a newer version has upgraded is refused by every command that would write
// there, and stays as it is.
func TestDowngradeIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	site := newOrigin(t, "http", shop(), nil)
	w.curl(site.URL + "/products/1")
	w.stop()
	newest := schemaOf(t, w.dir)
	db := openDatabase(t, w.dir)
	_, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", newest+1))
	must(t, err)
	must(t, db.Close())
	path := filepath.Join(w.dir, "policies.db")
	before := readFile(t, path)

	said := fmt.Sprintf("opening %s: its schema is version %d, and this program knows versions up to %d: "+
		"start the newer robotsproxy that wrote it, or move the file away to begin a new one", path, newest+1, newest)
	for command, want := range map[string]int{
		"serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0": 1,
		"run -- true":             125,
		"check " + site.URL + "/": 2,
		"history " + site.URL:     2,
		"report":                  1,
		"evidence --from 2026-01-01 --to 2026-01-02 -o " + filepath.Join(t.TempDir(), "evidence.zip"): 1,
	} {
		args := strings.Fields(command)
		args = append([]string{args[0], "--config", w.config, "--data-dir", w.dir}, args[1:]...)
		out, err := exec.Command(program, args...).CombinedOutput()
		code := 0
		if exit, ok := err.(*exec.ExitError); ok {
			code = exit.ExitCode()
		}
		if code != want || !strings.Contains(string(out), said) {
			t.Errorf("%s: exit code %d, want %d: %s", command, code, want, out)
		}
		if !bytes.Equal(readFile(t, path), before) {
			t.Fatalf("%s changed %s", command, path)
		}
		if files, _ := filepath.Glob(path + "*"); len(files) != 2 { // and .lock
			t.Errorf("%s left %q", command, files)
		}
	}
}

// What older versions of the program have left in Redis rules as before, or is fetched again. The
// program takes nothing away that they still use.
func TestFleetOfTwoVersions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file     string
		fetches  int      // of robots.txt: of sites with a text, if texts had other names in Redis
		counted  int      // requests of before
		versions []string // the texts in the history of http://one.example
	}{
		{"redis1.txt", 2, 0, []string{"User-agent: *\nDisallow: /new/\n"}},
		{"redis2.txt", 0, 9, []string{"User-agent: *\nDisallow: /new/\n", "User-agent: *\nDisallow: /old/\n"}},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			keys := fillRedis(t, server, string(readFile(t, filepath.Join("testdata", "upgrade", test.file))))
			site := newOrigin(t, "http", says("User-agent: *\nDisallow: /new/\n"), nil)
			w := start(t, "cache: {store: redis, redis_url: '"+server.URL()+"'}",
				"upstream: {ca_file: ORIGINS, proxy: 'http://"+newParent(t, site)+"'}", "pace: {max_per_day: 100}")
			wantRefused(t, w.curl("http://one.example/new/page"), "Disallow: /new/")
			for url, want := range map[string]int{
				"http://one.example/page":  200,
				"http://two.example/page":  200,
				"http://slow.example/page": 429, // by the Retry-After that it gave the older version
			} {
				if r := w.curl(url); r.status != want {
					t.Errorf("%s: status %d, want %d", url, r.status, want)
				}
			}
			if down := w.ask("/api/v1/policy?origin=http://down.example"); down["unreachable_since"] == nil {
				t.Errorf("of http://down.example is known %v", down)
			}
			if n := site.robotsFetches(); n != test.fetches {
				t.Errorf("robots.txt was fetched %d times, want %d", n, test.fetches)
			}
			w.stop()

			var history struct{ Versions []struct{ Text string } }
			must(t, json.Unmarshal([]byte(w.runCommand("history", "http://one.example", "--json")), &history))
			texts := []string{}
			for _, v := range history.Versions {
				texts = append(texts, v.Text)
			}
			if !slices.Equal(texts, test.versions) {
				t.Errorf("the history of http://one.example is %q, want %q", texts, test.versions)
			}
			if n := w.report().reported(); n != float64(test.counted+4) {
				t.Errorf("the report has %v requests, want the %d of before and 4", n, test.counted)
			}
			if n := server.Inspect().Exists(t.Context(), keys...).Val(); n != int64(len(keys)) {
				t.Errorf("of the %d keys of before, %d are there", len(keys), n)
			}
		})
	}
}

// fillRedis has a server carry out commands, a line each with its arguments in quotes, and returns
// their keys.
func fillRedis(t *testing.T, server *redistest.Server, commands string) (keys []string) {
	t.Helper()
	now := time.Now()
	day := strconv.FormatInt(now.Unix()/(24*60*60), 10)
	named := strings.NewReplacer("TODAY", now.UTC().Format(time.DateOnly), `"DAY"`, strconv.Quote(day), `"HOUR"`, strconv.Quote(strconv.FormatInt(now.Unix()/(60*60), 10)))
	moved := regexp.MustCompile(`"NOW([+-]\d+)"`)
	rdb := server.Inspect()
	for line := range strings.Lines(named.Replace(commands)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line = moved.ReplaceAllStringFunc(line, func(quoted string) string {
			ms, err := strconv.ParseInt(quoted[len(`"NOW`):len(quoted)-1], 10, 64)
			must(t, err)
			return strconv.Quote(strconv.FormatInt(now.UnixMilli()+ms, 10))
		})
		command, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		args := []any{command}
		for rest != "" {
			quoted, err := strconv.QuotedPrefix(rest)
			must(t, err)
			arg, err := strconv.Unquote(quoted)
			must(t, err)
			args, rest = append(args, arg), strings.TrimSpace(rest[len(quoted):])
		}
		must(t, rdb.Do(t.Context(), args...).Err())
		keys = append(keys, args[1].(string))
	}
	return keys
}

// restore makes policies.db in the data directory from the statements in a file. All its times are
// moved, as if the last answer of a site had come just now.
func (w *world) restore(file string) {
	w.t.Helper()
	must(w.t, os.MkdirAll(w.dir, 0o700))
	db := openDatabase(w.t, w.dir)
	defer db.Close()
	exec := func(statements string, args ...any) {
		w.t.Helper()
		_, err := db.Exec(statements, args...)
		must(w.t, err)
	}
	exec("PRAGMA journal_mode = WAL")
	exec(string(readFile(w.t, file)))
	var last int64
	must(w.t, db.QueryRow("SELECT max(fetched_at) FROM policies").Scan(&last))
	age := time.Since(time.UnixMilli(last))
	for column, table := range map[string]string{
		"fetched_at": "policies", "expires_at": "policies", "failed_since": "policies", "next_try": "policies",
		"first_seen": "versions", "last_seen": "versions",
	} {
		exec(fmt.Sprintf("UPDATE %s SET %s = %s + ? WHERE %s != 0", table, column, column, column), age.Milliseconds())
	}
	for _, table := range []string{"days", "counts"} {
		if queryText(w.t, db, "SELECT count(*) FROM sqlite_schema WHERE name = '"+table+"'") == "1" {
			exec("UPDATE "+table+" SET day = date(day, ? || ' seconds')", int64(age.Seconds()))
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

// countedRequests returns how many requests policies.db counts.
func (w *world) countedRequests() (n int) {
	w.t.Helper()
	db := openDatabase(w.t, w.dir)
	defer db.Close()
	if queryText(w.t, db, "SELECT count(*) FROM sqlite_schema WHERE name = 'counts'") == "0" {
		return 0
	}
	must(w.t, db.QueryRow("SELECT sum(requests) FROM counts").Scan(&n))
	return n
}

// openDatabase opens policies.db in a data directory; the test closes it at its end.
func openDatabase(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "policies.db"))
	must(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func queryText(t *testing.T, db *sql.DB, query string) (text string) {
	t.Helper()
	must(t, db.QueryRow(query).Scan(&text))
	return text
}

// schemaOf returns the version of the schema of policies.db in a data directory.
func schemaOf(t *testing.T, dir string) (version int) {
	t.Helper()
	db := openDatabase(t, dir)
	defer db.Close()
	must(t, db.QueryRow("PRAGMA user_version").Scan(&version))
	return version
}
