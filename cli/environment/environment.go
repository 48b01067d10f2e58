// Package environment has the environment variables that point a user's programs at a
// proxy, and the files that they name. The user's own settings of trust stay in force.
package environment

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"robotsproxy/certs"
	"robotsproxy/certs/trust"
	"robotsproxy/internal/clientsetup"
)

// A Variable is one of an environment.
type Variable struct{ Name, Value string }

// Variables point every client that reads variables at the proxy at address, which
// speaks TLS if scheme is https, and have it trust the CA. A variable that can hold several
// values keeps the user's own. Java can't reach a proxy over TLS. It is pointed there all the
// same, and fails: it must not go past.
func Variables(scheme, address string, files trust.Files, getenv func(string) string) []Variable {
	var all []Variable
	set := func(value string, names ...string) {
		for _, name := range names {
			all = append(all, Variable{name, value})
		}
	}
	proxy := scheme + "://" + address
	for _, name := range clientsetup.ProxyVariables {
		set(proxy, name, strings.ToUpper(name))
	}
	set("1", "NODE_USE_ENV_PROXY")
	set(proxy, clientsetup.GlobalAgentVariables...)

	set(files.Bundle, clientsetup.ReplacingRoots...)
	for _, name := range clientsetup.AddingRoots {
		if file := getenv(name); file == "" || file == files.CA {
			set(files.CA, name)
		} else {
			set(files.Bundle, name) // it holds what the user's own file does
		}
	}
	set(files.Wgetrc, "WGETRC")
	set(appended(getenv("JAVA_TOOL_OPTIONS"), " ", javaOptions(address, files)), "JAVA_TOOL_OPTIONS")
	// An empty item stands for the folder that PHP was built with.
	set(appended(getenv("PHP_INI_SCAN_DIR"), string(os.PathListSeparator), string(os.PathListSeparator)+files.PHP), "PHP_INI_SCAN_DIR")

	set(proxy, "ROBOTSPROXY_URL")
	set(files.CA, "ROBOTSPROXY_CA_FILE")
	set(files.Bundle, "ROBOTSPROXY_CA_BUNDLE")
	return all
}

// Undo returns the variables that undo what an earlier env has set, as far as they still have its
// values: each with what is left of its value, "" if it is to be unset. There are none if
// ROBOTSPROXY_URL is not set. It does not know what the variables were before.
func Undo(getenv func(string) string) []Variable {
	own := getenv("ROBOTSPROXY_URL")
	proxy, err := url.Parse(own)
	if own == "" || err != nil {
		return nil
	}
	files := trust.FilesIn(filepath.Dir(getenv("ROBOTSPROXY_CA_BUNDLE")))
	var undone []Variable
	for _, v := range Variables(proxy.Scheme, proxy.Host, files, func(string) string { return "" }) {
		value := getenv(v.Name)
		rest, ends := strings.CutSuffix(value, v.Value)
		switch {
		case value == "":
		case value == own, value == files.Bundle:
			undone = append(undone, Variable{v.Name, ""})
		case ends:
			undone = append(undone, Variable{v.Name, strings.TrimRight(rest, " ")})
		}
	}
	return undone
}

// appended is value with an addition at its end, unless it ends with that already. If
// value is empty, a separator at the addition's front stays.
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

// javaOptions are the JVM's options in the syntax of JAVA_TOOL_OPTIONS.
func javaOptions(address string, files trust.Files) string {
	options := clientsetup.JavaOptions(address, files.Store, files.StorePassword)
	for i, option := range options {
		if strings.ContainsAny(option, " \t'\"") {
			options[i] = `"` + strings.ReplaceAll(option, `"`, `"'"'"`) + `"` // the JVM reads quotes, but no escapes
		}
	}
	return strings.Join(options, " ")
}

// OwnTrust is what the user's variables already say about trust. It leaves out another
// proxy's ca.pem (ROBOTSPROXY_CA_FILE): the bundle of that proxy has the same CA.
func OwnTrust(getenv func(string) string) trust.Own {
	own := trust.Own{Wgetrc: getenv("WGETRC")}
	for _, name := range slices.Concat(clientsetup.ReplacingRoots, clientsetup.AddingRoots) {
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

// WriteShellTrust writes the files by which the programs of the user's shell trust the CA of
// a running proxy. They are in folder, which all clients share, unless the user's own
// variables name other files: then they are in a folder inside it, named for those
// files. Variables that an earlier env has set don't count as the user's own.
func WriteShellTrust(ca *certs.CA, folder string, getenv func(string) string) (trust.Files, error) {
	own := OwnTrust(getenv)
	within := func(file string) bool { return strings.HasPrefix(file, folder+string(filepath.Separator)) }
	foreign := slices.DeleteFunc(append([]string{own.Wgetrc}, own.Bundles...), func(file string) bool { return file == "" || within(file) })
	if before := getenv("ROBOTSPROXY_CA_BUNDLE"); len(foreign) > 0 {
		folder = filepath.Join(folder, fmt.Sprintf("env-%.8x", sha256.Sum256(fmt.Appendf(nil, "%q", foreign))))
	} else if within(before) {
		folder = filepath.Dir(before)
	}
	if bundle := filepath.Join(folder, "ca-bundle.pem"); isFile(bundle) {
		own.Bundles = append(own.Bundles, bundle) // keep what an earlier env put there
	}
	return trust.Write(ca, folder, own)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
