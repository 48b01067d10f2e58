package evidence

import (
	"bytes"
	_ "embed"
	"slices"
	"strings"
	"text/template"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/sign"
)

//go:embed readme.txt
var readmeText string

var readmeTemplate = template.Must(template.New(readmeFile).Parse(readmeText))

// readme returns the file that says what the others are, and how to check them.
func (a *Archive) readme(found *Found) ([]byte, error) {
	about := struct {
		*Archive
		*Found
		Logs    string // the names of the logs, without their folders; "": counts
		IsLog   bool
		Decided string // the file
	}{Archive: a, Found: found, Decided: a.Source.file()}
	if log, is := a.Source.(Log); is {
		about.IsLog = true
		var names []string
		for _, name := range log.Names {
			names = append(names, printable.Line(name[strings.LastIndexAny(name, `/\`)+1:]))
		}
		about.Logs = strings.Join(names, ", ")
	}
	var text bytes.Buffer
	err := readmeTemplate.Execute(&text, about)
	return text.Bytes(), err
}

// keys are the files with the public keys of the signers, whose order they put right. A key
// that several identities use is there once.
func (a *Archive) keys() (files []member) {
	var keys []*sign.Key
	for _, s := range a.Signers {
		if !slices.ContainsFunc(keys, func(k *sign.Key) bool { return k.ID() == s.Key.ID() }) {
			keys = append(keys, s.Key)
			files = append(files, inMemory(keyPrefix+s.Key.ID()+keySuffix, s.Key.PublicPEM()))
		}
	}
	return append(files, inMemory(keySetFile, sign.JWKSet(keys)))
}

// seal adds the manifest and its signatures, and puts all in order.
func (a *Archive) seal(members []member) []member {
	inOrder(members)
	list := manifest(members)
	members = append(members, inMemory(manifestFile, list))
	sealed := map[string]bool{}
	for _, s := range a.Signers {
		if id := s.Key.ID(); !sealed[id] {
			sealed[id] = true
			members = append(members, inMemory(sealPrefix+id+sealSuffix, s.Key.SignFile(list)))
		}
	}
	inOrder(members)
	return members
}
