package policy

import "robotsproxy/robots/tdmrep"

// A Kind is one of the files in which an origin says what bots may do.
type Kind uint8

// The kinds. The zero Kind is RobotsTxt.
const (
	RobotsTxt Kind = iota // may a path be fetched?
	TDMRep                // is the right to mine it reserved?

	KindCount = iota // how many there are
)

// Path is where an origin has the file.
func (k Kind) Path() string {
	if k == TDMRep {
		return tdmrep.Path
	}
	return "/robots.txt"
}

// String is the file's name, as logs show it.
func (k Kind) String() string {
	if k == TDMRep {
		return "tdmrep.json"
	}
	return "robots.txt"
}

// For returns the options as they count for files of a kind. Those of a tdmrep.json differ
// in two:
//
//   - Statuses are about robots.txt alone. An operator who takes its 403 for a ban has
//     said nothing about sites that answer 403 for all of /.well-known.
//   - DisallowFor is 0. While the file is unreachable its last copy counts: what a site has
//     reserved or opened does not change with a fault.
//
// AllowAfter counts for both. The report takes a site that fails to give its tdmrep.json for
// one that makes no reservation; the time is what caution adds to that.
func (o Options) For(k Kind) Options {
	if k == TDMRep {
		o.Statuses = nil
		o.DisallowFor = 0
	}
	return o
}
