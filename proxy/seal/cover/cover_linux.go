package cover

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// bundleFiles are where systems keep the roots that programs trust.
var bundleFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Gentoo, Alpine, NixOS
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
	"/etc/pki/tls/certs/ca-bundle.crt",                  // older Fedora and RHEL
	"/etc/pki/tls/cert.pem",                             // their OpenSSL's default
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/var/lib/ca-certificates/ca-bundle.pem",            // openSUSE
	"/etc/ssl/certs/ca-bundle.crt",                      // NixOS
	"/etc/ssl/cert.pem",                                 // Alpine
	"/usr/lib/ssl/cert.pem",                             // Debian's OpenSSL's default
}

// javaStores are where the roots are that Java trusts: of the system, and of the JDK that
// JAVA_HOME names.
func javaStores(getenv func(string) string) []string {
	paths := []string{"/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts"}
	if home := getenv("JAVA_HOME"); filepath.IsAbs(home) {
		paths = append(paths, filepath.Join(home, "lib/security/cacerts"), filepath.Join(home, "jre/lib/security/cacerts"))
	}
	return paths
}

// chromiumPolicies are the folders of managed policies of Chromium and what is built
// from it. Files there are merged, so that one may be added.
var chromiumPolicies = []string{
	"/etc/chromium/policies/managed",
	"/etc/opt/chrome/policies/managed",
	"/etc/opt/chrome_for_testing/policies/managed",
}

// firefoxPolicies is the one file of Firefox's policies.
const firefoxPolicies = "/etc/firefox/policies/policies.json"

// policyName is our file's in the folders of managed policies.
const policyName = "robotsproxy.json"

// Files covers files in this process's mount namespace, which must not be shared with
// processes that must see the real ones. It needs CAP_SYS_ADMIN there. Warnings are
// sentences about a trust that some program won't have. After an error, a socket may
// still lead out.
func Files(t Trust) (warnings []string, err error) {
	// Mounts made outside later still show up inside, none of ours outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return nil, err
	}
	for _, path := range outwardSockets(os.Getuid(), os.Getenv) {
		if err := coverSocket(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	warn := func(what string, err error) {
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s: %v", what, err))
		}
	}
	if t.CA != "" {
		// First, since a mount over /etc hides those below it.
		warn("having browsers trust the CA by their policies", addPolicies(t.CA))
	}
	for _, file := range bundleFiles {
		warn("having programs trust the CA by "+file, coverFile(file, t.Bundle))
	}
	for _, file := range javaStores(os.Getenv) {
		warn("having Java trust the CA by "+file, coverFile(file, t.Store))
	}
	return warnings, nil
}

// coverFile lays file over path if both are there.
func coverFile(path, file string) error {
	if info, err := os.Stat(path); file == "" || err != nil || !info.Mode().IsRegular() {
		return nil // the command has no such file to read either
	}
	return unix.Mount(file, path, "", unix.MS_BIND, "")
}

