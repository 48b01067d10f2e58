package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// kind is a proxy that can be measured.
type kind struct {
	name    string
	program string   // the program that must be installed; "" if none
	pkg     string   // its package in Debian
	noTLS   string   // why it does not read inside TLS; "" if it does
	noHTTP2 string   // why it does not speak HTTP/2 with clients; "" if it does
	slow    bool     // one round must do
	cases   []string // the only cases that are measured with it; nil: all

	// command starts the proxy, which listens on address and keeps all of its files in folder.
	command commandFunc
}

const (
	ours    = "robotsproxy"
	logging = "robotsproxy, logging"
	signing = "robotsproxy, signing"
	floor   = "ReverseProxy"

	// goproxyHTTP1 asks origins over HTTP/1.1 as robotsproxy does for clients of HTTP/1.1.
	goproxyHTTP1 = "goproxy, HTTP/1.1 to origins"
)

// kinds returns all proxies: robotsproxy as built at program, further builds of it by name, and
// the others.
func kinds(program string, builds map[string]string) []kind {
	all := []kind{
		{name: ours, command: robotsproxyCommand(program, "none")},
		{name: logging, cases: []string{plainKept}, command: robotsproxyCommand(program, "all")},
		{name: signing, cases: []string{secureKept, secureH2}, command: signingCommand(program)},
	}
	for _, procs := range processors() {
		all = append(all, kind{name: onProcessors(procs), cases: growthCases, command: withProcessors(procs, robotsproxyCommand(program, "none"))})
	}
	for _, name := range slices.Sorted(maps.Keys(builds)) {
		all = append(all, kind{name: name, command: robotsproxyCommand(builds[name], "none")})
	}
	return append(all, []kind{
		{name: "goproxy", command: func(s *site, _, address string) (*exec.Cmd, error) {
			return ownRole("goproxy", address, s.caFile(), s.keyFile())
		}},
		{name: goproxyHTTP1, cases: []string{secureKept, secureCrowd, secureMany}, command: func(s *site, _, address string) (*exec.Cmd, error) {
			return ownRole("goproxy", address, s.caFile(), s.keyFile(), "http/1.1")
		}},
		{name: floor, noTLS: "it is no forward proxy", command: func(_ *site, _, address string) (*exec.Cmd, error) {
			return ownRole("reverseproxy", address)
		}},
		{name: "squid", program: "squid", pkg: "squid-openssl", noHTTP2: "it has no HTTP/2", command: squidCommand},
		{name: "tinyproxy", program: "tinyproxy", pkg: "tinyproxy", noTLS: "it does not read inside TLS", command: tinyproxyCommand},
		{name: "mitmproxy", program: "mitmdump", pkg: "mitmproxy", slow: true, command: mitmproxyCommand},
	}...)
}

// processors are the values of GOMAXPROCS by which robotsproxy's throughput is measured: those
// for which there are processors.
func processors() []int {
	return slices.DeleteFunc([]int{1, 2, 4, 8}, func(procs int) bool { return procs > runtime.NumCPU() })
}

// onProcessors is the name of robotsproxy with a value of GOMAXPROCS.
func onProcessors(procs int) string { return fmt.Sprintf("%s, GOMAXPROCS=%d", ours, procs) }

type commandFunc = func(s *site, folder, address string) (*exec.Cmd, error)

// withProcessors sets GOMAXPROCS for a command.
func withProcessors(procs int, command commandFunc) commandFunc {
	return func(s *site, folder, address string) (*exec.Cmd, error) {
		cmd, err := command(s, folder, address)
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Environ(), fmt.Sprintf("GOMAXPROCS=%d", procs))
		return cmd, nil
	}
}

// running is a proxy that has been started.
type running struct {
	kind
	*process
	address string
	asked   atomic.Int64 // origins that it has been asked for
}

// start starts a proxy and waits until it listens. The caller stops it.
func (k kind) start(s *site) (*running, error) {
	if k.program != "" {
		if _, err := exec.LookPath(k.program); err != nil {
			return nil, fmt.Errorf("%s is not installed; install Debian's package %s", k.program, k.pkg)
		}
	}
	folder, err := os.MkdirTemp(s.folder, "proxy-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.Close() // the proxy listens there
	r := &running{kind: k, address: l.Addr().String()}
	cmd, err := k.command(s, folder, r.address)
	if err != nil {
		return nil, err
	}
	if r.process, err = startProcess(cmd, filepath.Join(folder, "output")); err != nil {
		return nil, err
	}
	if err := r.waitUntilListening(); err != nil {
		r.stop()
		return nil, fmt.Errorf("%w: %s", err, r.output())
	}
	return r, nil
}

// waitUntilListening waits until the proxy accepts connections.
func (r *running) waitUntilListening() error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-r.exited:
			return errors.New("the proxy has ended")
		default:
		}
		if conn, err := net.Dial("tcp", r.address); err == nil {
			return conn.Close()
		}
	}
	return errors.New("the proxy does not listen")
}

