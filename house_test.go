package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms are the packages that there may be and which others of ours each may
// import. The README's ARCHITECTURE has the picture. The program itself, the
// room "", may import them all.
var rooms = map[string][]string{
	"config":         {"certs", "proxy", "proxy/admin", "proxy/gate", "proxy/identity", "proxy/pace", "robots/policy", "robots/store"},
	"proxy":          {"certs", "internal/loopback", "internal/printable", "proxy/gate", "proxy/identity", "robots"},
	"proxy/admin":    {"internal/printable", "proxy/gate", "proxy/identity", "robots", "robots/policy", "robots/store"},
	"proxy/gate":     {"internal/printable", "proxy/identity", "proxy/pace", "robots", "robots/policy"},
	"proxy/identity": {"robots"},
	"proxy/pace":     {},
	"robots/policy":  {"internal/loopback", "robots", "robots/store"},
	"robots/store":   {},
	"robots":         {},
	"certs":          {},

	"internal/loopback":  {},
	"internal/printable": {},
}

// roomFor says which rooms alone may import a library.
var roomFor = map[string][]string{
	"github.com/elazarl/goproxy":         {"proxy"},
	"github.com/spf13/cobra":             {""},
	"github.com/goccy/go-yaml":           {"config"},
	"modernc.org/sqlite":                 {"robots/store"},
	"github.com/dgraph-io/ristretto":     {"robots/policy"},
	"github.com/redis/go-redis":          {"robots/store", "proxy/pace"},
	"github.com/jlaffaye/ftp":            {"proxy"},
	"software.sslmate.com/src/go-pkcs12": {"certs"},
}

// pure are the imports of robots, which does no I/O and knows no clock.
var pure = []string{
	"bytes", "cmp", "errors", "fmt", "golang.org/x/net/idna", "iter", "maps", "math", "math/bits",
	"net/netip", "slices", "sort", "strconv", "strings", "sync", "time", "unicode", "unicode/utf8", "unsafe",
}

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	Dir, ImportPath, Doc string
	GoFiles, Imports     []string
}

// room is the package's path inside the module.
func (p goPackage) room() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, "robotsproxy"), "/")
}

func goList(t *testing.T) []goPackage {
	t.Helper()
	list := exec.Command("go", "list", "-json=Dir,ImportPath,Doc,GoFiles,Imports", "./...")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	var all []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		all = append(all, p)
	}
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	for _, p := range goList(t) {
		may, known := rooms[p.room()]
		if !known && p.room() != "" {
			t.Errorf("package %s has no room in the house", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			ours, found := strings.CutPrefix(imported, "robotsproxy/")
			if found && p.room() != "" && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s; it may import %v", p.room(), ours, may)
			}
			for library, rooms := range roomFor {
				if (imported == library || strings.HasPrefix(imported, library+"/")) && !slices.Contains(rooms, p.room()) {
					t.Errorf("%s imports %s, which only %q may", p.ImportPath, imported, rooms)
				}
			}
			if p.room() == "robots" && !slices.Contains(pure, imported) {
				t.Errorf("robots imports %s; it is a language, so it may import only %v", imported, pure)
			}
		}
	}
}

func TestRobotsReadsNoClock(t *testing.T) {
	for _, p := range goList(t) {
		if p.room() != "robots" {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			must(t, err)
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
	for _, p := range goList(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func TestProgramIsBuiltWithoutC(t *testing.T) {
	info, err := buildinfo.ReadFile(program)
	must(t, err)
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" && s.Value != "0" {
			t.Errorf("the program has been built with cgo")
		}
	}
}
