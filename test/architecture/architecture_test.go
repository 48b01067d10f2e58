// Package architecture keeps the picture of the packages that docs/develop.md draws: which
// there are, which may import which and why, and which alone may use a library.
package architecture

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// arrows are the imports that there are between our packages, each with the reason why it
// is there. The packages of commandLine may import any: they and main.go need no
// arrows.
var arrows = map[string]map[string]string{
	"certs": {
		"internal/keyerr": "its errors say which key they are about",
	},
	"certs/trust": {
		"certs":           "the CA, and where its own files are",
		"internal/keyerr": "its errors say which key they are about",
	},
	"cli/environment": {
		"certs":                "the CA that a shell's programs are to trust",
		"certs/trust":          "the files by which clients trust the CA",
		"internal/clientsetup": "which variables clients read",
	},
	"cli/evidence": {
		"cli/evidence/sealedzip": "the form of archives",
		"cli/evidence/warc":      "the form of the file with the texts",
		"internal/printable":     "JSON and texts show what sites and clients wrote",
		"proxy/decision":         "the words of decisions in the log",
		"proxy/sign":             "keys sign archives",
		"robots":                 "the origins of requests",
		"robots/store":           "the versions of files",
		"robots/store/counts":    "the counts of decisions, and days",
	},
	"cli/evidence/sealedzip": {
		"proxy/sign": "keys sign archives",
	},
	"cli/summary": {
		"internal/clientsetup": "tells what browsers ask for by themselves from what the command was run for",
		"internal/printable":   "it shows what sites and clients wrote",
		"internal/wholefile":   "its file is there whole or not at all",
		"proxy/decision":       "it counts decisions",
		"proxy/pace":           "says in its words whose delays requests waited for",
		"proxy/sealed":         "what became of the connections of a sealed command",
	},
	"cli/trial": {
		"internal/build":     "its requests name the version",
		"internal/loopback":  "it is a client on this machine",
		"internal/printable": "it shows what sites wrote",
		"proxy/gate":         "it sends only what the gate admits",
		"proxy/identity":     "who signs",
		"proxy/sign":         "where the key directory is, and its media type",
		"robots":             "the target of the request",
		"robots/fetch":       "the network that serves an origin decides on the form",
		"robots/keeper":      "which network serves the origin",
	},
	"config": {
		"certs":               "the options of https",
		"certs/trust":         "the options of https",
		"config/strictyaml":   "it reads the file",
		"configs":             "the schema quotes the comments of the full example",
		"internal/keyerr":     "its errors say which key they are about",
		"internal/listen":     "whether processes can share a port",
		"internal/logging":    "the options of log",
		"internal/redirected": "whether there can be a transparent door",
		"proxy/access":        "the options of clients",
		"proxy/admin/guard":   "the token's type",
		"proxy/conns":         "the options of limits",
		"proxy/decision":      "which decisions are logged",
		"proxy/gate":          "the options of preferences, and what the gate judges by",
		"proxy/identity":      "the options of identities",
		"proxy/opaque":        "which tunnels are read",
		"proxy/override":      "the items of overrides",
		"proxy/pace":          "the options of pace",
		"proxy/sealed":        "the options of run",
		"proxy/upstream":      "the options of upstream",
		"robots/policy":       "the options of robots",
		"robots/store":        "the options of cache",
	},
	"config/strictyaml": {
		"internal/enum":   "the words of enumerations, for the schema",
		"internal/keyerr": "which key an error of the validation is about",
	},
	"proxy": {
		"certs":               "it ends TLS with leaf certificates",
		"internal/coalesce":   "HTTP/2 to clients is sent in few pieces",
		"internal/hostname":   "the name that a client's TLS asks for, in its normal form",
		"internal/loopback":   "it says which clients are on this machine",
		"internal/redirected": "the address that the kernel knows a redirected client by",
		"internal/shortage":   "doors wait while there is no descriptor for a connection",
		"proxy/access":        "who may use it",
		"proxy/answer":        "its own responses",
		"proxy/conns":         "the connections of clients",
		"proxy/distrust":      "which clients do not trust the CA",
		"proxy/flow":          "connections to destinations that need no verdict are carried there",
		"proxy/forward":       "every request goes on there",
		"proxy/decision":      "by which door a request came",
		"proxy/gate":          "what a tunnel asks it",
		"proxy/home":          "the web site at its own address",
		"proxy/identity":      "who a client says it is",
		"proxy/opaque":        "tunnels that are not read",
		"proxy/sniff":         "the first octets in a tunnel",
		"proxy/socks":         "what the clients of its SOCKS door say",
		"proxy/upstream":      "opaque tunnels are dialled there",
		"proxy/upstream/ftp":  "it checks the paths of ftp URLs",
		"robots":              "targets and origins",
	},
	"proxy/answer": {
		"internal/printable": "its answers show what sites and clients wrote",
		"internal/shortage":  "what this machine lacks is answered as its own fault",
		"proxy/decision":     "the words for reasons",
		"proxy/gate":         "a refusal shows its verdict",
		"proxy/upstream":     "the error types of failures",
	},
	"proxy/admin": {
		"internal/hostname":     "origins are found by a part of their names",
		"internal/printable":    "JSON shows what sites and clients wrote",
		"proxy/admin/dashboard": "its pages for people",
		"proxy/admin/guard":     "who may use the API and the dashboard",
		"proxy/admin/ledger":    "it shows what was decided lately",
		"proxy/decision":        "it shows decisions",
		"proxy/distrust":        "it shows the clients that do not trust the CA",
		"proxy/gate":            "it shows verdicts",
		"proxy/identity":        "it shows identities",
		"proxy/override":        "it shows overrides",
		"proxy/pace":            "it shows what holds requests",
		"proxy/report":          "it shows reports about periods",
		"proxy/sign":            "the path of the key directory",
		"robots":                "it parses origins and targets, and shows rules",
		"robots/keeper":         "it shows the history of policies",
		"robots/preference":     "what a bot declares, in questions and of identities",
		"robots/policy":         "it shows policies",
		"robots/store":          "it shows changes of robots.txt",
		"robots/store/counts":   "it adds counts up to top lists",
	},
	"proxy/conns": {
		"internal/keyerr":   "its errors say which key they are about",
		"internal/shortage": "it knows when the system has no descriptor left",
		"internal/slots":    "it bounds the connections of clients",
		"proxy/flow":        "it closes a connection whose client takes nothing",
	},
	"proxy/counter": {
		"internal/outage":     "the log tells of a store that fails once",
		"internal/printable":  "it cuts long texts",
		"proxy/decision":      "it counts decisions",
		"robots/store/counts": "what it counts, and the store that keeps it",
	},
	"proxy/home": {
		"internal/clientsetup": "its page says what each client needs",
		"internal/printable":   "its page shows what clients wrote",
		"proxy/answer":         "a page or text, and the Content-Security-Policy",
		"proxy/identity":       "as which bot a request would be judged",
		"robots":               "a plain host and port, whatever Host says",
	},
	"proxy/message": {
		"proxy/conns": "a WebSocket's connection is one of those that are left at the end",
		"proxy/flow":  "it counts how bodies and WebSockets move",
	},
	"proxy/sniff": {
		"proxy/flow": "how a connection is closed one way",
	},
	"proxy/admin/dashboard": {
		"internal/printable": "its pages show what was asked for",
		"proxy/decision":     "the words for reasons",
		"proxy/report":       "it shows reports about periods",
	},
	"proxy/admin/ledger": {
		"internal/hostname":   "decisions are found by a part of a host",
		"internal/printable":  "it cuts long texts",
		"proxy/decision":      "the type of decisions",
		"robots/store/counts": "what became of a request, in the words of the counts",
	},
	"proxy/decision": {
		"internal/enum":       "the words of its settings",
		"internal/printable":  "log lines show what sites and clients wrote",
		"proxy/identity":      "it counts by identity, from the first moment of each",
		"proxy/sign":          "it counts signed requests by the form of their signatures",
		"robots/preference":   "it counts preferences by their source",
		"robots/store/counts": "what became of a request, in the words of the counts",
	},
	"proxy/forward": {
		"internal/shortage": "it tells what this machine lacks from what clients and origins do",
		"proxy/answer":      "it writes the proxy's own responses",
		"proxy/conns":       "WebSockets are connections that are left at the end",
		"proxy/flow":        "it breaks off exchanges that stand still",
		"proxy/decision":    "by which door a request came, and why nothing was decided",
		"proxy/gate":        "every request is judged there",
		"proxy/identity":    "it says who is asking",
		"proxy/message":     "what every proxy does to the messages that pass",
		"proxy/upstream":    "what may pass goes out there",
		"robots":            "targets and origins",
	},
	"proxy/gate": {
		"internal/enum":      "the words of its settings",
		"internal/keyerr":    "its errors say which key they are about",
		"internal/printable": "log lines and verdicts show what sites and clients wrote",
		"proxy/decision":     "the words of its verdicts; it records what it decided",
		"proxy/identity":     "it asks who is asking",
		"proxy/override":     "what the operator says of an origin comes first",
		"proxy/pace":         "it has requests wait for their turn",
		"robots":             "it matches paths",
		"robots/urlpath":     "paths as servers read them",
		"robots/keeper":      "it says for whom a policy is asked for",
		"robots/policy":      "it asks what an origin allows",
		"robots/preference":  "it asks what a site says about a declared use",
	},
	"proxy/identity": {
		"internal/enum":     "the words of its settings",
		"internal/hostname": "globs over hosts, in the normal form",
		"internal/keyerr":   "its errors say which key they are about",
		"proxy/sign":        "it signs the requests of identities that have keys",
		"robots":            "the default ports of origins",
		"robots/preference": "what a bot declares to do with pages",
		"robots/fetch":      "it signs fetches too, and the network that serves an origin decides on the form",
	},
	"proxy/override": {
		"internal/enum":      "the words of its settings",
		"internal/keyerr":    "its errors say which key they are about",
		"internal/printable": "logs, pages and terminals show its texts as they are",
		"proxy/identity":     "origin globs",
		"robots":             "the robots_file of an override is parsed",
		"robots/fetch":       "a robots_file is read like a robots.txt that is fetched",
	},
	"proxy/opaque": {
		"internal/enum":     "the words of its settings",
		"internal/loopback": "later judgements are for the same client",
		"proxy/flow":        "tunnels are carried there",
		"proxy/decision":    "the judgment of a mixed tunnel",
		"proxy/gate":        "tunnels are judged there as a whole",
		"proxy/identity":    "host globs",
		"proxy/sniff":       "the first octets in a tunnel",
		"robots":            "the origin that a server's name stands for",
	},
	"proxy/pace": {
		"internal/enum":        "the words of its settings",
		"internal/keyerr":      "its errors say which key they are about",
		"internal/redisclient": "whether there is a fleet, and by which server",
		"proxy/pace/fleet":     "turns, holds and counts that proxies share",
		"proxy/pace/local":     "failures and counts that one proxy knows by itself",
	},
	"proxy/pace/local": {
		"proxy/pace/fleet": "it does in memory what a fleet does: with its rules, sites and state",
	},
	"proxy/pace/fleet": {
		"internal/outage":      "the log tells of a Redis that is away once",
		"internal/redisclient": "what proxies share is in Redis",
	},
	"proxy/redirect": {
		"internal/nfexpr": "its rules",
	},
	"proxy/report": {
		"internal/printable":  "it shows what sites and clients wrote",
		"proxy/decision":      "the words for reasons",
		"robots":              "the origin that it is asked for",
		"robots/store":        "the changes of robots.txt that a store has seen",
		"robots/store/counts": "what it adds up",
	},
	"proxy/seal": {
		"internal/nfexpr":     "its rules",
		"internal/redirected": "it asks where a connection was to go",
		"proxy/seal/cover":    "a sealed command has files of its own too",
	},
	"proxy/sealed": {
		"internal/hostname": "the normal form of destinations",
		"internal/keyerr":   "its errors say which key they are about",
		"proxy":             "the proxy serves a sealed command's connections",
		"proxy/flow":        "forwarded ports are carried there",
		"proxy/seal":        "it makes the network",
		"proxy/seal/cover":  "the files by which the command trusts the CA",
		"proxy/seal/names":  "it answers the command's questions for names",
		"proxy/upstream":    "why a connection that is allowed failed",
	},
	"proxy/sign": {
		"internal/keyerr": "its errors say which key they are about",
		"robots":          "targets and origins, in their normal form",
	},
	"proxy/sign/directory": {
		"proxy/identity": "who signs, with which keys and for which agent",
		"proxy/sign":     "it publishes keys",
		"robots":         "the origins of agents",
	},
	"proxy/upstream": {
		"internal/coalesce":   "HTTP/2 to origins is sent in few pieces",
		"internal/enum":       "the words of its settings",
		"internal/keyerr":     "its errors say which key they are about",
		"internal/loopback":   "it dials this machine's loopback for its own clients alone",
		"internal/shortage":   "a dial without a free slot fails for this machine's fault",
		"internal/slots":      "each connection to an origin takes a descriptor",
		"proxy/identity":      "host globs",
		"proxy/upstream/ftp":  "it sends requests for ftp URLs",
		"proxy/upstream/pool": "it keeps connections to origins",
		"robots":              "origins",
	},
	"internal/logging": {
		"internal/enum":      "the words of its settings",
		"internal/printable": "log lines show what sites and clients wrote",
	},
	"proxy/upstream/ftp": {
		"internal/printable": "a server's refusal is shown",
	},
	"internal/slots": {
		"internal/shortage": "the limit on open files",
	},
	"robots/fetch": {
		"internal/enum":      "the words of its settings",
		"internal/keyerr":    "its errors say which key they are about",
		"internal/loopback":  "a fetch may go where its client may",
		"internal/printable": "it cuts the causes of failures",
		"internal/shortage":  "a fetch that fails for this machine's fault says nothing about its origin",
		"robots":             "origins, and the part of a text that counts",
		"robots/tdmrep":      "the part of a tdmrep.json that counts",
	},
	"robots": {
		"internal/hostname": "the normal form of an origin's host",
		"robots/pattern":    "it finds the rule that decides about a path",
		"robots/preference": "what a group says about use",
		"robots/urlpath":    "/robots.txt in any spelling, and escapes",
	},
	"robots/preference": {
		"internal/enum":  "the words of its settings",
		"robots/pattern": "it finds the line that decides about a path",
	},
	"robots/pattern": {
		"robots/urlpath": "patterns and paths are compared in their normal form",
	},
	"robots/policy": {
		"internal/keyerr": "its errors say which key they are about",
		"robots":          "the rules of a policy",
		"robots/fetch":    "what a fetch brings, and its options",
		"robots/store":    "a policy follows from a record",
		"robots/tdmrep":   "the rules of the policy of a tdmrep.json",
	},
	"robots/tdmrep": {
		"robots/pattern": "it finds the rule that decides about a path",
	},
	"robots/keeper": {
		"internal/fair":            "clients take turns for fetches",
		"internal/loopback":        "a fetch may go where its client may",
		"robots":                   "it knows the policies of origins",
		"robots/fetch":             "it has robots.txt fetched",
		"robots/keeper/memory":     "it has parsed policies in memory",
		"robots/policy":            "what an origin allows",
		"robots/store":             "the type of its records",
		"robots/store/writebehind": "its records are written in the background",
	},
	"robots/keeper/memory": {
		"robots":        "it parses the texts of records",
		"robots/policy": "what an origin allows",
		"robots/store":  "the type of its records",
		"robots/tdmrep": "it parses the texts of records",
	},
	"robots/store/writebehind": {
		"internal/outage": "the log tells of a store that fails once",
		"robots/store":    "the store that it writes to",
	},
	"proxy/access": {
		"internal/keyerr": "its errors say which key they are about",
		"internal/fair":   "clients take turns for the checks of passwords",
	},
	"internal/redisclient": {
		"internal/keyerr": "its errors say which key they are about",
	},
	"internal/redistest": {
		"internal/redisclient": "it opens the program's client with more time for slow machines",
	},
	"robots/store": {
		"internal/enum":        "the words of its settings",
		"internal/keyerr":      "its errors say which key they are about",
		"internal/redisclient": "the check of redis_url",
	},
	"robots/store/redisstore": {
		"internal/redisclient":  "it asks the Redis of the fleet",
		"robots/store":          "the type of its records",
		"robots/store/counts":   "the type of the counts that it keeps",
		"robots/store/encoding": "how texts and times are written",
	},
	"robots/store/sqlitestore": {
		"robots/store":                        "the type of its records",
		"robots/store/counts":                 "the type of the counts that it keeps",
		"robots/store/encoding":               "how texts and times are written",
		"robots/store/sqlitestore/counttable": "the tables of counts",
		"robots/store/sqlitestore/dbfile":     "the database file, which it reads and writes",
	},
	"robots/store/sqlitestore/counttable": {
		"robots/store/counts":             "the type of the counts that it keeps",
		"robots/store/sqlitestore/dbfile": "the database whose tables it reads and writes",
	},
	"robots/store/storetest": {
		"robots/store":        "it tests what every store does",
		"robots/store/counts": "it tests what every store does with counts",
	},
}

