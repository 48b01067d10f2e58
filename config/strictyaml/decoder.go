// Package strictyaml reads YAML files into structs, strictly.
//
// It differs from the decoders of YAML libraries in three ways. It reports all faults of a file
// at once, each with its line and column. It refuses what others let pass: unknown and
// repeated keys, keys without a value, anchors and tags, and numbers where text belongs. And
// it knows where each key stands, so that faults which a later validation finds have
// positions too.
//
// A [Decoder] reads one file, applies a program's flags to the same struct, takes the errors of
// the validation and returns the faults. A struct names its keys by tags, as in
//
//	Delay time.Duration `yaml:"delay"`
//
// Strings, bools, ints, [time.Duration], [net/netip.Prefix] and every
// [encoding.TextUnmarshaler] are single values; structs, maps and slices are sections,
// mappings and lists. After a comma a tag may say "inline", for a struct whose keys are those
// of its section, "path", for a path relative to the file's folder, "size", for an int64 with
// units like MiB, or "zero", for a duration that may be zero.
package strictyaml

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"robotsproxy/internal/keyerr"
)

// A Decoder reads a YAML file into a struct, key by key. It continues after a fault and
// records the position of each key.
type Decoder struct {
	file      string
	dir       string // what relative paths in the file are relative to
	lines     []string
	row       row
	root      reflect.Value       // the struct that the file is read into
	positions map[string]Position // by key path; "" is the whole file
	failed    map[string]bool     // key paths with a fault
	faults    Errors
}

// New returns a decoder of a file. Faults call it by the name file; "" means that there is no
// file and that text is empty.
func New(file string, text []byte) *Decoder {
	whole := strings.TrimPrefix(string(text), "\ufeff")
	d := &Decoder{
		file:      file,
		dir:       filepath.Dir(file),
		lines:     strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(whole), "\n"),
		positions: map[string]Position{},
		failed:    map[string]bool{},
	}
	if file != "" {
		d.positions[""] = Position{file, 1, 1}
	}
	return d
}

// IsEmpty reports whether there is a file without a single octet.
func (d *Decoder) IsEmpty() bool { return d.file != "" && len(d.lines) == 1 && d.lines[0] == "" }

// Decode reads the file into the struct that target points to. Keys that the file does not
// have keep their values; a list or mapping in the file replaces the present one. In each
// single value, ${NAME} stands for the environment variable NAME.
func (d *Decoder) Decode(target any) {
	if !d.isText() {
		return
	}
	file, err := parser.ParseBytes([]byte(strings.Join(d.lines, "\n")), 0, parser.AllowDuplicateMapKey())
	var fault yaml.Error
	if errors.As(err, &fault) {
		d.malformed(fault)
		return
	} else if err != nil {
		d.fail("", d.positions[""], err.Error())
		return
	}
	docs := slices.DeleteFunc(file.Docs, func(doc *ast.DocumentNode) bool {
		return doc.Body != nil && doc.Body.Type() == ast.DirectiveType // as in "%YAML 1.2", which the library takes for a document
	})
	for _, second := range docs[min(1, len(docs)):] {
		at := second.Start
		if at == nil {
			at = begin(second.Body)
		}
		d.fail("", d.position(at), "a second YAML document begins here; write the whole configuration as one")
	}
	if len(docs) > 0 && docs[0].Body != nil {
		d.root = reflect.ValueOf(target).Elem()
		d.value(docs[0].Body, d.root, "", "")
	}
}

// value decodes n, the value of key, into v.
func (d *Decoder) value(n ast.Node, v reflect.Value, key, option string) {
	if key != "" {
		if _, isSection := n.(*ast.MappingNode); !isSection && n.Type() != ast.NullType {
			d.positions[key] = d.position(begin(n))
		}
	}
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.fail(key, d.position(begin(n)), "anchors (&), aliases (*) and tags (!) are not supported; write the value itself, in quotes if it begins with one of these characters")
		return
	case *ast.NullNode:
		if v.Kind() != reflect.Struct || isScalar(v) { // a section may be empty: all its keys are commented out
			d.fail(key, d.positions[key], "it has no value; write one, or remove the key to get the default")
		}
		return
	case *ast.MappingNode:
		if !isScalar(v) && v.Kind() == reflect.Struct {
			d.section(n, v, key)
			return
		} else if v.Kind() == reflect.Map {
			d.mapping(n, v, key)
			return
		}
	case *ast.SequenceNode:
		if v.Kind() == reflect.Slice && !isScalar(v) {
			d.list(n, v, key, option)
			return
		}
	default:
		if isScalar(v) {
			d.scalar(n, v, key, option)
			return
		}
	}
	d.fail(key, d.position(begin(n)), "this must be "+wanted(v))
}

