package e2e

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The commands that the README gives, and make build, build one static binary also where Go
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
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	must(t, err)
	commands := []string{"make build PROGRAM='" + file + "'"}
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "    ") && strings.Contains(line, "go build -o robotsproxy ") {
			commands = append(commands, strings.Replace(strings.TrimSpace(line), "-o robotsproxy", "-o '"+file+"'", 1))
		}
	}
	if len(commands) < 2 {
		t.Fatal("the README has no command that builds the program")
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