// commandLine are the packages that may import any, and alone may import config. cli/card is
// one of them because a card sums up a whole configuration.
var commandLine = []string{"cli", "cli/card", "cli/engine"}

// leaves are the packages that import nothing of ours.
var leaves = []string{
	"configs", "robots/urlpath", "cli/child", "cli/evidence/warc",
	"proxy/admin/guard", "proxy/distrust", "proxy/flow", "proxy/seal/cover", "proxy/seal/names", "proxy/socks", "proxy/upstream/pool",
	"internal/build", "internal/clientsetup", "internal/coalesce", "internal/enum", "internal/fair", "internal/hostname", "internal/keyerr", "internal/listen", "internal/loopback",
	"internal/nfexpr", "internal/outage", "internal/printable", "internal/redirected", "internal/shortage", "internal/wholefile",
	"robots/store/counts", "robots/store/encoding", "robots/store/sqlitestore/dbfile",
}

// testOnly are the packages that help tests. Only _test files may import them, so that
// none of them, nor package testing, is part of the program.
var testOnly = []string{"internal/conformancetest", "internal/conntest", "internal/logtest", "internal/redistest", "internal/signtest", "robots/store/storetest"}

// usersOf says which packages alone may import a library.
var usersOf = map[string][]string{
	"github.com/elazarl/goproxy":         {"proxy/forward"},
	"github.com/coreos/go-systemd":       {"internal/listen", "cli/engine"},
	"github.com/spf13/cobra":             {"cli"},
	"github.com/dunglas/httpsfv":         {"robots/preference", "internal/signtest"},
	"github.com/goccy/go-yaml":           {"config/strictyaml"},
	"modernc.org/sqlite":                 {"robots/store/sqlitestore/dbfile"},
	"github.com/dgraph-io/ristretto":     {"robots/keeper/memory"},
	"github.com/redis/go-redis":          {"robots/store/redisstore", "proxy/pace/fleet", "internal/redisclient", "internal/redistest"},
	"github.com/jlaffaye/ftp":            {"proxy/upstream/ftp"},
	"github.com/google/nftables":         {"internal/nfexpr", "proxy/redirect", "proxy/seal"},
	"github.com/mdlayher/netlink":        {"proxy/seal"},
	"software.sslmate.com/src/go-pkcs12": {"certs/trust"},
}

