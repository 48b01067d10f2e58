package proxy

import (
	"net/http"
	"strings"

	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/upstream/ftp"
	"robotsproxy/robots"
)

// serveFTP is the part of the first door that ftp URLs take. What no FTP server
// could be asked is answered here.
func (s *Server) serveFTP(w http.ResponseWriter, r *http.Request, target robots.Target) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		a := answer.BadRequest(http.StatusMethodNotAllowed, "of an FTP server only GET and HEAD can be asked")
		a.Header = http.Header{"Allow": {"GET, HEAD"}}
		s.answer(w, r, a)
		return
	}
	if end := len(target.Path) - len(ftp.TypeImage); end > 0 && strings.EqualFold(target.Path[end:], ftp.TypeImage) {
		target.Path = target.Path[:end]
	}
	if err := ftp.CheckPath(target.Path); err != nil {
		s.answer(w, r, answer.BadRequest(http.StatusBadRequest, err.Error()))
		return
	}
	s.forward(w, r, target)
}