// signingCommand starts robotsproxy with a key that signs each request over https.
func signingCommand(program string) commandFunc {
	return func(s *site, folder, address string) (*exec.Cmd, error) {
		key := filepath.Join(folder, "key.pem")
		if out, err := exec.Command(program, "keys", "new", key).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("making a key: %w: %s", err, out)
		}
		return robotsproxyCommand(program, "none", fmt.Sprintf("default_identity: {sign: {agent: https://bot.example.org, keys: [%q]}}", key))(s, folder, address)
	}
}

func robotsproxyCommand(program, decisions string, settings ...string) commandFunc {
	return func(s *site, folder, address string) (*exec.Cmd, error) {
		file, err := writeConfig(s, folder, address, decisions, settings...)
		return exec.Command(program, "serve", "--config", file), err
	}
}

// writeConfig writes robotsproxy's configuration into folder, and returns the file.
func writeConfig(s *site, folder, address, decisions string, settings ...string) (file string, err error) {
	config := fmt.Sprintf(`listen: %q
admin_listen: ""
data_dir: %q
log:
  decisions: %s
  file: decisions.log
upstream:
  ca_file: %q
%s
`, address, filepath.Join(folder, "data"), decisions, s.caFile(), strings.Join(settings, "\n"))
	file = filepath.Join(folder, "robotsproxy.yaml")
	return file, os.WriteFile(file, []byte(config), 0o644)
}

// holder returns robotsproxy as built at program, set up to hold idle connections: it closes
// none while they are measured, and reads no tunnel to 127.0.0.1.
func holder(program string) kind {
	return kind{name: ours, command: robotsproxyCommand(program, "none",
		"limits: {header_timeout: 10m, idle_timeout: 10m}", "https: {passthrough: [127.0.0.1], mixed_tunnel: allow}")}
}

// squidCommand makes squid work like the others: one worker, no cache, no access log, and
// certificates for the host of the CONNECT, not copied from the origin's.
func squidCommand(s *site, folder, address string) (*exec.Cmd, error) {
	const generator = "/usr/lib/squid/security_file_certgen"
	database := filepath.Join(folder, "certificates")
	if out, err := exec.Command(generator, "-c", "-s", database, "-M", "16MB").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("creating the database of certificates: %w: %s", err, out)
	}
	if err := giveTo("proxy", folder); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`http_port %s ssl-bump cert=%s key=%s generate-host-certificates=on dynamic_cert_mem_cache_size=16MB
sslcrtd_program %s -s %s -M 16MB
sslcrtd_children 2 startup=1 idle=1
ssl_bump bump all
tls_outgoing_options cafile=%s
acl here src 127.0.0.0/8
http_access allow here
http_access deny all
cache deny all
cache_mem 8 MB
access_log none
cache_log %s
cache_store_log none
pid_filename none
pinger_enable off
max_filedescriptors 65536
workers 1
visible_hostname bench
shutdown_lifetime 1 seconds
coredump_dir none
`, address, s.caFile(), s.keyFile(), generator, database, s.caFile(), filepath.Join(folder, "cache.log"))
	file := filepath.Join(folder, "squid.conf")
	return exec.Command("squid", "-N", "-f", file), os.WriteFile(file, []byte(config), 0o644)
}

// giveTo changes the owner of a folder and its contents to a user, if this process is root:
// squid then runs as that user.
func giveTo(name, folder string) error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(u.Uid) // numbers on Linux
	gid, _ := strconv.Atoi(u.Gid)
	return filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, uid, gid))
	})
}

func tinyproxyCommand(_ *site, folder, address string) (*exec.Cmd, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`Port %s
Listen 127.0.0.1
Timeout 600
MaxClients 1000
Allow 127.0.0.0/8
LogLevel Critical
`, port)
	file := filepath.Join(folder, "tinyproxy.conf")
	return exec.Command("tinyproxy", "-d", "-c", file), os.WriteFile(file, []byte(config), 0o644)
}

func mitmproxyCommand(s *site, folder, address string) (*exec.Cmd, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("mitmdump", "--quiet", "--listen-host", host, "--listen-port", port)
	for _, option := range []string{
		"confdir=" + filepath.Join(folder, "mitmproxy"),
		"flow_detail=0",
		"connection_strategy=lazy",
		"stream_large_bodies=1m",
		"ssl_verify_upstream_trusted_ca=" + s.caFile(),
	} {
		cmd.Args = append(cmd.Args, "--set", option)
	}
	return cmd, nil
}
