// Command bom says what a program in Go is made of:
//
//	bom PROGRAM SBOM NOTICES
//
// PROGRAM is its file, for whatever platform. SBOM is written in the JSON of CycloneDX, NOTICES
// gets the licences and notices of all modules in the program and of Go. Run it in the program's
// module, whose dependencies must be in the module cache. SOURCE_DATE_EPOCH is the time that
// the SBOM names.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbomVersion is the version of CycloneDX in which SBOMs are written. More tools read it than the
// newest.
const sbomVersion = cdx.SpecVersion1_6

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: bom PROGRAM SBOM NOTICES")
		os.Exit(2)
	}
	if err := describe(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintf(os.Stderr, "bom: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func describe(program, sbomFile, noticesFile string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	sum, err := sha256Of(program)
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("reading SOURCE_DATE_EPOCH: %w", err)
	}
	var sbom bytes.Buffer
	if err := cdx.NewBOMEncoder(&sbom, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(billOf(info, sum, time.Unix(seconds, 0)), sbomVersion); err != nil {
		return fmt.Errorf("writing the SBOM: %w", err)
	}
	notices, err := noticesOf(info)
	if err != nil {
		return err
	}
	if err := os.WriteFile(sbomFile, sbom.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(noticesFile, notices, 0o644)
}

// billOf lists what a program is made of: its modules and the standard library.
func billOf(info *buildinfo.BuildInfo, sum string, made time.Time) *cdx.BOM {
	program := component(cdx.ComponentTypeApplication, info.Main.Path, info.Main.Version)
	program.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
	program.Properties = &[]cdx.Property{}
	for _, s := range info.Settings {
		*program.Properties = append(*program.Properties, cdx.Property{Name: "go:" + s.Key, Value: s.Value})
	}

	parts := []cdx.Component{component(cdx.ComponentTypeLibrary, "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		part := component(cdx.ComponentTypeLibrary, module.Path, module.Version)
		if sum, isHash := moduleSum(module); isHash {
			part.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
		}
		parts = append(parts, part)
	}
	refs := make([]string, len(parts))
	for i, part := range parts {
		refs[i] = part.BOMRef
	}

	bill := cdx.NewBOM()
	bill.Metadata = &cdx.Metadata{Timestamp: made.UTC().Format(time.RFC3339), Component: &program}
	bill.Components = &parts
	bill.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return bill
}

func component(kind cdx.ComponentType, path, version string) cdx.Component {
	// A purl has a plus sign percent-encoded.
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{Type: kind, BOMRef: purl, Name: path, Version: version, PackageURL: purl}
}

// moduleSum returns a module's sum from go.sum in hexadecimal. It is the SHA-256 of a list of the sums
// of the module's files.
func moduleSum(module *debug.Module) (sum string, ok bool) {
	encoded, ok := strings.CutPrefix(module.Sum, "h1:")
	if !ok {
		return "", false
	}
	octets, err := base64.StdEncoding.DecodeString(encoded)
	return hex.EncodeToString(octets), err == nil
}

func sha256Of(file string) (string, error) {
	octets, err := os.ReadFile(file)
	sum := sha256.Sum256(octets)
	return hex.EncodeToString(sum[:]), err
}

// noticesOf returns the texts that must go with a program, one below the other. A module
// without any is an error: somebody must look.
func noticesOf(info *buildinfo.BuildInfo) ([]byte, error) {
	goroot, err := output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	fmt.Fprint(&all, "The program contains the Go runtime and standard library, and the modules below.\n")
	if err := addNotices(&all, info.GoVersion, goroot, "LICENSE", "PATENTS"); err != nil {
		return nil, err
	}
	for _, module := range info.Deps {
		folder, err := output("go", "list", "-m", "-f", "{{.Dir}}", module.Path)
		if err != nil {
			return nil, err
		}
		files, err := noticeFiles(folder)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("the module %s has no licence in %s", module.Path, folder)
		}
		if err := addNotices(&all, module.Path+" "+module.Version, folder, files...); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

func addNotices(all *bytes.Buffer, name, folder string, files ...string) error {
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), name, filepath.ToSlash(file), bytes.TrimSpace(text))
	}
	return nil
}

var isNotice = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)`).MatchString

// noticeFiles returns the files of a module that are by their names licences or notices, of
// code that it has copied too.
func noticeFiles(folder string) (files []string, err error) {
	err = fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return fs.SkipDir
		case entry.Type().IsRegular() && isNotice(entry.Name()) && filepath.Ext(path) != ".go":
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
