// Package release tests what .ci/release makes for Linux on this machine's architecture: an archive
// with its SBOM, a deb and an rpm. It installs the packages in a copy of this machine's file system.
package release

import (
	"archive/tar"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// tagged is the folder of the release v1.2.3, and later that of a commit after it, which has no tag.
var tagged, later string

// released is when both were committed.
var released = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	work, err := os.MkdirTemp("", "robotsproxy-release-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	tagged, later = filepath.Join(work, "tagged"), filepath.Join(work, "later")
	// A repository of its own has the tag, and the working tree as it is.
	command := exec.Command("bash", "-euc", `
		mkdir source
		git -C "$REPOSITORY" ls-files -z --cached --others --exclude-standard |
			(cd "$REPOSITORY" && xargs -0 sh -c 'for file; do ! [ -e "$file" ] || printf "%s\0" "$file"; done' sh | tar -cf - --null -T -) |
			tar -C source -xf -
		cd source
		export GIT_CONFIG_GLOBAL=/dev/null
		git init --quiet
		git add --all
		git commit --quiet --message=release
		git tag v1.2.3
		DIST=../tagged .ci/release "$PLATFORM"
		git commit --quiet --allow-empty --message=later
		DIST=../later .ci/release "$PLATFORM"`)
	command.Dir = work
	repository, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return 0, err
	}
	date := released.Format(time.RFC3339)
	command.Env = append(os.Environ(), "REPOSITORY="+repository, "PLATFORM=linux/"+runtime.GOARCH,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a.example", "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a.example", "GIT_COMMITTER_DATE="+date)
	if out, err := command.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("making the releases: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// only returns the one file of a folder that matches a pattern.
func only(t *testing.T, folder, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, pattern))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("%s: %d files", pattern, len(files))
	}
	return files[0]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// says runs a command and returns what it prints. Without the command, the test is skipped.
func says(t *testing.T, name string, args ...string) string {
	t.Helper()
	command := exec.Command(name, args...)
	command.Env = append(os.Environ(), "LC_ALL=C")
	out, err := command.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("this machine has no %s", name)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return string(out)
}

// unpacked unpacks an archive or a deb and returns the folder.
func unpacked(t *testing.T, file string) string {
	t.Helper()
	folder := t.TempDir()
	if strings.HasSuffix(file, ".deb") {
		says(t, "dpkg-deb", "--extract", file, folder)
		return folder
	}
	says(t, "tar", "-xf", file, "-C", folder)
	return only(t, folder, "*")
}

func TestVersionIsThatOfTheTag(t *testing.T) {
	program := filepath.Join(unpacked(t, only(t, tagged, "robotsproxy_1.2.3_linux_*.tar.gz")), "robotsproxy")
	if out := says(t, program, "--version"); !strings.HasPrefix(out, "robotsproxy v1.2.3 (commit ") {
		t.Errorf("the program says: %s", out)
	}
	if version := says(t, "dpkg-deb", "--field", only(t, tagged, "*.deb"), "Version"); version != "1.2.3-1\n" {
		t.Errorf("the deb has the version %s", version)
	}
	if version := says(t, "rpm", "-qp", "--queryformat", "%{VERSION}-%{RELEASE}", only(t, tagged, "*.rpm")); version != "1.2.3-1" {
		t.Errorf("the rpm has the version %s", version)
	}
}

// A commit after the tag has a version between that of the tag and that of the next.
func TestVersionWithoutTag(t *testing.T) {
	only(t, later, "robotsproxy_1.2.4-0.20260102030405-*_linux_*.tar.gz")
	version := strings.TrimSpace(says(t, "dpkg-deb", "--field", only(t, later, "*.deb"), "Version"))
	if !strings.HasPrefix(version, "1.2.4~0.20260102030405.") {
		t.Errorf("the deb has the version %s", version)
	}
	if rpm := says(t, "rpm", "-qp", "--queryformat", "%{VERSION}-%{RELEASE}", only(t, later, "*.rpm")); rpm != version {
		t.Errorf("the deb has the version %s, and the rpm %s", version, rpm)
	}
	says(t, "dpkg", "--compare-versions", version, "gt", "1.2.3-1")
	says(t, "dpkg", "--compare-versions", version, "lt", "1.2.4-1")
	bounds := `%{lua: if rpm.vercmp("` + version + `", "1.2.3-1") ~= 1 or rpm.vercmp("` + version + `", "1.2.4-1") ~= -1 then print("wrong") end}`
	if out := strings.TrimSpace(says(t, "rpm", "--eval", bounds)); out != "" {
		t.Errorf("rpm sorts the version %s: %s", version, out)
	}
}

// Nothing in an archive tells who made it, when or where.
func TestArchiveCanBeMadeAgain(t *testing.T) {
	file, err := os.Open(only(t, tagged, "*.tar.gz"))
	must(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	must(t, err)
	if !unzipped.ModTime.IsZero() || unzipped.Name != "" {
		t.Errorf("gzip says when it was made (%v) and from what (%q)", unzipped.ModTime, unzipped.Name)
	}
	var names []string
	for archive := tar.NewReader(unzipped); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if !entry.ModTime.Equal(released) || entry.Uid != 0 || entry.Gid != 0 || entry.Uname != "" || entry.Gname != "" || entry.Mode&0o022 != 0 {
			t.Errorf("%s: of %v, of %d:%d, %s:%s, mode %o", entry.Name, entry.ModTime, entry.Uid, entry.Gid, entry.Uname, entry.Gname, entry.Mode)
		}
		names = append(names, entry.Name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("the entries are not sorted: %q", names)
	}
	for _, want := range []string{
		"robotsproxy", "README.md", "CHANGELOG.md", "SECURITY.md", "THIRD-PARTY-NOTICES.txt", "docs/deploy.md", "configs/full.yaml",
		"man/robotsproxy.1", "man/robotsproxy-serve.1", "man/robotsproxy.yaml.5",
		"completions/robotsproxy.bash", "completions/robotsproxy.zsh", "completions/robotsproxy.fish", "completions/robotsproxy.ps1",
	} {
		if !slices.Contains(names, "robotsproxy_1.2.3_linux_"+runtime.GOARCH+"/"+want) {
			t.Errorf("it has no %s", want)
		}
	}
	program, err := os.ReadFile(filepath.Join(unpacked(t, file.Name()), "robotsproxy"))
	must(t, err)
	if regexp.MustCompile(`robotsproxy-release-[0-9]`).Match(program) {
		t.Error("the program names the folder in which it was built")
	}
}

func TestSums(t *testing.T) {
	command := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	command.Dir = tagged
	out, err := command.CombinedOutput()
	files, _ := os.ReadDir(tagged)
	if sums := strings.Count(string(out), ": OK\n"); err != nil || sums != len(files)-1 {
		t.Errorf("%d of %d files have sums: %v\n%s", sums, len(files)-1, err, out)
	}
}

// The SBOM and the notices have every module that is in the program.
func TestModulesAreNamed(t *testing.T) {
	folder := unpacked(t, only(t, tagged, "*.tar.gz"))
	program, err := buildinfo.ReadFile(filepath.Join(folder, "robotsproxy"))
	must(t, err)
	file, err := os.Open(only(t, tagged, "*.cdx.json"))
	must(t, err)
	defer file.Close()
	var bill cdx.BOM
	must(t, cdx.NewBOMDecoder(file, cdx.BOMFileFormatJSON).Decode(&bill))
	if c := bill.Metadata.Component; c.Name != "robotsproxy" || c.Version != "v1.2.3" || bill.Metadata.Timestamp != released.Format(time.RFC3339) {
		t.Errorf("the SBOM is of %s %s at %s", c.Name, c.Version, bill.Metadata.Timestamp)
	}
	var purls []string
	for _, c := range *bill.Components {
		purls = append(purls, c.PackageURL)
	}
	want := []string{"pkg:golang/stdlib@" + strings.TrimPrefix(program.GoVersion, "go")}
	for _, module := range program.Deps {
		want = append(want, "pkg:golang/"+module.Path+"@"+module.Version)
	}
	if !slices.Equal(purls, want) || len(want) < 20 {
		t.Errorf("the SBOM has the parts\n%q, want\n%q", purls, want)
	}
	notices, err := os.ReadFile(filepath.Join(folder, "THIRD-PARTY-NOTICES.txt"))
	must(t, err)
	for _, module := range program.Deps {
		if !strings.Contains(string(notices), "\n"+module.Path+" "+module.Version+": ") {
			t.Errorf("the notices lack the module %s", module.Path)
		}
	}
}

// packaged are files that both packages must have.
var packaged = []string{
	"-rwxr-xr-x /usr/bin/robotsproxy",
	"-rw-r--r-- /etc/robotsproxy/config.yaml",
	"-rw-r--r-- /etc/robotsproxy/robotsproxy.env",
	"-rw-r--r-- /usr/lib/systemd/system/robotsproxy.service",
	"-rw-r--r-- /usr/lib/systemd/system/robotsproxy.socket",
	"-rw-r--r-- /usr/lib/systemd/system/robotsproxy-redirect.service",
	"-rw-r--r-- /usr/lib/sysusers.d/robotsproxy.conf",
	"-rw-r--r-- /usr/share/man/man1/robotsproxy.1.gz",
	"-rw-r--r-- /usr/share/man/man5/robotsproxy.yaml.5.gz",
	"-rw-r--r-- /usr/share/bash-completion/completions/robotsproxy",
	"-rw-r--r-- /usr/share/fish/vendor_completions.d/robotsproxy.fish",
	"-rw-r--r-- /usr/share/doc/robotsproxy/copyright",
	"-rw-r--r-- /usr/share/doc/robotsproxy/THIRD-PARTY-NOTICES.txt",
	"-rw-r--r-- /usr/share/doc/robotsproxy/README.md",
	"-rw-r--r-- /usr/share/doc/robotsproxy/docs/deploy.md",
	"-rw-r--r-- /usr/share/doc/robotsproxy/configs/full.yaml",
}

const configurationFiles = "/etc/robotsproxy/config.yaml\n/etc/robotsproxy/robotsproxy.env\n"

func TestDeb(t *testing.T) {
	deb := only(t, tagged, "*.deb")
	checkFiles(t, says(t, "dpkg-deb", "--contents", deb), `(?m)^(\S{10}) \S+ .* \.(/\S+)$`,
		"-rw-r--r-- /usr/share/zsh/vendor-completions/_robotsproxy", "-rw-r--r-- /usr/share/robotsproxy/apparmor")
	if files := says(t, "dpkg-deb", "--info", deb, "conffiles"); files != configurationFiles {
		t.Errorf("its configuration files are\n%s", files)
	}
	profile, err := os.ReadFile(filepath.Join(unpacked(t, deb), "usr/share/robotsproxy/apparmor"))
	must(t, err)
	if !strings.Contains(string(profile), "\nprofile robotsproxy /usr/bin/robotsproxy ") {
		t.Errorf("the AppArmor profile is for another program:\n%s", profile)
	}
}

func TestRPM(t *testing.T) {
	rpm := only(t, tagged, "*.rpm")
	checkFiles(t, says(t, "rpm", "-qlvp", rpm), `(?m)^(\S{10}) .* (/\S+)$`, "-rw-r--r-- /usr/share/zsh/site-functions/_robotsproxy")
	if files := says(t, "rpm", "-qp", "--configfiles", rpm); files != configurationFiles {
		t.Errorf("its configuration files are\n%s", files)
	}
	if host := says(t, "rpm", "-qp", "--queryformat", "%{BUILDHOST} %{BUILDTIME}", rpm); host != fmt.Sprintf("localhost %d", released.Unix()) {
		t.Errorf("it says where and when it was made: %s", host)
	}
}

// checkFiles checks a package's list of files. pattern finds the mode and the path of each.
func checkFiles(t *testing.T, list, pattern string, more ...string) {
	t.Helper()
	var files []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(list, -1) {
		files = append(files, match[1]+" "+match[2])
	}
	for _, want := range slices.Concat(packaged, more) {
		if !slices.Contains(files, want) {
			t.Errorf("it lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(list)
	}
}

// The units run the program that the package has, and their manual pages are there too.
func TestUnitsOfThePackage(t *testing.T) {
	root := unpacked(t, only(t, tagged, "*.deb"))
	for _, name := range []string{"robotsproxy.service", "robotsproxy-redirect.service"} {
		text, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system", name))
		must(t, err)
		for _, command := range regexp.MustCompile(`(?m)^Exec\w+=(\S+)`).FindAllStringSubmatch(string(text), -1) {
			if program := command[1]; program != "/usr/bin/robotsproxy" && program != "/bin/kill" {
				t.Errorf("%s runs %s", name, program)
			}
		}
		pages := regexp.MustCompile(`man:(\S+)\((\d)\)`).FindAllStringSubmatch(string(text), -1)
		if len(pages) == 0 {
			t.Errorf("%s names no manual page", name)
		}
		for _, page := range pages {
			only(t, root, path.Join("usr/share/man", "man"+page[2], page[1]+"."+page[2]+".gz"))
		}
	}
}

func TestCompletionLoads(t *testing.T) {
	script := filepath.Join(unpacked(t, only(t, tagged, "*.deb")), "usr/share/bash-completion/completions/robotsproxy")
	if out := says(t, "bash", "-euc", `source "$1"; complete -p robotsproxy`, "bash", script); !strings.Contains(out, "-F __start_robotsproxy robotsproxy") {
		t.Errorf("bash completes by %s", out)
	}
}

// The packages are installed, upgraded and removed in a copy of this machine's file system, in
// which systemctl only writes down what it is told. Neither starts anything. What the user has
// changed or made stays.
func TestInstallUpgradeRemove(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can install packages")
	}
	const inCopy = `
		mount -t tmpfs tmpfs "$WORK"
		mkdir "$WORK/changes" "$WORK/work" "$WORK/root"
		mount -t overlay overlay -o lowerdir=/,upperdir="$WORK/changes",workdir="$WORK/work" "$WORK/root"
		cp -R "$TAGGED" "$WORK/root/tagged"
		cp -R "$LATER" "$WORK/root/later"
		mkdir -p "$WORK/root/run/systemd/system"
		rm -f "$WORK/root/var/lib/dpkg/info/man-db.triggers" "$WORK/root/usr/bin/systemctl"
		printf '#!/bin/sh\necho "$*" >>/told\n' >"$WORK/root/usr/bin/systemctl"
		chmod 755 "$WORK/root/usr/bin/systemctl"
		exec chroot "$WORK/root" bash -euxc "$SCRIPT"`
	const debs = `
		dpkg --install /tagged/*.deb
		test "$(cat /told)" = "daemon-reload
try-restart robotsproxy.service"
		grep ^robotsproxy: /etc/passwd
		robotsproxy validate /etc/robotsproxy/config.yaml
		systemd-analyze verify --man=no robotsproxy.service robotsproxy.socket robotsproxy-redirect.service
		echo "# mine" >>/etc/robotsproxy/config.yaml
		dpkg --install /later/*.deb
		robotsproxy --version | grep -F " v1.2.4-0."
		grep -x "# mine" /etc/robotsproxy/config.yaml
		if grep -w -e stop -e disable /told; then exit 1; fi
		mkdir /var/lib/robotsproxy
		dpkg --remove robotsproxy
		test ! -e /usr/bin/robotsproxy
		grep -x "disable --now robotsproxy-redirect.service robotsproxy.socket robotsproxy.service" /told
		grep -x "# mine" /etc/robotsproxy/config.yaml
		dpkg --purge robotsproxy
		test ! -e /etc/robotsproxy/config.yaml
		test -d /var/lib/robotsproxy`
	const rpms = `
		rpm() { command rpm --force-debian "$@"; } # Debian's rpm refuses to install anything otherwise
		rpm --upgrade --nodeps /tagged/*.rpm
		grep ^robotsproxy: /etc/passwd
		test "$(cat /told)" = "daemon-reload
try-restart robotsproxy.service"
		echo "# mine" >>/etc/robotsproxy/config.yaml
		rpm --upgrade --nodeps /later/*.rpm
		robotsproxy --version | grep -F " v1.2.4-0."
		grep -x "# mine" /etc/robotsproxy/config.yaml
		if grep -w -e stop -e disable /told; then exit 1; fi
		rpm --erase robotsproxy
		test ! -e /usr/bin/robotsproxy
		grep -x "disable --now robotsproxy-redirect.service robotsproxy.socket robotsproxy.service" /told
		grep -x "# mine" /etc/robotsproxy/config.yaml.rpmsave`
	for name, script := range map[string]string{"dpkg": debs, "rpm": rpms} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("this machine has no %s", name)
			}
			command := exec.Command("unshare", "--mount", "bash", "-euc", inCopy)
			command.Env = append(os.Environ(), "WORK="+t.TempDir(), "TAGGED="+tagged, "LATER="+later, "SCRIPT="+script)
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
