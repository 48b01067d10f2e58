package redisclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"robotsproxy/internal/keyerr"
)

// checkTimeout is enough to look up the master, log in and ask, at 300 ms for each round trip.
const checkTimeout = 5 * time.Second

// checkScript tries commands, each argument one of them, on a string, a hash and a sorted set. It
// returns what came of each: "" or an error.
var checkScript = redis.NewScript(`
local outcomes = {}
for i, line in ipairs(ARGV) do
	local command = {}
	for word in string.gmatch(line, '%S+') do
		command[#command + 1] = KEYS[tonumber(string.match(word, '^KEY(%d)$') or 0)] or word
	end
	local reply = redis.pcall(unpack(command))
	outcomes[i] = type(reply) == 'table' and reply.err or ''
end
return outcomes`)

// tried are the commands that the program uses. What they write is gone after a second.
var tried = []string{
	"TIME",
	"SET KEY1 1 PX 1000", "GET KEY1", "EXISTS KEY1", "PTTL KEY1",
	"HSET KEY2 a 1", "PEXPIRE KEY2 1000", "HSETNX KEY2 b 1", "HINCRBY KEY2 a 1", "HGET KEY2 a", "HMGET KEY2 a b", "HGETALL KEY2",
	"HSCAN KEY2 0", "HEXISTS KEY2 a", "HLEN KEY2", "HDEL KEY2 a",
	"ZADD KEY3 GT 1 a", "PEXPIRE KEY3 1000", "ZSCORE KEY3 a", "ZCARD KEY3", "ZRANGE KEY3 0 -1", "ZRANGEBYSCORE KEY3 0 1", "ZRANDMEMBER KEY3 1",
	"ZREM KEY3 b", "ZREMRANGEBYSCORE KEY3 2 3",
	"DEL KEY1",
}

// passing begin the replies of a server that cannot be used now, but may be soon without anyone
// changing the configuration.
var passing = []string{
	"LOADING", "BUSY", "READONLY", "OOM", "MISCONF", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "UNKILLABLE",
	"ERR max number of clients",
}

// Check uses the server as the program does, and says what it refuses. A [keyerr.Error] is about
// what someone has to change: the login, the database, a certificate, the user's rights, or what
// kind of server it is. Any other error means that the server cannot be used now.
func (c *Client) Check(ctx context.Context) error {
	prefix := c.Prefix("") + "check:"
	keys := []string{prefix + "string", prefix + "hash", prefix + "set"}
	args := make([]any, len(tried))
	for i, command := range tried {
		args[i] = command
	}
	var outcomes []string
	err := c.AskAnyway(ctx, checkTimeout, func(ctx context.Context, rdb redis.Cmdable) error {
		if err := checkScript.Eval(ctx, rdb, keys, args...).Err(); err != nil {
			return err
		}
		var err error
		if outcomes, err = checkScript.EvalSha(ctx, rdb, keys, args...).StringSlice(); err != nil || c.address.kind != cluster {
			return err
		}
		return rdb.Command(ctx).Err()
	})
	if err == nil {
		err = c.judge(outcomes)
	}
	return c.explain(err)
}

// judge returns an error if one of the tried commands failed.
func (c *Client) judge(outcomes []string) error {
	var denied []string
	for i, outcome := range outcomes {
		switch {
		case outcome == "":
		case isPassing(outcome):
			return fmt.Errorf("asking the Redis at %s: %s", c.address, outcome)
		default:
			name, _, _ := strings.Cut(tried[i], " ")
			denied = append(denied, name+" ("+outcome+")")
		}
	}
	if denied == nil {
		return nil
	}
	return keyerr.New("redis_url", "the Redis at %s, which must be 6.2 or later, does not run for this user: %s; give the user the rights that docs/deploy.md names",
		c.address, strings.Join(slices.Compact(denied), ", "))
}

func isPassing(reply string) bool {
	return slices.ContainsFunc(passing, func(prefix string) bool { return strings.HasPrefix(reply, prefix) })
}

// hints say what to change after a reply or error with these words.
var hints = []struct{ words, hint string }{
	{"WRONGPASS", "mend the user or the password in it; the login of Sentinels is sentinel_username and sentinel_password"},
	{"NOAUTH", "put a user and a password into it, for example redis://USER:PASSWORD@HOST:6379/0; the login of Sentinels is sentinel_username and sentinel_password"},
	{"unauthenticated", "put a user and a password into it, for example redis://USER:PASSWORD@HOST:6379/0"}, // of a long command
	{"ERR AUTH", "mend the user and the password in it"},
	{"NOPERM", "give its user the rights that docs/deploy.md names"},
	{"DB index", "name a database that the server has"},
	{"DENIED", "put a user and a password into it, and give the server one"},
	{"CROSSSLOT", "the server is a node of a Cluster: begin redis_url with redis+cluster"},
	{"MOVED", "the server is a node of a Cluster: begin redis_url with redis+cluster"},
	{"cluster support disabled", "the server is not part of a Cluster: begin redis_url with redis"},
	{"not allowed in cluster mode", "the server is a node of a Cluster: begin redis_url with redis+cluster"},
	{"unknown command 'sentinel'", "the server is no Sentinel: begin redis_url with redis"},
	{"unknown command", "is it a Redis, 6.2 or later? Of a Sentinel, redis_url begins with redis+sentinel"},
}

// explain makes an error one about a key if it will last.
func (c *Client) explain(err error) error {
	var (
		reply   redis.Error
		verify  *tls.CertificateVerificationError
		noTLS   tls.RecordHeaderError
		network *net.OpError
	)
	switch {
	case err == nil, errors.As(err, new(*keyerr.Error)):
		return err
	case errors.As(err, &verify):
		return keyerr.New("redis_url", "%w; name the roots of its CA by redis_ca_file, and the server as its certificate does", err)
	case errors.As(err, &noTLS):
		return keyerr.New("redis_url", "%w; the server speaks no TLS there: begin redis_url with redis, or name its TLS port", err)
	case errors.As(err, &network) && network.Op == "remote error":
		return keyerr.New("redis_url", "%w; name a certificate that the server trusts by redis_cert and redis_key", err)
	case strings.Contains(err.Error(), "either ServerName or InsecureSkipVerify"): // there is no host
		return keyerr.New("redis_url", "%w; a node of the Cluster does not say where it is: give it a cluster-announce-ip or a cluster-announce-hostname that its certificate names", err)
	case errors.Is(err, redis.Nil):
		return keyerr.New("redis_url", "the Sentinels at %s watch no such master; mend its master_name", c.address)
	case errors.As(err, &reply) && !isPassing(reply.Error()):
		for _, h := range hints {
			if strings.Contains(err.Error(), h.words) {
				return keyerr.New("redis_url", "%w; %s", err, h.hint)
			}
		}
		return keyerr.Wrap("redis_url", err)
	case strings.Contains(err.Error(), "READONLY"):
		return fmt.Errorf("%w; it is a replica: name its master in redis_url, or the Sentinels", err)
	}
	return err
}
