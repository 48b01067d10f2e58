package admin

import (
	"net/http"

	"robotsproxy/proxy/pace"
)

// maxWaits is how many origins pace lists.
const maxWaits = 1000

// pace responds with what holds requests now, as far as this proxy knows: the origins that are
// held for longest.
func (a *Admin) pace(w http.ResponseWriter, r *http.Request) {
	limit, ok := limitOf(w, r, maxWaits)
	if !ok {
		return
	}
	var view struct {
		Held  []pace.Wait `json:"held"`
		Total int         `json:"total"`
	}
	view.Held, view.Total = a.setup.Pacer.Waits(limit)
	writeJSON(w, http.StatusOK, "application/json", view)
}
