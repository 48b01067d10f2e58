package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// watch opens the API's stream of decisions until the test ends.
func (w *world) watch(query string, header ...string) *events {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	w.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.admin+"/api/v1/decisions/stream"+query, nil)
	must(w.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	must(w.t, err)
	w.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("stream%s: status %d, header %v", query, resp.StatusCode, resp.Header)
	}
	return &events{w.t, bufio.NewReader(resp.Body)}
}

// events are server-sent events.
type events struct {
	t    *testing.T
	from *bufio.Reader
}

// next waits for the next event that has data. At the end of the stream it returns an error.
func (e *events) next() (kind, id string, data object, err error) {
	for {
		line, err := e.from.ReadString('\n')
		if err != nil {
			return "", "", nil, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "event":
			kind = value
		case "id":
			id = value
		case "data":
			return kind, id, data, json.Unmarshal([]byte(value), &data)
		}
	}
}

// want waits for the next decision, which must be about this URL.
func (e *events) want(url string) (id string, d object) {
	e.t.Helper()
	_, id, d, err := e.next()
	if err != nil || d["url"] != url {
		e.t.Fatalf("the next event is %v, %v; want one on %s", d, err, url)
	}
	return id, d
}

func TestDecisionsOfTheAPI(t *testing.T) {
	t.Parallel()
	w := start(t, `identities: [{name: robot, match: {user_agents: ["Robot*"]}}]`)
	w.ask("/api/v1/decisions").want(t, "decisions", "[]")
	o := newOrigin(t, "http", shop(), nil)
	host := strings.TrimPrefix(o.URL, "http://")
	live, robots := w.watch(""), w.watch("?identity=robot&verdict=disallowed&host="+host)
	first := ""
	for i, path := range []string{"/products/1", "/cart", "/products/2"} {
		w.curl("-A", "Robot/1", o.URL+path)
		id, d := live.want(o.URL + path)
		d.want(t, "identity", "robot", "refused", path == "/cart", "origin", o.URL, "client", "127.0.0.1")
		if i == 0 {
			first = id
		}
	}
	robots.want(o.URL + "/cart")

	// The list has the same, the newest first.
	list := w.ask("/api/v1/decisions?limit=2")
	decisions := list["decisions"].([]any)
	if len(decisions) != 2 {
		t.Fatalf("decisions %v", decisions)
	}
	object(decisions[0].(map[string]any)).want(t, "url", o.URL+"/products/2", "status", 200)
	object(decisions[1].(map[string]any)).want(t, "url", o.URL+"/cart", "status", 403, "rule", "Disallow: /cart")
	for query, want := range map[string]int{
		"": 3, "?verdict=allowed": 2, "?verdict=disallowed": 1, "?identity=robot": 3, "?identity=default": 0,
		"?host=127.0.0.1": 3, "?host=" + host: 3, "?host=elsewhere": 0, "?host=http": 0, "?limit=1&verdict=disallowed": 1,
	} {
		if got := w.ask("/api/v1/decisions" + query)["decisions"].([]any); len(got) != want {
			t.Errorf("%s: %d decisions, want %d", query, len(got), want)
		}
	}

	// A client that reconnects gets the events that it has missed.
	for _, again := range []*events{w.watch("", "Last-Event-ID", first), w.watch("?after=" + first)} {
		again.want(o.URL + "/cart")
		again.want(o.URL + "/products/2")
	}
	w.watch("?after=of-another-process").want(o.URL + "/products/1")
	none := w.watch("?after=" + list["last_id"].(string))
	w.curl(o.URL + "/products/3")
	none.want(o.URL + "/products/3")

	// The program ends while clients watch, and so do their streams.
	w.stop()
	if _, _, _, err := live.next(); err == nil {
		if _, _, _, err = live.next(); err == nil {
			t.Error("the stream goes on")
		}
	}
}

