package redisclient

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"robotsproxy/internal/keyerr"
)

// Options say where Redis is, and how the two sides prove who they are. In a configuration
// they are part of the section "cache".
type Options struct {
	// URL is redis://USER:PASSWORD@HOST:PORT/DATABASE or unix://USER:PASSWORD@PATH?db=DATABASE.
	// redis+sentinel:// names Sentinels, and their master by ?master_name=; redis+cluster://
	// names nodes of a Cluster. Both take several hosts, with commas between them. With
	// rediss in the place of redis all connections use TLS.
	URL string `yaml:"redis_url"`

	// CAFile names a PEM file of the roots by which the server's certificate is verified;
	// "" means the system's.
	CAFile string `yaml:"redis_ca_file,path"`

	// Cert and Key name the PEM files of the certificate that the client shows; "" means
	// none. They are read for each connection, so that they can be renewed.
	Cert string `yaml:"redis_cert,path"`
	Key  string `yaml:"redis_key,path"`
}

// Validate joins what is wrong with o, each fault a [keyerr.Error]. No message has a part of
// the URL, which may be one of the password.
func (o Options) Validate() error {
	a, err := parseURL(o.URL)
	if err != nil {
		return keyerr.Wrap("redis_url", err)
	}
	_, err = o.tls(a)
	return err
}

// An address is what a URL says.
type address struct {
	kind           kind
	tls            bool
	hosts          []string // host:port each, or the path of a Unix socket
	user, password string
	database       int

	// Of Sentinels.
	master                         string
	sentinelUser, sentinelPassword string
}

// A kind of deployment.
type kind int

const (
	single kind = iota
	sentinels
	cluster
)

// schemes are the kinds by the scheme of a URL, without the s of TLS.
var schemes = map[string]struct {
	kind kind
	port string // where a host has none
}{
	"redis":          {single, "6379"},
	"redis+sentinel": {sentinels, "26379"},
	"redis+cluster":  {cluster, "6379"},
}

var errURL = errors.New("this is no address of a Redis server; write redis://USER:PASSWORD@HOST:6379/0, " +
	"unix://PATH, redis+sentinel://HOST:26379,HOST:26379/0?master_name=NAME or redis+cluster://HOST:6379,HOST:6379, " +
	"with rediss for TLS, and percent-encode what is special in the password")

func parseURL(text string) (a address, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme == "unix" {
		return parseSocket(text)
	}
	plain := scheme
	if cut, found := strings.CutPrefix(scheme, "rediss"); found {
		plain, a.tls = "redis"+cut, true
	}
	known, ok := schemes[plain]
	if !ok {
		return a, errURL
	}
	a.kind = known.kind
	end := strings.IndexAny(rest+"/", "/?#")
	login, hosts := "", rest[:end]
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		login, hosts = hosts[:at+1], hosts[at+1:]
	}
	if a.hosts, err = parseHosts(hosts, known.port); err != nil || len(a.hosts) > 1 && a.kind == single {
		return a, errURL
	}
	u, err := url.Parse("redis://" + login + "host" + rest[end:])
	if err != nil || u.Fragment != "" {
		return a, errURL
	}
	return a, a.read(u, strings.TrimPrefix(u.Path, "/"))
}

// parseSocket parses the URL of a Unix socket.
func parseSocket(text string) (a address, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Host != "" || u.Path == "" || u.Fragment != "" {
		return a, errURL
	}
	a.hosts = []string{u.Path}
	return a, a.read(u, "")
}

// parseHosts returns hosts with their ports.
func parseHosts(list, port string) (hosts []string, err error) {
	for text := range strings.SplitSeq(list, ",") {
		u, err := url.Parse("redis://" + text)
		if err != nil || u.Hostname() == "" || u.User != nil {
			return nil, errURL
		}
		hosts = append(hosts, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
	}
	return hosts, nil
}

// read reads the login, the database and the query of a URL.
func (a *address) read(u *url.URL, database string) error {
	a.user = u.User.Username()
	a.password, _ = u.User.Password()
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errURL
	}
	for name, values := range query {
		switch value := values[len(values)-1]; {
		case name == "db" && database == "":
			database = value
		case name == "master_name" && a.kind == sentinels:
			a.master = value
		case name == "sentinel_username" && a.kind == sentinels:
			a.sentinelUser = value
		case name == "sentinel_password" && a.kind == sentinels:
			a.sentinelPassword = value
		default:
			return errURL
		}
	}
	if database != "" {
		number, err := strconv.ParseUint(database, 10, 31)
		if err != nil {
			return errURL
		}
		a.database = int(number)
	}
	switch {
	case a.kind == sentinels && a.master == "":
		return errors.New("it does not say which master the Sentinels watch; add ?master_name=NAME, with the name in their configuration")
	case a.kind == cluster && a.database != 0:
		return errors.New("a Cluster has no database but 0; leave the number out")
	}
	return nil
}

// String names the server for people, without logins.
func (a address) String() string {
	name := strings.Join(a.hosts, ",")
	if a.kind == sentinels {
		name += " (" + a.master + ")"
	}
	return name
}

// tls returns the configuration of TLS to an address; nil for none. The error is a
// [keyerr.Error].
func (o Options) tls(a address) (*tls.Config, error) {
	for _, file := range []struct{ key, name string }{{"redis_ca_file", o.CAFile}, {"redis_cert", o.Cert}, {"redis_key", o.Key}} {
		if file.name != "" && !a.tls {
			return nil, keyerr.New(file.key, "it is not used, because redis_url is without TLS; begin redis_url with rediss, or remove this")
		}
	}
	if !a.tls {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, keyerr.New("redis_ca_file", "reading the roots: %w; name a PEM file of certificates", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, keyerr.New("redis_ca_file", "%s holds no certificate; name a PEM file of certificates", o.CAFile)
		}
	}
	switch {
	case o.Cert == "" && o.Key == "":
		return config, nil
	case o.Cert == "":
		return nil, keyerr.New("redis_cert", "there is no certificate for redis_key; name its PEM file")
	case o.Key == "":
		return nil, keyerr.New("redis_key", "there is no key for redis_cert; name its PEM file")
	}
	if _, err := o.pair(nil); err != nil {
		return nil, keyerr.Wrap("redis_cert", err)
	}
	config.GetClientCertificate = o.pair
	return config, nil
}

// pair reads the client's certificate.
func (o Options) pair(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate for Redis and its key: %w", err)
	}
	return &pair, nil
}
