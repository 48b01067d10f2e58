package sealedzip

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"robotsproxy/proxy/sign"
)

func verify(archive []byte) (Verified, error) {
	return Verify(bytes.NewReader(archive), int64(len(archive)))
}

func testKey(seed byte) *sign.Key {
	return sign.NewKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
}

// The files of the archives in these tests.
const readmeFile, dataFile = "README.txt", "data.jsonl"

// archiveOf is a small archive that the keys sign.
func archiveOf(t testing.TB, keys ...*sign.Key) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, Write(&b, []Member{InMemory(readmeFile, []byte("Read me.\n")), InMemory(dataFile, []byte("{}\n"))}, keys))
	return b.Bytes()
}

// signed is a small archive, signed by testKey(1).
func signed(t testing.TB) []byte { return archiveOf(t, testKey(1), testKey(1)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An archive has its members, and what seals them. A spool makes the same member as memory.
func TestFilesOfAnArchive(t *testing.T) {
	v, err := verify(signed(t))
	if want := []string{readmeFile, dataFile, keyPrefix + testKey(1).ID() + keySuffix, keySetFile}; err != nil || !slices.Equal(v.Files, want) || !slices.Equal(v.Keys, []string{testKey(1).ID()}) {
		t.Errorf("it has %+v, %v; want the files %v", v, err, want)
	}
	if v, err := verify(archiveOf(t)); err != nil || len(v.Files) != 2 || len(v.Keys) != 0 {
		t.Errorf("without a key it has %+v, %v", v, err)
	}
	scratch, err := os.Create(filepath.Join(t.TempDir(), "scratch"))
	must(t, err)
	defer scratch.Close()
	spool := NewSpool(dataFile, scratch)
	io.WriteString(spool, "{}")
	io.WriteString(spool, "\n")
	data, err := spool.Member()
	must(t, err)
	var b bytes.Buffer
	must(t, Write(&b, []Member{data, InMemory(readmeFile, []byte("Read me.\n"))}, []*sign.Key{testKey(1)}))
	if !bytes.Equal(b.Bytes(), signed(t)) {
		t.Error("a spool makes another archive than memory")
	}
}

// No octet of an archive can be another one, be missing or be added, and none of its bits.
func TestEveryChangeIsFound(t *testing.T) {
	archive := signed(t)
	if _, err := verify(archive); err != nil {
		t.Fatal(err)
	}
	for i := range archive {
		changed := bytes.Clone(archive)
		changed[i] ^= 1 << (i % 8)
		if v, err := verify(changed); err == nil {
			t.Errorf("with another octet at %d it is %+v", i, v)
		}
		if v, err := verify(archive[:i]); err == nil {
			t.Errorf("cut at %d it is %+v", i, v)
		}
		if v, err := verify(slices.Delete(bytes.Clone(archive), i, i+1)); err == nil {
			t.Errorf("without the octet at %d it is %+v", i, v)
		}
	}
	for i := 0; i <= len(archive); i += 50 {
		if v, err := verify(slices.Insert(bytes.Clone(archive), i, 0)); err == nil {
			t.Errorf("with an octet more at %d it is %+v", i, v)
		}
	}
}

// repacked returns a zip file that has the members, in whichever order.
func repacked(t testing.TB, members []Member) []byte {
	t.Helper()
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for _, m := range members {
		w, err := archive.CreateRaw(m.header())
		must(t, err)
		must(t, m.copyTo(w))
	}
	must(t, archive.Close())
	return b.Bytes()
}

// What is wrong with an archive is said in words.
func TestWhatIsWrongWithAnArchive(t *testing.T) {
	archive := signed(t)
	id, otherID := testKey(1).ID(), testKey(2).ID()
	signature, key := sealPrefix+id+sealSuffix, keyPrefix+id+keySuffix
	list := find(membersOf(t, archive), manifestFile)
	listed, err := list.content()
	must(t, err)
	without := func(name string) func([]Member) []Member {
		return func(all []Member) []Member {
			return slices.DeleteFunc(all, func(m Member) bool { return m.name == name })
		}
	}
	with := func(name, content string) func([]Member) []Member {
		return func(all []Member) []Member {
			all = append(without(name)(all), InMemory(name, []byte(content)))
			inOrder(all)
			return all
		}
	}
	// resigned lists the files anew, which another key signs.
	resigned := func(change func([]Member) []Member, keys ...*sign.Key) func([]Member) []Member {
		return func(all []Member) []Member {
			all = slices.DeleteFunc(change(all), func(m Member) bool { return isSeal(m.name) })
			return seal(all, keys)
		}
	}
	for name, test := range map[string]struct {
		change func([]Member) []Member
		want   string // "": nothing
	}{
		"nothing":                      {func(all []Member) []Member { return all }, ""},
		"a changed file":               {with(readmeFile, "What?"), "its file README.txt was changed: it is not as SHA256SUMS lists it"},
		"another file":                 {with("more.txt", "More."), "it has a file more.txt, which SHA256SUMS does not list"},
		"a file less":                  {without(dataFile), `SHA256SUMS lists "data.jsonl", which is not there`},
		"no manifest":                  {without(manifestFile), "it has no SHA256SUMS"},
		"no signature":                 {without(signature), "its key " + id + " has not signed it: it has no " + signature},
		"another manifest":             {with(manifestFile, string(listed)+"\n"), `SHA256SUMS lists "", which is not there`},
		"a manifest with a file twice": {with(manifestFile, string(listed)+string(listed[:strings.IndexByte(string(listed), '\n')+1])), "it does not list every file once"},
		"a manifest out of order":      {with(manifestFile, reversed(string(listed))), "it does not list every file once, in order"},
		"an endless manifest":          {with(manifestFile, strings.Repeat("x", maxSmall+1)), "has 65537 octets, more than such a file ever has"},
		"an empty signature":           {with(signature, ""), "is not the signature of SHA256SUMS by the key"},
		"another's signature":          {with(signature, string(testKey(2).SignFile(listed))), "is not the signature of SHA256SUMS by the key"},
		"a signature without key":      {with(sealPrefix+otherID+sealSuffix, string(testKey(2).SignFile(listed))), "it has a signature by the key " + otherID + ", but no key-" + otherID},
		"a new manifest":               {resigned(with(readmeFile, "What?")), "its key " + id + " has not signed it"},
		"a key of another name":        {resigned(with(key, string(testKey(2).PublicPEM())), testKey(1)), "its file " + key + " has another key"},
		"no key in the file":           {resigned(with(key, "key"), testKey(1)), "its file " + key + " has no public key"},
		"a file twice":                 {func(all []Member) []Member { return append(all[:1:1], all...) }, "it has the file README.txt twice"},
		"a way out":                    {with("../../etc/passwd", ""), `it has a file "../../etc/passwd"`},
		"a way to the root":            {with("/etc/passwd", ""), `it has a file "/etc/passwd"`},
		"a folder":                     {with("zz/", ""), `it has a file "zz/"`},
		"a name for terminals":         {with("\x1b[2J", ""), `it has a file "\x1b[2J"`},
		"another order":                {func(all []Member) []Member { slices.Reverse(all); return all }, errRepacked.Error()},
		"very many files": {func(all []Member) []Member {
			for i := range 300 {
				all = append(all, InMemory(fmt.Sprintf("zz%03d", i), nil))
			}
			return all
		}, "it has more than 256 files"},
		"millions of files": {func(all []Member) []Member {
			for i := range 2000 {
				all = append(all, InMemory(fmt.Sprintf("zz%04d", i), nil))
			}
			return all
		}, "its directory is too long"},
	} {
		changed := repacked(t, test.change(membersOf(t, archive)))
		_, err := verify(changed)
		if test.want == "" && (err != nil || !bytes.Equal(changed, archive)) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}

	// Two keys sign. A zip program packs the same files in another way.
	both, err := verify(repacked(t, resigned(with(keyPrefix+otherID+keySuffix, string(testKey(2).PublicPEM())), testKey(1), testKey(2))(membersOf(t, archive))))
	if want := []string{id, otherID}; err != nil || len(both.Keys) != 2 || !slices.Contains(both.Keys, want[0]) || !slices.Contains(both.Keys, want[1]) {
		t.Errorf("signed by two it is %+v, %v", both, err)
	}
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for _, m := range membersOf(t, archive) {
			to, err := w.CreateHeader(&zip.FileHeader{Name: m.name, Method: method})
			must(t, err)
			must(t, m.copyTo(to))
		}
		must(t, w.Close())
		if _, err := verify(b.Bytes()); err != errRepacked {
			t.Errorf("packed again it is %v", err)
		}
	}
	if _, err := Verify(bytes.NewReader(nil), 5<<30); err == nil || !strings.Contains(err.Error(), "MiB") {
		t.Errorf("of 5 GiB: %v", err)
	}
}

func membersOf(t testing.TB, archive []byte) []Member {
	t.Helper()
	members, err := readZip(bytes.NewReader(archive), int64(len(archive)))
	must(t, err)
	for i := range members {
		must(t, members[i].hash())
	}
	return members
}

func reversed(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Reverse(lines)
	return strings.Join(lines, "")
}

// What has too many octets or files for programs to read is not made.
func TestArchivesAreBounded(t *testing.T) {
	huge := Member{name: "huge", size: 5 << 30}
	if err := writeZip(io.Discard, []Member{huge}); err == nil || !strings.Contains(err.Error(), "make several, of fewer days or origins") {
		t.Errorf("of 5 GiB: %v", err)
	}
}

// Whatever a file is, it is not taken for an archive that a key has signed unless it is that
// archive.
func FuzzVerify(f *testing.F) {
	archive := signed(f)
	f.Add(archive)
	f.Add(archiveOf(f))
	f.Add(archive[:len(archive)-1])
	f.Add(append([]byte("x"), archive...))
	f.Add(archive[len(archive)-22:])
	f.Fuzz(func(t *testing.T, file []byte) {
		v, err := verify(file)
		if err != nil {
			if fmt.Sprint(v) != fmt.Sprint(Verified{}) {
				t.Errorf("with an error it is %+v", v)
			}
			return
		}
		if slices.Contains(v.Keys, testKey(1).ID()) && !bytes.Equal(file, archive) {
			t.Errorf("another file is signed by the key")
		}
		members := membersOf(t, file)
		var again bytes.Buffer
		must(t, writeZip(&again, members))
		if !bytes.Equal(again.Bytes(), file) {
			t.Error("it is not as it would be made")
		}
	})
}
