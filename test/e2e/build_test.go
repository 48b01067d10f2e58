package e2e

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"robotsproxy/test/build"
)

// The commands that README.md and docs/ give, and make build, build one static binary also where Go
// would use cgo by itself.
func TestBuildIsStatic(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("this test reads ELF files; run it on Linux")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("without a C compiler no build uses cgo; install Debian's package gcc")
	}
	root := filepath.Join("..", "..")
	file := filepath.Join(t.TempDir(), "robotsproxy")
	commands := []string{"make build PROGRAM='" + file + "'"}
	for _, page := range []string{"README.md", "docs/deploy.md"} {
		before := len(commands)
		text, err := os.ReadFile(filepath.Join(root, page))
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "    ") && strings.Contains(line, "go build -o robotsproxy ") {
				commands = append(commands, strings.Replace(strings.TrimSpace(line), "-o robotsproxy", "-o '"+file+"'", 1))
			}
		}
		if len(commands) == before {
			t.Errorf("%s has no command that builds the program", page)
		}
	}
	for _, command := range commands {
		t.Run(command[:strings.Index(command, "'")], func(t *testing.T) {
			build := exec.Command("sh", "-c", command)
			build.Dir = root
			build.Env = append(os.Environ(), "CGO_ENABLED=1")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
			wantStatic(t, file)
			must(t, os.Remove(file))
		})
	}
}

// The linker leaves out the methods that nothing calls, unless any code that the program can
// reach looks methods up by names that it computes, as text/template does. Then it keeps all
// exported ones: a third more of the program.
func TestProgramLeavesOutUnusedMethods(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("this test reads ELF files; run it on Linux")
	}
	f, err := elf.Open(build.Plain(t))
	must(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	must(t, err)
	const used, unused = "github.com/redis/go-redis/v9.cmdable.HGetAll", "github.com/redis/go-redis/v9.cmdable.GeoAdd"
	has := func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	}
	if !has(used) {
		t.Errorf("it has no symbol %s, so this test looks for the wrong names", used)
	}
	if has(unused) {
		t.Errorf("it has the method %s, which nothing calls; find what looks methods up by name: go build -ldflags=-dumpdep . 2>&1 | grep '<ReflectMethod>'", unused)
	}
}

// wantStatic wants an ELF file that needs neither a dynamic linker nor a library.
func wantStatic(t *testing.T, file string) {
	t.Helper()
	f, err := elf.Open(file)
	must(t, err)
	defer f.Close()
	for _, program := range f.Progs {
		if program.Type == elf.PT_INTERP || program.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a program header %v", program.Type)
		}
	}
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("it needs the libraries %q, %v", libraries, err)
	}
}
