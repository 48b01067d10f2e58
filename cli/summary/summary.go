// Package summary says at the end of a run what became of its requests and connections. A
// [Counter] counts the proxy's decisions while the command runs. A [Summary] has these
// counts and what else is known at the end: Print writes it for people, WriteFile as JSON
// for programs.
package summary

import (
	"syscall"
	"time"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/pace"
	"robotsproxy/proxy/sealed"
)

// A Summary says how a run went. docs/commands.md lists the members of its JSON; none of them may
// change its name or meaning.
type Summary struct {
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	ExitCode  int       `json:"exit_code"`        // of run
	Signal    int       `json:"signal,omitempty"` // that ended the command; 0: none
	Error     string    `json:"error,omitempty"`  // why the command was not run, or what run could not tidy up

	Requests
	Distrusted []string       `json:"distrusted"` // the hosts that the command did not ask because it does not trust the CA
	NoProxy    NoProxy        `json:"no_proxy"`
	Sealed     *sealed.Report `json:"sealed"` // nil if the command was not sealed
	Sealable   bool           `json:"-"`      // it was not, but could have been
	Inner      bool           `json:"-"`      // another run's command has started this run
}

// New returns the summary of a run that begins now and has done nothing.
func New(now time.Time) *Summary {
	return &Summary{
		StartedAt:  inJSON(now),
		Requests:   new(Counter).Requests(), // lists are not null in JSON
		Distrusted: []string{},
		NoProxy:    NoProxy{Hosts: []string{}},
	}
}

// End notes how the run has ended: with this exit code of run, by a signal that ended the
// command (0: none), or with an error.
func (s *Summary) End(now time.Time, exitCode int, signal syscall.Signal, err error) {
	s.EndedAt, s.ExitCode, s.Signal = inJSON(now), exitCode, int(signal)
	if err != nil {
		s.Error = err.Error()
	}
}

// inJSON returns the time as the log has it: in UTC, to the millisecond.
func inJSON(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Requests says what became of the requests that came to the proxy.
type Requests struct {
	Total                   int   `json:"requests"`
	Refused                 int   `json:"refused"`
	RefusedByPreference     int   `json:"refused_by_preference"`      // of Refused: the site refuses the declared use
	RefusedLate             int   `json:"refused_late"`               // of Refused: allowed, but their turn would have come too late
	WouldRefuse             int   `json:"would_refuse"`               // let through because of a mode report
	WouldRefuseByPreference int   `json:"would_refuse_by_preference"` // of WouldRefuse: the site refuses the declared use
	BrokenOff               int   `json:"broken_off"`                 // allowed, but without a whole response: the origin's fault or the command's
	Paced                   int   `json:"paced"`                      // waited for their turn
	PacedMS                 int64 `json:"paced_ms"`                   // how long, in all

	Causes      []Cause   `json:"causes"`       // of Refused and WouldRefuse, the most frequent first; at most 10,000
	OtherCauses int       `json:"other_causes"` // requests that no item of Causes counts, because there were more of them
	Failures    []Failure `json:"failures"`     // of BrokenOff, the most frequent first; at most 10,000
	Delays      []Delay   `json:"delays"`       // of Paced, the longest first; at most 10,000
}

// A Failure is an origin that gave allowed requests no whole response.
type Failure struct {
	Origin   string `json:"origin"`
	Error    string `json:"error"` // of the first such request
	Requests int    `json:"requests"`
}

// A Delay is what requests to an origin waited for until their turns came.
type Delay struct {
	Origin   string      `json:"origin"`
	By       pace.Holder `json:"by,omitempty"`
	Requests int         `json:"requests"`
	PacedMS  int64       `json:"paced_ms"` // in all
}

// A Cause is what refused requests to an origin, or would have refused them in mode enforce.
type Cause struct {
	about
	Requests int `json:"requests"`
}

// about tells causes apart. Its texts are at most maxText octets long.
type about struct {
	Origin  string          `json:"origin"`
	Refused bool            `json:"refused"`
	Reason  decision.Reason `json:"reason"`
	Rule    string          `json:"rule,omitempty"` // or the preference; "" if neither is the cause
	Line    int             `json:"line,omitempty"` // of the rule or preference
	Why     string          `json:"why"`            // all of it in a few words
}

// late is the reason for refusing a request that is allowed, but whose turn would have come
// too late. All other reasons are the gate's.
const late decision.Reason = "late"

// NoProxy says what came of the user's no_proxy.
type NoProxy struct {
	Hosts  []string `json:"hosts"`  // that it names
	Judged bool     `json:"judged"` // false: clients that heed it went past the proxy
}
