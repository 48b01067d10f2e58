package logging

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unicode"
)

func TestLogIsSafeToShow(t *testing.T) {
	const foreign = "\x1b[2J\u009b\u202e"
	for _, format := range []string{"console", "json"} {
		for _, file := range []string{"", filepath.Join(t.TempDir(), "log")} {
			var stderr bytes.Buffer
			opts := Defaults()
			opts.Format, opts.File = Format(format), file
			log, closer, err := Open(opts, &stderr, func([]byte, bool, bool) (string, bool) { return "", false })
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
				t.Errorf("%s: the log is empty", format)
			}
			for _, r := range text {
				if r != '\n' && !unicode.IsGraphic(r) {
					t.Errorf("%s holds %U: %q", format, r, text)
				}
			}
		}
	}
}
