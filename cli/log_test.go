package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unicode"

	"robotsproxy/config"
)

func TestLogIsSafeToShow(t *testing.T) {
	const foreign = "\x1b[2J\u009b\u202e"
	for _, format := range []string{"console", "json"} {
		for _, file := range []string{"", filepath.Join(t.TempDir(), "log")} {
			var stderr bytes.Buffer
			opts := config.Default().Log
			opts.Format, opts.File = config.Format(format), file
			log, closer, err := openLog(opts, &stderr)
			must(t, err)
			log.Warn().Str("url", foreign).Strs("urls", []string{foreign}).Err(fmt.Errorf("%s", foreign)).Msg("left: " + foreign)
			must(t, closer.Close())
			text := stderr.String()
			if file != "" {
				content, err := os.ReadFile(file)
				must(t, err)
				text = string(content)
			}
			if text == "" {
				t.Errorf("%s: nothing is logged", format)
			}
			for _, r := range text {
				if r != '\n' && !unicode.IsGraphic(r) {
					t.Errorf("%s holds %U: %q", format, r, text)
				}
			}
		}
	}
}
