package configs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// The schema that robotsproxy prints accepts what the program accepts, and refuses what it
// refuses for its form.
func TestSchema(t *testing.T) {
	printed, err := exec.Command(program, "schema").Output()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(printed))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("robotsproxy.schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("robotsproxy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(text []byte) error {
		asJSON, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples, error %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for text, valid := range map[string]bool{
		"": true, "robots:": true, "name: a": true, "nam: a": false, "name: 5": false, "name: [a]": false,
		"robots: {ttl: 1d12h}": true, "robots: {ttl: '${TTL}'}": true, "robots: {ttl: 12}": false, "robots: {ttl: soon}": false,
		"robots: {statuses: {'429': Unreachable}}": true, "robots: {statuses: {'429': forbid}}": false,
		"robots: {max_redirects: 3}": true, "robots: {max_redirects: '3'}": true, "robots: {max_redirects: three}": false,
		"pace: {default_delay: 0}": true, "pace: {max_wait: 0}": false, "pace: {back_off: {first: 1m}}": true, "pace: {back_off: {fist: 1m}}": false,
		"cache: {memory: 64mb}": true, "cache: {memory: 4096}": true, "cache: {memory: 64 megs}": false,
		"https: {mode: WHEN_needed}": true, "https: {mode: never}": false, "robots: {soft_5xx: 'On'}": true, "robots: {soft_5xx: maybe}": false,
		"default_identity: {content_use: ''}": true, "default_identity: {purposes: [search]}": true, "default_identity: {purposes: [read]}": false,
		"identities: [{name: a, match: {clients: [10.0.0.0/8], headers: {X-Bot: a*}}}]": true, "identities: [{name: a, matches: {}}]": false,
		"overrides: [{origin: https://a.example, verdict: allow, expires: 2030-01-31}]": true, "overrides: {origin: https://a.example}": false,
		"run: {forward: [5432], allow: ['db.example.com:5432']}": true,
	} {
		if err := check([]byte(text)); (err == nil) != valid {
			t.Errorf("%s: %v, want it valid: %t", text, err, valid)
		}
	}
}
