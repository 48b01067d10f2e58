package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// open starts everything.
func (s *soak) open(ctx context.Context) (err error) {
	s.checker = newChecker()
	if s.network, err = openNetwork(); err != nil {
		return fmt.Errorf("making a network: %w", err)
	}
	if s.folder, err = os.MkdirTemp("", "soak-"); err != nil {
		return err
	}
	if err := os.Chmod(s.folder, 0o755); err != nil { // other users enter it
		return err
	}
	own := filepath.Join(s.folder, "robotsproxy")
	if err := copyFile(s.program, own); err != nil {
		return err
	}
	s.program = own
	ca, err := newAuthority()
	if err != nil {
		return fmt.Errorf("making a CA: %w", err)
	}
	if err := ca.write(s.originsCA()); err != nil {
		return err
	}
	if err := s.openOrigins(ca); err != nil {
		return err
	}
	if err := s.openRedis(); err != nil {
		return err
	}
	if err := s.openProxies(ca); err != nil {
		return err
	}
	if err := s.trust(ca); err != nil {
		return err
	}
	s.openRedirect()
	return s.openSealed(ctx)
}

func (s *soak) originsCA() string { return filepath.Join(s.folder, "origins.pem") }

func (s *soak) openOrigins(ca *authority) error {
	wrong, err := ca.issue("203.0.113.1")
	if err != nil {
		return err
	}
	for i := range s.sites {
		host, _, err := net.SplitHostPort(s.network.address(i, true))
		if err != nil {
			return err
		}
		good, err := ca.issue(host)
		if err != nil {
			return err
		}
		o, err := newOrigin(s.seed, i, s.network, s.checker, good, wrong)
		if err != nil {
			return err
		}
		s.origins = append(s.origins, o)
	}
	return nil
}

func (s *soak) openRedis() error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		s.missing.redis = "there is no redis-server; install Debian's package redis-server"
		return nil
	}
	s.redis = &redis{folder: filepath.Join(s.folder, "redis")}
	if err := os.Mkdir(s.redis.folder, 0o755); err != nil {
		return err
	}
	return s.redis.start()
}

func (s *soak) openProxies(ca *authority) error {
	if err := s.openProxy(ca, "the proxy with SQLite", "{store: sqlite}", nil); err != nil {
		return err
	}
	if s.redis == nil {
		return nil
	}
	return s.openProxy(ca, "the proxy with Redis", fmt.Sprintf("{store: redis, redis_url: 'unix://%s'}", s.redis.socket()), s.redis)
}

// openProxy starts a proxy that keeps its policies in a cache, and uses redis unless that is nil. The first one has the disk that
// is filled, and the transparent door.
func (s *soak) openProxy(ca *authority, name, cache string, redis *redis) error {
	isFirst := len(s.proxies) == 0
	p := &proxy{
		name: name, program: s.program, folder: filepath.Join(s.folder, fmt.Sprintf("proxy%d", len(s.proxies))),
		checker: s.checker, doors: map[doorKind]string{}, log: newJournal(name, s.checker), grace: endedGrace, redis: redis,
	}
	if err := os.MkdirAll(p.data(), 0o755); err != nil {
		return err
	}
	if isFirst {
		s.missing.mount = s.mountDisk(p)
	}
	doors, err := s.openDoors(p, ca, isFirst)
	if err != nil {
		return err
	}
	p.config = doors + "cache: " + cache + "\n" + s.commonConfig()
	if err := p.configure(""); err != nil {
		return err
	}
	if s.network.own {
		p.user = proxyUser
		if err := giveTo(p.user, p.folder); err != nil {
			return err
		}
	}
	s.proxies = append(s.proxies, p)
	return p.start()
}

// openDoors chooses the addresses of a proxy's doors, and returns their part of its
// configuration.
func (s *soak) openDoors(p *proxy, ca *authority, isTransparent bool) (config string, err error) {
	own, err := ca.issue("127.0.0.1")
	if err != nil {
		return "", err
	}
	cert, key := filepath.Join(p.folder, "own.pem"), filepath.Join(p.folder, "own.key")
	if err := writeKeyed(own, cert, key); err != nil {
		return "", err
	}
	doors := []doorKind{plainDoor, socksDoor, tlsDoor}
	if isTransparent && s.network.own {
		doors = append(doors, transparentDoor)
	}
	for _, door := range doors {
		if p.doors[door], err = freeAddress(); err != nil {
			return "", err
		}
	}
	p.doors[connectDoor] = p.doors[plainDoor]
	if p.admin, err = freeAddress(); err != nil {
		return "", err
	}
	return fmt.Sprintf(`name: %s
listen: %s
listen_socks: %s
listen_tls: {address: %s, cert: %q, key: %q}
transparent: %q
admin_listen: %s
clients: {allow: [127.0.0.0/8, 192.0.2.0/24]}
reuse_port: true
limits: {idle_timeout: 15s, stall_timeout: 30s}
`, filepath.Base(p.folder), p.doors[plainDoor], p.doors[socksDoor], p.doors[tlsDoor], cert, key, p.doors[transparentDoor], p.admin), nil
}

