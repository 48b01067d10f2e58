package ftp

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// TypeImage may end the path of an ftp URL: it asks for a file as it is (RFC 1738 3.2.2),
// which is how all files are fetched. It is no part of the path that rules match.
const TypeImage = ";type=i"

// CheckPath returns an error if a [Transport] would not ask a server for the path of an
// ftp URL, which is as written there: escaped, and without a type.
func CheckPath(written string) error {
	_, err := parsePath(written)
	return err
}

// parsePath returns the path to ask a server for: decoded, with dot segments resolved, and
// with a slash at the end if only a directory can be meant.
//
// It refuses paths that servers may read in another way than robots.txt does. Otherwise
// one file could be judged and another one fetched.
func parsePath(written string) (string, error) {
	if i := strings.LastIndexByte(written, ';'); i >= 0 && strings.HasPrefix(strings.ToLower(written[i:]), ";type=") {
		return "", errors.New("files are fetched as they are; no type but " + TypeImage + " may end an ftp URL")
	}
	if !strings.HasPrefix(written, "/") || strings.Contains(written, "?") {
		return "", errors.New("an ftp URL has no query; write %3F")
	}
	var names []string
	segments := strings.Split(written[1:], "/")
	for i, segment := range segments {
		name, err := url.PathUnescape(segment)
		switch {
		case err != nil:
			return "", err
		case name == "" && i < len(segments)-1:
			return "", errors.New("an empty segment in the path of an ftp URL")
		case strings.HasSuffix(name, " "), strings.ContainsFunc(name, isDivider), strings.IndexByte(name, telnetCommand) >= 0:
			return "", fmt.Errorf("the segment %q in the path of an ftp URL: servers differ in how they read it", segment)
		case name == "..":
			names = names[:max(len(names)-1, 0)]
		case name != "" && name != ".":
			names = append(names, name)
		}
		if i == len(segments)-1 && len(names) > 0 && (name == "" || name == "." || name == "..") {
			names = append(names, "")
		}
	}
	return "/" + strings.Join(names, "/"), nil
}

// isDivider reports whether a server may take a character for the end of a segment, a line
// or a string.
func isDivider(c rune) bool { return c == '/' || c == '\\' || c < ' ' || c == 0x7F }

// telnetCommand begins an instruction of Telnet (RFC 854), which some servers take out of
// the command line that it is in.
const telnetCommand = 0xFF