// language are the packages of robots.txt as a language. They do no I/O and know no clock.
var language = []string{"robots", "robots/pattern", "robots/preference", "robots/tdmrep", "robots/urlpath", "internal/enum", "internal/hostname"}

// pure are the only imports of these packages, besides each other.
var pure = []string{
	"bytes", "cmp", "encoding/json", "errors", "fmt", "github.com/dunglas/httpsfv", "golang.org/x/net/idna", "iter", "maps", "math/bits",
	"net/netip", "net/url", "slices", "sort", "strconv", "strings", "sync", "time", "unicode/utf8", "unsafe",
}

// replaced are packages of the standard library that none of ours may import, each with the
// reason and what to import in its place.
var replaced = map[string]string{
	"html/template": "its templates may call methods, so the linker keeps every exported method of the program; import github.com/DataDog/datadog-agent/pkg/template/html",
	"text/template": "its templates may call methods, so the linker keeps every exported method of the program; import github.com/DataDog/datadog-agent/pkg/template/text",
}

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	Dir, ImportPath, Doc string
	GoFiles, Imports     []string
}

// path is the package's folder in the repository; "" for the program.
func (p goPackage) path() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, "robotsproxy"), "/")
}

// packages are those of the product.
func packages(t *testing.T) []goPackage {
	t.Helper()
	list := exec.Command("go", "list", "-C", filepath.Join("..", ".."), "-json=Dir,ImportPath,Doc,GoFiles,Imports", "./...")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	var all []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			if len(all) == 0 {
				t.Fatalf("%v: no packages", list)
			}
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestEveryImportIsAnArrow(t *testing.T) {
	for _, p := range packages(t) {
		path := p.path()
		if path == "" || slices.Contains(commandLine, path) {
			continue
		}
		reasons, known := arrows[path]
		if !known && !slices.Contains(leaves, path) && !slices.Contains(testOnly, path) {
			t.Errorf("the package %s is missing in arrows, leaves and testOnly", path)
		}
		for _, imported := range p.Imports {
			if ours, found := strings.CutPrefix(imported, "robotsproxy/"); found && reasons[ours] == "" {
				t.Errorf("%s imports %s; it may import %q", path, ours, slices.Sorted(maps.Keys(reasons)))
			}
		}
	}
}

func TestEveryArrowIsAnImport(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range packages(t) {
		imports[p.path()] = p.Imports
	}
	for path, reasons := range arrows {
		for imported := range reasons {
			if !slices.Contains(imports[path], "robotsproxy/"+imported) {
				t.Errorf("%s does not import %s any more: remove the arrow", path, imported)
			}
		}
	}
	for _, path := range slices.Concat(leaves, testOnly) {
		if _, exists := imports[path]; !exists {
			t.Errorf("the package %s does not exist any more", path)
		}
	}
}

func TestProgramHoldsNoTestCode(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			ours, isOurs := strings.CutPrefix(imported, "robotsproxy/")
			isTestOnly := imported == "testing" || isOurs && slices.Contains(testOnly, ours)
			if isTestOnly && !slices.Contains(testOnly, p.path()) {
				t.Errorf("%s imports %s, which is for tests alone", p.path(), imported)
			}
		}
	}
}