// commonConfig is the part of the configuration that proxies and sealed commands have in
// common.
func (s *soak) commonConfig() string {
	return fmt.Sprintf(`robots: {ttl: %v, min_ttl: 1s, max_ttl: %v, fetch_timeout: %v, retry_min: 1s, retry_max: 3s}
upstream: {ca_file: %q, response_header_timeout: 15s}
log: {decisions: none, format: json}
`, lifetime, lifetime, fetchTimeout, s.originsCA())
}

// diskSize is that of the disk for the data of the first proxy, in octets.
const diskSize = 64 << 20

// giveTo gives a folder and all in it to a user.
func giveTo(user uint32, folder string) error {
	return filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(user), int(user))
	})
}

// mountDisk gives a proxy a small disk for its data, or returns why that can't be.
func (s *soak) mountDisk(p *proxy) (missing string) {
	if !s.network.own {
		return "only root may mount disks, in a network of its own"
	}
	if err := unix.Mount("none", p.data(), "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", diskSize)); err != nil {
		return fmt.Sprintf("mounting a small disk: %v", err)
	}
	return ""
}

// trust reads whom clients trust: the CAs of the proxies, and the one of their own TLS.
func (s *soak) trust(ca *authority) error {
	s.roots = x509.NewCertPool()
	s.roots.AddCert(ca.cert)
	for _, p := range s.proxies {
		status, text, err := p.ask(http.MethodGet, "/ca.pem")
		if err != nil || status != http.StatusOK || !s.roots.AppendCertsFromPEM([]byte(text)) {
			return fmt.Errorf("getting the CA of %s: status %d, %v", p.name, status, err)
		}
	}
	return nil
}

// openRedirect leads connections to the transparent door of the first proxy.
func (s *soak) openRedirect() {
	first := s.proxies[0]
	address, can := first.doors[transparentDoor]
	if !can {
		s.missing.redirect = "only root may redirect connections, in a network of its own"
		return
	}
	_, port, _ := net.SplitHostPort(address)
	install := exec.Command(s.program, "redirect", "install", "--to", port, "--except-uid", fmt.Sprint(proxyUser), "--except-uid", fmt.Sprint(sealedUser))
	install.Env = []string{"HOME=" + s.folder}
	if output, err := install.CombinedOutput(); err != nil {
		s.missing.redirect = strings.TrimSpace(string(output))
		delete(first.doors, transparentDoor)
	}
}

// openSealed tries whether commands can be sealed.
func (s *soak) openSealed(ctx context.Context) error {
	if !s.network.own {
		s.missing.sealed = "the origins are on loopback addresses, which are a sealed command's own"
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.errands = filepath.Join(s.folder, "errands")
	if err := copyFile(self, s.errands); err != nil {
		return err
	}
	data := filepath.Join(s.folder, "sealed")
	if err := errors.Join(os.MkdirAll(data, 0o755), giveTo(sealedUser, data), os.WriteFile(data+".yaml", []byte(s.commonConfig()), 0o644)); err != nil {
		return err
	}
	try := exec.CommandContext(ctx, s.program, "run", "--sealed", "--data-dir", data, "--", "true")
	try.Env, try.Dir = []string{"HOME=" + data, "PATH=" + os.Getenv("PATH")}, "/"
	try.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: sealedUser, Gid: sealedUser}}
	if output, err := try.CombinedOutput(); err != nil {
		s.missing.sealed = fmt.Sprintf("%v: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// copyFile copies a file to one that every user can read and start.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}

// close ends what is left, and removes all files.
func (s *soak) close() {
	for _, p := range s.proxies {
		if p.cmd != nil {
			p.cmd.Process.Kill()
			<-p.exited
		}
	}
	if s.redis != nil {
		s.redis.kill()
	}
	for _, o := range s.origins {
		o.close()
	}
	if s.network.own && len(s.proxies) > 0 {
		unix.Unmount(s.proxies[0].data(), 0)
	}
	os.RemoveAll(s.folder)
}
