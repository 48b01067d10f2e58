// Package logging is the program's log. Open opens the log that Options describe, with a
// Writer that never keeps a caller waiting.
package logging

import (
	"bytes"
	"io"
	"log"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/printable"
)

// Options say what is logged, how and where.
type Options struct {
	Level  Level  `yaml:"level"`
	Format Format `yaml:"format"`
	File   string `yaml:"file,path"` // "" means standard error
}

// Defaults are the options of an empty configuration.
func Defaults() Options { return Options{Level: "info", Format: "auto"} }

// Level is the least severity that is logged: debug, info, warn or error.
type Level string

// UnmarshalText reads one of the four words.
func (l *Level) UnmarshalText(text []byte) error {
	return enum.Unmarshal(l, text, "debug", "info", "warn", "error")
}

// severities has zerolog's levels. Any other Level logs everything.
var severities = map[Level]zerolog.Level{
	"debug": zerolog.DebugLevel, "info": zerolog.InfoLevel, "warn": zerolog.WarnLevel, "error": zerolog.ErrorLevel,
}

// SetLevel changes the level of all logs of this process. It may be called at any time.
func SetLevel(level Level) { zerolog.SetGlobalLevel(severities[level]) }

// Format is how a line of the log looks: json, console, or auto, which is console on a
// terminal and else json.
type Format string

// UnmarshalText reads one of the three words.
func (f *Format) UnmarshalText(text []byte) error {
	return enum.Unmarshal(f, text, "auto", "json", "console")
}

// Show returns a line of the log, in JSON, as people read it on a terminal, without a line feed.
// It returns false for lines that it does not know. details says whether they want to see all.
type Show func(line []byte, colour, details bool) (text string, ok bool)

// Open opens the log that opts describe, on stderr if they name no file. In the console format,
// show writes the lines that it knows. Open changes two
// things of the whole process: the level of all logs, and the standard library's logger,
// whose lines go to this log at level debug. Callers must close the writer after the last
// line.
func Open(opts Options, stderr io.Writer, show Show) (zerolog.Logger, *Writer, error) {
	SetLevel(opts.Level)
	var notice bytes.Buffer
	var notices zerolog.Logger
	writer, err := openWriter(opts.File, stderr, func(lost int) []byte {
		notice.Reset()
		notices.Warn().Int("lines", lost).Msg("lines of the log were lost here: they could not be written, or not fast enough")
		return notice.Bytes()
	})
	if err != nil {
		return zerolog.Logger{}, nil, err
	}
	terminal := isTerminal(writer.out)
	writer.console = opts.Format == "console" || opts.Format == "auto" && terminal
	colour := terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	logger := func(out zerolog.LevelWriter) zerolog.Logger {
		formatted := io.Writer(printableWriter{out})
		if writer.console {
			formatted = consoleWriter{zerolog.ConsoleWriter{
				Out: formatted, TimeFormat: "15:04:05", NoColor: !colour,
				FormatPrepare: escapeMessage,
			}, show}
		}
		return zerolog.New(formatted).With().Timestamp().Logger()
	}
	l := logger(writer)
	notices = logger(zerolog.MultiLevelWriter(&notice))
	// net/http's client reports misbehaving origins only through the standard logger.
	log.SetFlags(0)
	log.SetOutput(debugWriter{l})
	return l, writer, nil
}

// consoleWriter writes lines for people.
type consoleWriter struct {
	zerolog.ConsoleWriter
	show Show
}

func (w consoleWriter) Write(line []byte) (int, error) {
	text, ok := w.show(line, !w.NoColor, zerolog.GlobalLevel() <= zerolog.DebugLevel)
	if !ok {
		return w.ConsoleWriter.Write(line)
	}
	_, err := io.WriteString(w.Out, text+"\n")
	return len(line), err
}

// escapeMessage makes the message of a line safe for a terminal. In all other fields the
// console format itself quotes control characters.
func escapeMessage(line map[string]any) error {
	if message, ok := line[zerolog.MessageFieldName].(string); ok {
		line[zerolog.MessageFieldName] = printable.Line(message)
	}
	return nil
}

// printableWriter escapes the unsafe characters that JSON and the console format let
// through.
type printableWriter struct{ out zerolog.LevelWriter }

func (w printableWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	_, err := w.out.WriteLevel(level, printable.JSON(line))
	return len(line), err
}

func (w printableWriter) Write(line []byte) (int, error) { return w.WriteLevel(zerolog.NoLevel, line) }

// debugWriter logs the lines of another logger at level debug.
type debugWriter struct{ log zerolog.Logger }

func (w debugWriter) Write(line []byte) (int, error) {
	w.log.Debug().Msg(strings.TrimSpace(string(line)))
	return len(line), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
