package signtest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// A Message is a signed request, or the response that is a key directory.
type Message struct {
	// Check says what it is: a request in the form "dictionary", which http-message-sig
	// verifies, or "string", which web-bot-auth verifies; or a "directory".
	Check   string          `json:"check"`
	Method  string          `json:"method"`
	URL     string          `json:"url"` // of the request, also for a directory
	Headers http.Header     `json:"headers"`
	Keys    json.RawMessage `json:"keys"` // the public keys, a JWK Set
	Body    string          `json:"body"` // of a directory
}

//go:embed libraries.cjs
var libraries string

// Libraries has libraries that others wrote verify messages, and returns what they find wrong
// with each; "" for nothing. They, and the Node that runs them, are in the folder modules,
// which "make test-clients" fills: .clients/node_modules. They tell the time by the clock.
func Libraries(ctx context.Context, modules string, messages []Message) (faults []string, err error) {
	input, err := json.Marshal(messages)
	if err != nil {
		return nil, err
	}
	// This Node has Ed25519 and a global crypto; older ones may not.
	node := exec.CommandContext(ctx, filepath.Join(modules, "node", "bin", "node"), "--eval", libraries)
	node.Env = append(os.Environ(), "NODE_PATH="+modules)
	node.Stdin = bytes.NewReader(input)
	var complaints bytes.Buffer
	node.Stderr = &complaints
	out, err := node.Output()
	if err != nil {
		return nil, fmt.Errorf("node, which make test-clients installs: %w\n%s", err, &complaints)
	}
	if err := json.Unmarshal(out, &faults); err != nil || len(faults) != len(messages) {
		return nil, fmt.Errorf("%d messages, and node says %s (%v)", len(messages), out, err)
	}
	return faults, nil
}
