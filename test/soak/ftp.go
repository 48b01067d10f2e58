package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ftpAgent is as whom clients ask FTP servers, which are not told.
const ftpAgent = "SoakBot/1.0 (+https://soak.test/bot)"

// serveFTP serves the origin's pages by FTP (RFC 959, RFC 2428), until its listener is closed.
func (o *origin) serveFTP(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go (&ftpConn{Conn: conn, origin: o}).serve()
	}
}

// ftpConn is one control connection.
type ftpConn struct {
	net.Conn
	origin *origin
	data   net.Listener // where the next transfer comes from; nil if it has not been agreed
}

func (c *ftpConn) reply(format string, args ...any) { fmt.Fprintf(c, format+"\r\n", args...) }

func (c *ftpConn) serve() {
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer func() {
		if c.data != nil {
			c.data.Close()
		}
	}()
	c.SetDeadline(time.Now().Add(patience))
	c.reply("220 ready")
	for lines := bufio.NewScanner(c); lines.Scan(); {
		command, argument, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		switch strings.ToUpper(command) {
		case "USER":
			c.reply("331 the password, please")
		case "PASS":
			c.reply("230 welcome")
		case "TYPE":
			c.reply("200 so be it")
		case "PWD":
			c.reply(`257 "/"`)
		case "EPSV":
			c.agree()
		case "RETR":
			if !c.retrieve(ctx, "/"+strings.TrimPrefix(argument, "/")) {
				return
			}
		case "QUIT":
			c.reply("221 farewell")
			return
		default:
			c.reply("502 unknown")
		}
	}
}

// agree says where a transfer will come from.
func (c *ftpConn) agree() {
	if c.data != nil {
		c.data.Close()
	}
	host, _, _ := net.SplitHostPort(c.origin.address)
	var err error
	if c.data, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
		c.reply("425 no port")
		return
	}
	c.reply("229 here (|||%d|)", c.data.Addr().(*net.TCPAddr).Port)
}

// retrieve sends a file. It reports whether the connection goes on.
func (c *ftpConn) retrieve(ctx context.Context, path string) bool {
	if c.data == nil {
		c.reply("425 from where?")
		return true
	}
	if path == "/robots.txt" {
		return c.retrieveRobots(ctx)
	}
	p := c.origin.page(path)
	c.origin.checker.reached(c.origin, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Header: http.Header{"User-Agent": {ftpAgent}}})
	if c.origin.is(burst) {
		c.reply("421 " + burstText)
		return false
	}
	body := io.LimitReader(p.body(), int64(p.length))
	switch p.fault {
	case reset:
		breakOff(c.Conn)
		return false
	case garbled:
		c.reply("what?")
		return false
	case silent:
		io.Copy(io.Discard, c) // until the proxy gives up
		return false
	case cut:
		return c.send(io.LimitReader(p.body(), int64(p.length/2)), false)
	case endless:
		body = &paced{p.body(), ctx, 64 << 10}
	case slow:
		body = &paced{body, ctx, p.length/4 + 1}
	}
	return c.send(body, true)
}

func (c *ftpConn) retrieveRobots(ctx context.Context) bool {
	v, isBurst := c.origin.serving()
	text := strings.NewReader(v.text())
	switch {
	case isBurst:
		c.reply("421 " + burstText)
		return false
	case v.kind == robotsFailing:
		c.reply("450 out of order")
		return true
	case v.kind == robotsMissing, v.kind == robotsCircle:
		c.reply("550 no such file")
		return true
	case v.kind == robotsCut, v.kind == robotsBadChunk:
		return c.send(text, false)
	case v.kind == robotsBinary:
		return c.send(io.LimitReader(content(c.origin.seed, "binary"), 10_000), true)
	case v.kind == robotsLong:
		return c.send(io.MultiReader(text, comments{}), true)
	case v.kind == robotsSlow:
		pause(ctx, time.Second)
	}
	return c.send(text, true)
}

// send makes one transfer, which ends as a whole one or not.
func (c *ftpConn) send(body io.Reader, whole bool) bool {
	c.reply("150 here it comes")
	c.data.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	conn, err := c.data.Accept()
	c.data.Close()
	c.data = nil
	if err != nil {
		c.reply("425 nobody came")
		return true
	}
	_, err = io.Copy(conn, body)
	conn.Close()
	if err != nil || !whole {
		c.reply("426 broken off")
		return true
	}
	c.reply("226 that was all")
	return true
}

// comments are lines of a robots.txt without an end.
type comments struct{}

var comment = strings.Repeat("# and so on\n", 100)

func (comments) Read(p []byte) (int, error) { return copy(p, comment), nil }
