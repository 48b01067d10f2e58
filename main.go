// Command robotsproxy is a forward proxy that makes any bot obey robots.txt
// without changing the bot.
package main

import (
	"os"

	"robotsproxy/cli"
)

func main() { os.Exit(cli.Main()) }