// outwardSockets are the paths of the Unix sockets on which somebody outside does what a
// client asks: starts programs, makes connections or looks names up.
func outwardSockets(uid int, getenv func(string) string) []string {
	paths := []string{
		"/run/docker.sock", "/var/run/docker.sock",
		"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock",
		"/run/podman/podman.sock", "/run/buildkit/buildkitd.sock", "/run/libvirt/libvirt-sock", "/run/snapd.socket",
		"/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket",
		"/run/systemd/private", "/run/systemd/io.systemd.Manager",
		"/run/systemd/resolve/io.systemd.Resolve", "/run/avahi-daemon/socket",
		"/run/nscd/socket", "/var/run/nscd/socket",
		"/var/lib/incus/unix.socket", "/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket", "/run/libvirt/virtqemud-sock",
		"/nix/var/nix/daemon-socket/socket", "/var/guix/daemon-socket/socket", "/run/tailscale/tailscaled.sock",
	}
	for _, folder := range []string{fmt.Sprintf("/run/user/%d", uid), getenv("XDG_RUNTIME_DIR")} {
		if !filepath.IsAbs(folder) {
			continue
		}
		for _, name := range []string{"bus", "docker.sock", "podman/podman.sock", "containerd/containerd.sock", "buildkit/buildkitd.sock",
			"systemd/private", "systemd/io.systemd.Manager", "gnupg/S.dirmngr"} {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		paths = append(paths, filepath.Join(home, ".docker/desktop/docker.sock"), filepath.Join(home, ".docker/run/docker.sock"))
	}
	// A tmux that runs already starts what others ask it for.
	tmux, _, _ := strings.Cut(getenv("TMUX"), ",") // PATH,PID,SESSION
	paths = append(paths, tmux, filepath.Join(cmp.Or(getenv("TMUX_TMPDIR"), "/tmp"), fmt.Sprintf("tmux-%d", uid), "default"))
	for _, variable := range []string{"DOCKER_HOST", "CONTAINER_HOST", "CONTAINERD_ADDRESS", "BUILDKIT_HOST", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"} {
		paths = append(paths, socketPaths(getenv(variable))...)
	}
	return paths
}

// socketPaths are the absolute paths in an address: unix:///PATH, /PATH, or
// unix:path=/PATH,guid=… of D-Bus, of which there may be several.
func socketPaths(address string) (paths []string) {
	for part := range strings.SplitSeq(address, ";") {
		path := strings.TrimPrefix(part, "unix://")
		if rest, isDBus := strings.CutPrefix(part, "unix:path="); isDBus {
			path, _, _ = strings.Cut(rest, ",")
		}
		if filepath.IsAbs(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// coverSocket puts something over a socket that refuses connections. A socket that this
// process can't see can't be reached by the command either.
func coverSocket(path string) error {
	if info, err := os.Stat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		return nil
	}
	return unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
}

// addPolicies has browsers install the CA, and ask for the URLs that they are given.
func addPolicies(ca string) error {
	text, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fmt.Errorf("%s holds no certificate", ca)
	}
	chromium, err := json.Marshal(map[string]any{
		"CACertificates": []string{base64.StdEncoding.EncodeToString(block.Bytes)},
		// For http:// Chromium tries https:// first, where it would take the proxy's refusal for
		// the site's answer: it could ask no site that has http:// alone.
		"HttpsUpgradesEnabled": false,
	})
	if err != nil {
		return err
	}
	var errs []error
	added := overlays{}
	for _, folder := range chromiumPolicies {
		errs = append(errs, added.addFile(filepath.Join(folder, policyName), chromium))
	}
	firefox, err := addToFirefox(firefoxPolicies, ca)
	if err == nil {
		err = added.addFile(firefoxPolicies, firefox)
	}
	return errors.Join(append(errs, err)...)
}

// addToFirefox gives the policies in a file, if there are some, with a certificate to install.
func addToFirefox(path, ca string) ([]byte, error) {
	var file struct {
		Policies map[string]any `json:"policies"`
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if file.Policies == nil {
		file.Policies = map[string]any{}
	}
	certificates, _ := file.Policies["Certificates"].(map[string]any)
	if certificates == nil {
		certificates = map[string]any{}
	}
	install, _ := certificates["Install"].([]any)
	certificates["Install"] = append(install, ca)
	file.Policies["Certificates"] = certificates
	return json.Marshal(file)
}

// overlays are the file systems, by device number, that lie over folders in which files
// were added.
type overlays map[uint64]bool

// addFile has the command see a file that need not be there, nor its folder.
func (o overlays) addFile(path string, content []byte) error {
	folder := filepath.Dir(path)
	if err := o.coverFolder(existing(folder)); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		// Writing would change the host's file, which coverFolder has bound here.
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			return err
		}
	}
	return os.WriteFile(path, content, 0o644)
}

// existing is a folder, or the nearest one above that there is.
func existing(folder string) string {
	for {
		if info, err := os.Stat(folder); err == nil && info.IsDir() || folder == "/" {
			return folder
		}
		folder = filepath.Dir(folder)
	}
}

// coverFolder lays over a folder a tmpfs with the same entries, to which others can be
// added. What the host adds to the folder later doesn't show up.
func (o overlays) coverFolder(folder string) error {
	covered, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(covered)
	var stat unix.Stat_t
	if err := unix.Fstat(covered, &stat); err != nil || o[stat.Dev] {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	options := fmt.Sprintf("mode=%#o,size=1m", stat.Mode&0o777)
	if err := unix.Mount("robotsproxy", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return err
	}
	for _, entry := range entries {
		from := fmt.Sprintf("/proc/self/fd/%d/%s", covered, entry.Name())
		if err := bindBack(from, filepath.Join(folder, entry.Name()), entry.Type()); err != nil {
			unix.Unmount(folder, unix.MNT_DETACH)
			return err
		}
	}
	if err := unix.Stat(folder, &stat); err != nil {
		return err
	}
	o[stat.Dev] = true
	return nil
}

// bindBack makes an entry of a covered folder visible again.
func bindBack(covered, path string, kind fs.FileMode) error {
	switch kind {
	case fs.ModeSymlink:
		target, err := os.Readlink(covered)
		if err != nil {
			return err
		}
		return os.Symlink(target, path)
	case fs.ModeDir:
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	default:
		if err := unix.Mknod(path, unix.S_IFREG|0o644, 0); err != nil {
			return err
		}
	}
	err := unix.Mount(covered, path, "", unix.MS_BIND|unix.MS_REC, "")
	if err == unix.ENOENT && kind.IsRegular() {
		// A file that is mounted here, and was removed where it came from, can't be mounted once
		// more. Containers have such files, as /etc/hosts.
		return copyFile(covered, path)
	}
	return err
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
