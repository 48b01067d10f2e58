package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
)

// A page is what an origin serves at a path, and how it misbehaves there. It follows from the
// run's seed, the origin and the path alone, so clients and origins know it without a word to
// each other.
type page struct {
	fault  pageFault
	length int  // of the body, in octets
	framed bool // the length is stated beforehand, rather than sent in chunks
	upload int  // how many octets a client sends with POST
	hash   uint64
}

// A pageFault is how a page misbehaves.
type pageFault string

const (
	faultless   pageFault = "none"
	slow        pageFault = "slow"      // pieces with pauses
	cut         pageFault = "cut"       // the connection ends within the body
	reset       pageFault = "reset"     // the connection ends before a response
	brokenChunk pageFault = "bad chunk" // a chunk whose size is no number; over HTTP/2, cut
	garbled     pageFault = "garbled"   // no HTTP at all; over HTTP/2, reset
	circle      pageFault = "circle"    // a redirect to itself
	failing     pageFault = "failing"   // 500
	endless     pageFault = "endless"   // a body without an end
	silent      pageFault = "silent"    // no response until the proxy gives up
)

// pageFaults are the faults of pages, each with how many of a thousand pages have it.
var pageFaults = []struct {
	fault pageFault
	share int
}{
	{slow, 60}, {cut, 60}, {reset, 40}, {brokenChunk, 40}, {garbled, 30}, {circle, 40}, {failing, 40}, {endless, 20}, {silent, 3},
}

// maxPage bounds the bodies of pages, in octets.
const maxPage = 256 << 10

func hashOf(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, parts...)
	return h.Sum64()
}

func pageOf(seed uint64, origin int, path string) page {
	hash := hashOf(seed, origin, path)
	random := rand.New(rand.NewPCG(hash, 1))
	p := page{fault: faultless, framed: random.IntN(2) == 0, upload: random.IntN(64 << 10), hash: hash}
	for draw, i := random.IntN(1000), 0; i < len(pageFaults); i++ {
		if draw < pageFaults[i].share {
			p.fault = pageFaults[i].fault
			break
		}
		draw -= pageFaults[i].share
	}
	switch random.IntN(10) {
	case 0:
		p.length = 0
	case 1:
		p.length = random.IntN(maxPage)
	default:
		p.length = random.IntN(8 << 10)
	}
	if p.fault != faultless && p.length < 2 {
		p.length = 2 // enough to be cut
	}
	return p
}

// body is the page's content, which goes on without an end.
func (p page) body() io.Reader { return content(p.hash, "body") }

// uploaded is what clients send to the page.
func (p page) uploaded() io.Reader { return content(p.hash, "upload") }

func content(hash uint64, what string) io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], hash)
	copy(key[8:], what)
	return rand.NewChaCha8(key)
}

// status is that of the page's own response.
func (p page) status() int {
	switch p.fault {
	case circle:
		return 302
	case failing:
		return 500
	}
	return 200
}

// A comparison is a writer that notes whether what is written to it is the content of a
// reader, from its beginning.
type comparison struct {
	want    io.Reader
	octets  int
	differs bool
	buffer  []byte
}

func compareWith(want io.Reader) *comparison { return &comparison{want: want} }

func (c *comparison) Write(p []byte) (int, error) {
	if len(c.buffer) < len(p) {
		c.buffer = make([]byte, len(p))
	}
	io.ReadFull(c.want, c.buffer[:len(p)])
	if !bytes.Equal(p, c.buffer[:len(p)]) {
		c.differs = true
	}
	c.octets += len(p)
	return len(p), nil
}