func TestOnlyCommandLineImportsConfig(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(p.Imports, "robotsproxy/config") && !slices.Contains(commandLine, p.path()) {
			t.Errorf("%s imports config", p.path())
		}
	}
}

func TestLibrariesHaveTheirUsers(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			for library, users := range usersOf {
				if imported != library && !strings.HasPrefix(imported, library+"/") {
					continue
				}
				used[library+" "+p.path()] = true
				if !slices.Contains(users, p.path()) {
					t.Errorf("%s imports %s, which only %q may", p.path(), imported, users)
				}
			}
			if !slices.Contains(language, p.path()) || slices.Contains(language, strings.TrimPrefix(imported, "robotsproxy/")) {
				continue
			}
			used[imported] = true
			if !slices.Contains(pure, imported) {
				t.Errorf("%s imports %s; it is a language, so it may import only %v", p.path(), imported, pure)
			}
		}
	}
	for _, imported := range pure {
		if !used[imported] {
			t.Errorf("no package of the language imports %s any more: remove it from the list", imported)
		}
	}
	for library, users := range usersOf {
		for _, user := range users {
			if !used[library+" "+user] {
				t.Errorf("%s does not use %s any more: remove it from the list", user, library)
			}
		}
	}
}

func TestNoPackageImportsWhatIsReplaced(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			if reason := replaced[imported]; reason != "" {
				t.Errorf("%s imports %s: %s", p.path(), imported, reason)
			}
		}
	}
}

func TestRobotsReadsNoClock(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.Contains(language, p.path()) {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if f, ok := call.Fun.(*ast.SelectorExpr); ok && isName(f.X, "time") && !isName(f.Sel, "Duration") {
						t.Errorf("%s calls time.%s; time is there for durations alone", name, f.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func isName(n ast.Expr, name string) bool {
	id, ok := n.(*ast.Ident)
	return ok && id.Name == name
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}
