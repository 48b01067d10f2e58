// Package bench compares package robots with github.com/temoto/robotstxt. Run it from the
// project's folder:
//
//	go -C test test -bench . -count 6 ./bench | go tool benchstat -col /engine -
package bench

import (
	"testing"

	"github.com/temoto/robotstxt"

	"robotsproxy/robots"
)

const agent = "ExampleBot"

func BenchmarkParse(b *testing.B) {
	for _, l := range loads() {
		b.Run("file="+l.name+"/engine=robotsproxy", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(l.body)))
			for b.Loop() {
				robots.Parse(l.body)
			}
		})
		b.Run("file="+l.name+"/engine=temoto", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(l.body)))
			for b.Loop() {
				if _, err := robotstxt.FromBytes(l.body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMatch measures a verdict: find the group and match a path.
func BenchmarkMatch(b *testing.B) {
	for _, l := range loads() {
		b.Run("file="+l.name+"/engine=robotsproxy", func(b *testing.B) {
			file := robots.Parse(l.body)
			tokens := []string{agent}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				group, _ := file.Group(tokens)
				group.Match(l.paths[i%len(l.paths)])
			}
		})
		b.Run("file="+l.name+"/engine=temoto", func(b *testing.B) {
			file, err := robotstxt.FromBytes(l.body)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				file.FindGroup(agent).Test(l.paths[i%len(l.paths)])
			}
		})
	}
}
