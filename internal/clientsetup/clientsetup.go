// Package clientsetup knows how HTTP clients are pointed at a proxy and made to trust its
// CA: which environment variables they read, and what each client needs besides. The
// commands run and env set the variables; run's help and the page at the proxy's own
// address show the rest. docs/clients.md has the same table for people, with more advice.
package clientsetup

import (
	"net"
	"strings"
)

// The environment variables that clients read. Python's requests, for one, has roots of
// its own and reads only its own variable.
var (
	// ProxyVariables name the proxy. Clients differ in whether they read lower or upper
	// case, so both must be set.
	ProxyVariables = []string{
		"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "ws_proxy", "wss_proxy",
		"npm_config_proxy", "npm_config_https_proxy",
	}
	// GlobalAgentVariables name the proxy to global-agent, for older Node.
	GlobalAgentVariables = []string{"GLOBAL_AGENT_HTTP_PROXY", "GLOBAL_AGENT_HTTPS_PROXY"}
	// ReplacingRoots name a PEM file of roots that a client trusts instead of its own.
	ReplacingRoots = []string{
		"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO",
		"CARGO_HTTP_CAINFO", "PERL_LWP_SSL_CA_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
		"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "npm_config_cafile", "NIX_SSL_CERT_FILE",
	}
	// AddingRoots name a PEM file of roots that a client trusts besides its own.
	AddingRoots = []string{"NODE_EXTRA_CA_CERTS", "DENO_CERT"}
)

// JavaOptions are the options by which a JVM's own HTTP clients use the proxy at address
// (host:port) and trust the CA in a PKCS#12 store. Of two properties with one name, the
// JVM takes the last.
func JavaOptions(address, store, password string) []string {
	host, port, _ := net.SplitHostPort(address)
	return []string{
		"-Dhttp.proxyHost=" + host, "-Dhttp.proxyPort=" + port,
		"-Dhttps.proxyHost=" + host, "-Dhttps.proxyPort=" + port,
		"-Dftp.proxyHost=" + host, "-Dftp.proxyPort=" + port,
		"-Dhttp.nonProxyHosts=", // else loopback is not judged
		"-Djavax.net.ssl.trustStore=" + store,
		"-Djavax.net.ssl.trustStoreType=PKCS12",
		"-Djavax.net.ssl.trustStorePassword=" + password,
	}
}

// A Client is an HTTP client, or several that need the same.
type Client struct {
	Name  string
	Needs string // besides the variables that run and env set; "" means nothing
	setup string // shell commands, as Setup describes them; "" if there are none to show
	// secureSetup is setup for a proxy that is reached over TLS, which many clients can't.
	secureSetup string
}

// Clients are those that are known, the most common first.
var Clients = []Client{
	{Name: "curl",
		setup:       "curl -x http://{proxy} --cacert ca.pem https://example.com/",
		secureSetup: "curl -x https://{proxy} --cacert ca.pem https://example.com/   # and --proxy-cacert FILE for a proxy with a CA of its own"},
	{Name: "wget",
		setup: "wget -e https_proxy=http://{proxy} --ca-certificate=ca.pem https://example.com/"},
	{Name: "git",
		setup:       "export GIT_SSL_CAINFO=$PWD/ca.pem",
		secureSetup: "export GIT_SSL_CAINFO=$PWD/ca.pem   # and GIT_PROXY_SSL_CAINFO=FILE for a proxy with a CA of its own"},
	{Name: "Python's requests, httpx and urllib",
		setup:       "export REQUESTS_CA_BUNDLE=$PWD/ca.pem SSL_CERT_FILE=$PWD/ca.pem",
		secureSetup: "export REQUESTS_CA_BUNDLE=$PWD/both.pem SSL_CERT_FILE=$PWD/both.pem   # httpx from 0.25 on, not urllib"},
	{Name: "Python's aiohttp", Needs: "ClientSession(trust_env=True)",
		setup:       "export SSL_CERT_FILE=$PWD/ca.pem   # and {needs}",
		secureSetup: "export SSL_CERT_FILE=$PWD/both.pem   # and session.get(url, proxy=\"https://{proxy}\"): it ignores the variables"},
	{Name: "Scrapy",
		setup: "scrapy crawl NAME   # needs the proxy variables alone"},
	{Name: "Node 24, and 22 from 22.21 on",
		setup:       "export NODE_USE_ENV_PROXY=1 NODE_EXTRA_CA_CERTS=$PWD/ca.pem",
		secureSetup: "export NODE_USE_ENV_PROXY=1 NODE_EXTRA_CA_CERTS=$PWD/both.pem"},
	{Name: "older Node", Needs: "undici's EnvHttpProxyAgent, or global-agent"},
	{Name: "Go",
		setup:       "export SSL_CERT_FILE=$PWD/ca.pem",
		secureSetup: "export SSL_CERT_FILE=$PWD/both.pem"},
	{Name: "Java",
		setup: "keytool -importcert -noprompt -alias robotsproxy -file ca.pem -keystore trust.p12 -storetype PKCS12 -storepass changeit\n" +
			`export JAVA_TOOL_OPTIONS="{java}"`},
	{Name: "Ruby",
		setup: "export SSL_CERT_FILE=$PWD/ca.pem"},
	{Name: "PHP's curl",
		setup:       "php -d curl.cainfo=$PWD/ca.pem -d openssl.cafile=$PWD/ca.pem spider.php",
		secureSetup: "php -d curl.cainfo=$PWD/ca.pem spider.php   # and CURLOPT_PROXY_CAINFO for a proxy with a CA of its own"},
	{Name: "PHP's streams", Needs: "a context with the proxy"},
	{Name: "Chromium", Needs: `--proxy-server="$ROBOTSPROXY_URL", and the CA in its own store`,
		setup:       chromiumStore + "chromium --proxy-server=http://{proxy} --proxy-bypass-list='<-loopback>'",
		secureSetup: chromiumStore + "chromium --proxy-server=https://{proxy} --proxy-bypass-list='<-loopback>'"},
	{Name: "Firefox", Needs: "the CA in its own store",
		setup: "# in its settings: Network Settings, Manual proxy configuration: {proxy}, also for HTTPS\n" +
			firefoxStore,
		secureSetup: "# in its settings: Network Settings, Automatic proxy configuration URL: https://{proxy}/proxy.pac\n" +
			firefoxStore},
}

const (
	chromiumStore = "certutil -d sql:$HOME/.pki/nssdb -N --empty-password   # if there is no store yet\n" +
		"certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n robotsproxy -i ca.pem\n"
	firefoxStore = "# and: Certificates, View Certificates, Authorities, Import: ca.pem"
)

// Setup are the shell commands that point the client at the proxy at address (host:port)
// and have it trust ca.pem in the current folder; "" if there are none to show. The
// commands may rely on the proxy variables.
//
// If secure is true, the proxy is reached over TLS. Then both.pem in the current folder must
// hold ca.pem and the root of the proxy's own certificate.
func (c Client) Setup(address string, secure bool) string {
	setup := c.setup
	if secure {
		setup = c.secureSetup
	}
	return strings.NewReplacer(
		"{proxy}", address,
		"{needs}", c.Needs,
		"{java}", strings.Join(JavaOptions(address, "$PWD/trust.p12", "changeit"), " "),
	).Replace(setup)
}
