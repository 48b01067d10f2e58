package admin

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"robotsproxy/proxy/admin/ledger"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
)

// newAdmin returns an Admin whose gate decides nothing. Tests enter decisions themselves.
func newAdmin(t *testing.T) *Admin {
	t.Helper()
	g, err := gate.New(gate.Settings{}, nil, nil, zerolog.Nop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := New(Setup{Gate: g})
	t.Cleanup(a.Close)
	return a
}

// enter records n decisions, on https://HOST/0, https://HOST/1 and so on.
func (a *Admin) enter(host string, n int) {
	for i := range n {
		a.ledger.Enter(decision.Decision{Time: time.Now(), Origin: "https://" + host, URL: fmt.Sprintf("https://%s/%d", host, i), Judgment: decision.Allowed})
	}
}

// get decodes the API's response to a GET.
func (a *Admin) get(t *testing.T, path string, to any) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/"+path, nil)
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), to); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: status %d: %s", path, w.Code, w.Body)
	}
}

// As CSV, all that is kept can be opened in a spreadsheet, where no text becomes a formula.
func TestDecisionsAsCSV(t *testing.T) {
	a := newAdmin(t)
	a.enter("a.example", 1)
	a.ledger.Enter(decision.Decision{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Agent: "=cmd|'/c calc'!A0", Method: "-1", URL: "https://b.example/,\"\n\x1b[31m\xff",
		Judgment: decision.Disallowed, Reason: decision.ByRule, Refused: true, Rule: "Disallow: /", Line: 2, Status: 403, WaitMS: 1.5,
	})
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/decisions?format=csv&outcome=refused", nil))
	rows, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || len(rows) != 2 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/csv") {
		t.Fatalf("%v, %v, %q", w.Header(), err, rows)
	}
	for i, name := range rows[0] {
		want, checked := map[string]string{
			"time": "2026-01-02T03:04:05Z", "agent": "'=cmd|'/c calc'!A0", "method": "'-1", "rule": "Disallow: /", "line": "2", "status": "403", "wait_ms": "1.5", "refused": "true",
		}[name]
		if got := rows[1][i]; checked && got != want || strings.ContainsAny(got, "\n\x1b") || !utf8.ValidString(got) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

type decisionList struct {
	Decisions []decision.Decision
	LastID    string `json:"last_id"`
}

func TestLastDecisions(t *testing.T) {
	a := newAdmin(t)
	a.enter("old.example", 700)
	a.enter("new.example", 800)
	var all, few decisionList
	a.get(t, "decisions?limit=1000", &all)
	a.get(t, "decisions?limit=3&host=OLD.example", &few)
	if n := len(all.Decisions); n != ledger.Size || all.Decisions[0].URL != "https://new.example/799" || all.Decisions[n-1].URL != "https://old.example/500" {
		t.Errorf("%d decisions, from %v to %v", n, all.Decisions[0], all.Decisions[n-1])
	}
	if len(few.Decisions) != 3 || few.Decisions[0].URL != "https://old.example/699" || few.LastID != all.LastID {
		t.Errorf("filtered: %v", few)
	}
}

func TestMinutesOfTheLastHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t)
		start := time.Now().Truncate(time.Minute)
		for i := range 90 { // one more in each minute
			for j := range i {
				a.ledger.Enter(decision.Decision{Time: time.Now(), Refused: j == 0, WaitMS: float64(99 + j)})
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(9 * time.Minute) // without a request
		var activity struct {
			Minutes []struct {
				Time                     time.Time
				Allowed, Refused, Waited int
			}
		}
		a.get(t, "activity", &activity)
		for i, m := range activity.Minutes {
			number := i + 40
			all := number
			if number >= 90 {
				all = 0
			}
			if !m.Time.Equal(start.Add(time.Duration(number)*time.Minute)) || m.Allowed+m.Refused != all || m.Refused != min(all, 1) || m.Waited != max(all-1, 0) {
				t.Errorf("minute %d: %+v", number, m)
			}
		}
	})
}
