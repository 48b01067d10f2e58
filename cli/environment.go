package cli

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"robotsproxy/certs"
	"robotsproxy/config"
)

// variable is one of an environment.
type variable struct{ name, value string }

// The variables that name a file of roots: those in whose place a client puts the
// roots that it has, and those that add to them. Python's requests, for one, has
// roots of its own and heeds only its own variable.
var (
	replacingRoots = []string{
		"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO",
		"CARGO_HTTP_CAINFO", "PERL_LWP_SSL_CA_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
		"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "npm_config_cafile", "NIX_SSL_CERT_FILE",
	}
	addingRoots = []string{"NODE_EXTRA_CA_CERTS", "DENO_CERT"}
)

// clientVariables point every client that can be told at a proxy, by its address,
// and have it trust the CA. What the user's own variables say is kept where a
// variable can say several things.
func clientVariables(address string, trust certs.Trust, getenv func(string) string) []variable {
	var all []variable
	set := func(value string, names ...string) {
		for _, name := range names {
			all = append(all, variable{name, value})
		}
	}
	proxy := "http://" + address
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "ws_proxy", "wss_proxy", "npm_config_proxy", "npm_config_https_proxy"} {
		set(proxy, name, strings.ToUpper(name))
	}
	set("1", "NODE_USE_ENV_PROXY")
	set(proxy, "GLOBAL_AGENT_HTTP_PROXY", "GLOBAL_AGENT_HTTPS_PROXY")

	set(trust.Bundle, replacingRoots...)
	for _, name := range addingRoots {
		if file := getenv(name); file == "" || file == trust.CA {
			set(trust.CA, name)
		} else {
			set(trust.Bundle, name) // it holds what the user's own file does
		}
	}
	set(trust.Wgetrc, "WGETRC")
	set(appended(getenv("JAVA_TOOL_OPTIONS"), " ", javaOptions(address, trust)), "JAVA_TOOL_OPTIONS")
	// An empty item stands for the folder that PHP was built with.
	set(appended(getenv("PHP_INI_SCAN_DIR"), string(os.PathListSeparator), string(os.PathListSeparator)+trust.PHP), "PHP_INI_SCAN_DIR")

	set(proxy, "ROBOTSPROXY_URL")
	set(trust.CA, "ROBOTSPROXY_CA_FILE")
	set(trust.Bundle, "ROBOTSPROXY_CA_BUNDLE")
	return all
}

// appended is a value with an addition at its end, which it may have already. An
// addition to nothing keeps its separator at the front.
func appended(value, separator, addition string) string {
	addition = strings.TrimSuffix(addition, separator)
	switch bare := strings.TrimPrefix(addition, separator); {
	case value == "":
		return addition
	case value == addition, strings.HasSuffix(value, separator+bare):
		return value
	default:
		return value + separator + bare
	}
}

// javaOptions are for the JVM's own HTTP clients. The last of two properties of
// one name counts.
func javaOptions(address string, trust certs.Trust) string {
	host, port, _ := net.SplitHostPort(address)
	options := []string{
		"-Dhttp.proxyHost=" + host, "-Dhttp.proxyPort=" + port,
		"-Dhttps.proxyHost=" + host, "-Dhttps.proxyPort=" + port,
		"-Dftp.proxyHost=" + host, "-Dftp.proxyPort=" + port,
		"-Dhttp.nonProxyHosts=", // else loopback is not judged
		"-Djavax.net.ssl.trustStore=" + trust.Store,
		"-Djavax.net.ssl.trustStoreType=PKCS12",
		"-Djavax.net.ssl.trustStorePassword=" + trust.StorePassword,
	}
	for i, option := range options {
		if strings.ContainsAny(option, " \t'\"") {
			options[i] = `"` + strings.ReplaceAll(option, `"`, `"'"'"`) + `"` // the JVM knows quotes and no escapes
		}
	}
	return strings.Join(options, " ")
}

// trustFolder is where clients find what they need to trust the CA.
func trustFolder(cfg config.Config) (string, error) {
	data, err := cfg.DataFolder()
	if err != nil {
		return "", err
	}
	return filepath.Abs(cfg.HTTPS.TrustFolder(data))
}

// ownTrust is what the user's variables say already about trust. A proxy's own
// certificate is left out: where it is still of use it is in a bundle too.
func ownTrust(getenv func(string) string) certs.Own {
	own := certs.Own{Wgetrc: getenv("WGETRC")}
	for _, name := range slices.Concat(replacingRoots, addingRoots) {
		file := getenv(name)
		if file != "" && file != getenv("ROBOTSPROXY_CA_FILE") && !slices.Contains(own.Bundles, file) {
			own.Bundles = append(own.Bundles, file)
		}
	}
	if home, err := os.UserHomeDir(); err == nil && own.Wgetrc == "" {
		if file := filepath.Join(home, ".wgetrc"); isFile(file) {
			own.Wgetrc = file
		}
	}
	return own
}

// shellTrust is the trust of a user's shell in the CA of a proxy that serves: that of
// all its clients, in folder, unless the user's variables name something else. Then
// it is in a folder inside, by whatever they name. What env has set before does not
// count as the user's.
func shellTrust(ca *certs.CA, folder string, getenv func(string) string) (certs.Trust, error) {
	own := ownTrust(getenv)
	within := func(file string) bool { return strings.HasPrefix(file, folder+string(filepath.Separator)) }
	foreign := slices.DeleteFunc(append([]string{own.Wgetrc}, own.Bundles...), func(file string) bool { return file == "" || within(file) })
	if before := getenv("ROBOTSPROXY_CA_BUNDLE"); len(foreign) > 0 {
		folder = filepath.Join(folder, fmt.Sprintf("env-%.8x", sha256.Sum256(fmt.Appendf(nil, "%q", foreign))))
	} else if within(before) {
		folder = filepath.Dir(before)
	}
	if bundle := filepath.Join(folder, "ca-bundle.pem"); isFile(bundle) {
		own.Bundles = append(own.Bundles, bundle) // what the proxy's own variables named stays in it
	}
	return ca.WriteTrust(folder, own)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