func (d *Decoder) section(n *ast.MappingNode, v reflect.Value, path string) {
	known := keysOf(v, path)
	before := "" // the known key before this one
	for name, pair := range d.pairs(n, path) {
		key := join(path, name)
		i := slices.IndexFunc(known, func(k Key) bool { return k.Path == key })
		if i < 0 {
			d.fail("", d.position(begin(pair.Key)), d.unknown(name, path, before, known))
			continue
		}
		before = key
		d.value(pair.Value, known[i].Value, key, known[i].option)
	}
}

func (d *Decoder) mapping(n *ast.MappingNode, v reflect.Value, path string) {
	v.SetZero() // a mapping in the file replaces the default one
	if len(n.Values) > 0 {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for name, pair := range d.pairs(n, path) {
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if err := setScalar(key, "", scalar{text: name}); err != nil {
			d.fail(join(path, name), d.position(begin(pair.Key)), "of this key, "+err.Error())
			continue
		}
		d.value(pair.Value, element, join(path, name), "")
		v.SetMapIndex(key, element)
	}
}

// pairs yields the keys that can be read. It reports the others, and those that are
// repeated.
func (d *Decoder) pairs(n *ast.MappingNode, path string) iter.Seq2[string, *ast.MappingValueNode] {
	return func(yield func(string, *ast.MappingValueNode) bool) {
		lines := map[string]int{}
		for _, pair := range n.Values {
			at := d.position(begin(pair.Key))
			var name string
			switch key := pair.Key.(type) {
			case *ast.StringNode:
				name = key.Value
			case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
				name = key.GetToken().Value
			default:
				d.fail(path, at, "this is not a plain key; write KEY: VALUE")
				continue
			}
			if line, again := lines[name]; again {
				d.fail("", at, fmt.Sprintf("the key %q is repeated, first in line %d; remove one", join(path, name), line))
			} else {
				lines[name] = at.Line
				d.positions[join(path, name)] = at
			}
			if !yield(name, pair) {
				return
			}
		}
	}
}

func (d *Decoder) list(n *ast.SequenceNode, v reflect.Value, path, option string) {
	v.SetZero()
	v.Grow(len(n.Values))
	v.SetLen(len(n.Values))
	for i, item := range n.Values {
		key := keyerr.Item(path, i)
		d.positions[key] = d.position(begin(item))
		d.value(item, v.Index(i), key, option)
	}
}

func (d *Decoder) scalar(n ast.Node, v reflect.Value, key, option string) {
	at := d.position(begin(n))
	s := scalar{n.GetToken().Value, true}
	switch n := n.(type) {
	case *ast.StringNode:
		s = scalar{n.Value, false}
	case *ast.LiteralNode:
		s = scalar{n.Value.Value, false}
	}
	if strings.Contains(s.text, "${") {
		var err error
		if s.text, err = expand(s.text); err != nil {
			d.fail(key, at, err.Error())
			return
		}
	}
	if err := setScalar(v, option, s); err != nil {
		d.fail(key, at, err.Error())
	} else if option == "path" && s.text != "" && !filepath.IsAbs(s.text) {
		v.SetString(filepath.Join(d.dir, s.text))
	}
}

func wanted(v reflect.Value) string {
	switch {
	case isScalar(v):
		return "a single value"
	case v.Kind() == reflect.Slice:
		return "a list, for example [a, b]"
	}
	return "a mapping (KEY: VALUE)"
}

// A Setting is the value of one key from outside the file, as from a flag of the command line.
type Setting struct {
	Key    string // as in "log.level"
	Value  string
	Source string // its name in faults, as in "--log-level"
}

// Set applies a setting to the struct that target points to, which must have its key. A
// relative path in it stays relative to the working directory, as paths on a command line are.
func (d *Decoder) Set(s Setting, target any) {
	all := allKeysOf(reflect.ValueOf(target).Elem(), "")
	i := slices.IndexFunc(all, func(k Key) bool { return k.Path == s.Key })
	if i < 0 {
		panic("strictyaml: setting for the unknown key " + s.Key)
	}
	d.positions[s.Key] = Position{Source: s.Source}
	if err := setScalar(all[i].Value, all[i].option, scalar{text: s.Value}); err != nil {
		d.fail(s.Key, d.positions[s.Key], err.Error())
	}
}