func TestActivityOfTheAPI(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "http", shop(), nil)
	for _, path := range []string{"/products/1", "/products/2", "/cart"} {
		w.curl(o.URL + path)
		w.decision(o.URL + path)
	}
	minutes := w.ask("/api/v1/activity")["minutes"].([]any)
	if len(minutes) != 60 {
		t.Fatalf("%d minutes", len(minutes))
	}
	sums := map[string]float64{}
	var last time.Time
	for i, m := range minutes {
		at, err := time.Parse(time.RFC3339, m.(map[string]any)["time"].(string))
		if err != nil || i > 0 && at.Sub(last) != time.Minute {
			t.Errorf("minute %d is %v, %v", i, m, err)
		}
		last = at
		for _, name := range []string{"allowed", "refused", "waited"} {
			sums[name] += m.(map[string]any)[name].(float64)
		}
	}
	if sums["allowed"] != 2 || sums["refused"] != 1 || time.Since(last) > 2*time.Minute {
		t.Errorf("in all %v, up to %v", sums, last)
	}
}

func TestRulesOfTheAPI(t *testing.T) {
	t.Parallel()
	w := start(t)
	o := newOrigin(t, "http", says("User-agent: *\nDisallow: /a\nDisallow: /b\n\nUser-agent: Robot\nDisallow: /\n"), nil)
	for _, path := range []string{"/a1", "/a2", "/b", "/c"} {
		w.curl(o.URL + path)
		w.decision(o.URL + path)
	}
	asked := "/api/v1/rules?origin=" + url.QueryEscape(o.URL)
	for query, want := range map[string]string{
		"":                            "* *  [1: *] [2: r* 2] [3: r* 1] [4: ] [5: ] [6: r ]",
		"&agent=Other&agent=Robot/2":  "robot Robot  [1: ] [2: r 2] [3: r 1] [4: ] [5: *] [6: r* ]",
		"&agent=Somebody&agent=Other": "* *  [1: *] [2: r* 2] [3: r* 1] [4: ] [5: ] [6: r ]",
	} {
		view := w.ask(asked + query)
		got := fmt.Sprintf("%v %v ", view["group"], view["agent"])
		for _, line := range view["lines"].([]any) {
			l := line.(map[string]any)
			marks := ""
			if l["rule"] == true {
				marks += "r"
			}
			if l["group"] == true {
				marks += "*"
			}
			if l["rule"] == true {
				marks += " "
			}
			if l["hits"] != nil {
				marks += fmt.Sprint(l["hits"])
			}
			got += fmt.Sprintf(" [%v: %s]", l["line"], marks)
		}
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", query, got, want)
		}
	}
	empty := newOrigin(t, "http", http.NotFound, nil)
	w.curl(empty.URL + "/")
	w.ask("/api/v1/rules?origin="+url.QueryEscape(empty.URL)).want(t, "lines", "[]", "group", nil)
}

func TestIdentitiesOfTheAPI(t *testing.T) {
	t.Parallel()
	key, id := signingKey(t, 1)
	w := start(t, `identities:
  - {name: images, match: {users: [secret-user]}, product_tokens: [ExampleBot-Image, ExampleBot], user_agent: Example/1, from: a@example.org}
  - {name: new, match: {clients: [192.0.2.1]}, mode: report}
  - {name: signs, match: {clients: [192.0.2.2]}, sign: {keys: [`+key+`], agent: "https://Bot.example.org"}}`)
	status, body := w.get("/api/v1/identities")
	want := `{"identities":[` +
		`{"name":"images","product_tokens":["ExampleBot-Image","ExampleBot"],"user_agent":"Example/1","from":"a@example.org","mode":"enforce"},` +
		`{"name":"new","product_tokens":[],"mode":"report"},` +
		`{"name":"signs","product_tokens":[],"mode":"enforce","signing":{"key":"` + id + `","agent":"https://bot.example.org","form":"auto"}},` +
		`{"name":"default","product_tokens":[],"mode":"enforce"}]}` + "\n"
	if status != 200 || body != want {
		t.Errorf("status %d: %s", status, body)
	}
}
