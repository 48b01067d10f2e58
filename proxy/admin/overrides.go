package admin

import (
	"net/http"
	"time"

	"robotsproxy/proxy/override"
)

// overrides responds with the overrides in the order in which they are tried, also those that
// have ended.
func (a *Admin) overrides(w http.ResponseWriter, _ *http.Request) {
	type overrideView struct {
		Origin     string          `json:"origin"`
		Verdict    override.Action `json:"verdict,omitempty"`
		RobotsFile string          `json:"robots_file,omitempty"`
		Reason     string          `json:"reason,omitempty"`
		By         string          `json:"by,omitempty"`
		ExpiresAt  time.Time       `json:"expires_at,omitzero"`
		Warning    string          `json:"warning,omitempty"`
	}
	view := struct {
		Overrides []overrideView `json:"overrides"`
	}{[]overrideView{}}
	for _, o := range a.setup.Gate.Overrides() {
		view.Overrides = append(view.Overrides, overrideView{
			o.Origin.String(), o.Verdict, o.RobotsFile, o.Reason, o.By, o.Expires.Time(), o.Warning(a.now()),
		})
	}
	writeJSON(w, http.StatusOK, "application/json", view)
}
