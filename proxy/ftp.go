package proxy

import (
	"net/http"
	"strings"

	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/upstream/ftp"
	"robotsproxy/robots"
)

// serveFTP forwards a request for an ftp URL, and answers those that no FTP server can
// serve.
func (s *Server) serveFTP(w http.ResponseWriter, r *http.Request, target robots.Target, user string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		a := answer.BadRequest(http.StatusMethodNotAllowed, "of an FTP server only GET and HEAD can be asked")
		a.Header = http.Header{"Allow": {"GET, HEAD"}}
		s.forwarder.Answer(w, r, a)
		return
	}
	if end := len(target.Path) - len(ftp.TypeImage); end > 0 && strings.EqualFold(target.Path[end:], ftp.TypeImage) {
		target.Path = target.Path[:end]
	}
	if err := ftp.CheckPath(target.Path); err != nil {
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, err.Error()))
		return
	}
	s.forwarder.Forward(w, r, decision.FTP, target, user)
}
