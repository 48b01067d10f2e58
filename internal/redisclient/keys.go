package redisclient

import (
	"hash/crc32"
	"strconv"
)

// parts is into how many parts a Cluster's keys are divided.
const parts = 64

// Prefix returns what the keys begin with that hold something of an origin; "" stands for what is
// of no origin. Keys with one prefix may be used by one script or transaction.
//
// In a Cluster each prefix has a hash tag, by which Redis keeps its keys on one node. A single
// server has one prefix for all, so that a text that many origins serve is kept once.
func (c *Client) Prefix(origin string) string {
	return c.prefix(crc32.ChecksumIEEE([]byte(origin)) % parts)
}

// Prefixes returns every prefix that [Client.Prefix] returns.
func (c *Client) Prefixes() []string {
	if c.address.kind != cluster {
		return []string{c.prefix(0)}
	}
	all := make([]string, parts)
	for i := range all {
		all[i] = c.prefix(uint32(i))
	}
	return all
}

func (c *Client) prefix(part uint32) string {
	if c.address.kind != cluster {
		return "robotsproxy:"
	}
	return "robotsproxy:{" + strconv.FormatUint(uint64(part), 10) + "}:"
}
