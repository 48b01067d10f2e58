// Command soak proves that robotsproxy holds. For minutes or hours, clients of every door ask
// a hundred origins for pages, while origins and clients misbehave, and while the proxies are
// killed, reloaded, and deprived of their Redis and their disk. It checks each response, each
// request that reaches an origin, and that the proxies take no more and more of the machine.
// Run it from the project's folder:
//
//	make soak                  # five minutes
//	make soak FOR=1h SEED=17
//
// As root, it makes a network and mounts of its own, which end with it. All traffic is local.
//
// Start reading at [judge], which says what a client may get, and at [faults].
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	if os.Getenv(errandVariable) != "" {
		if err := runErrands(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
			os.Exit(1)
		}
		return
	}
	code, entered := enterNetwork()
	if !entered {
		code = run(os.Args[1:])
	}
	os.Exit(code)
}

// run runs a soak as args ask for it, and returns the exit code: 0 if all holds, 1 if something
// is broken, 2 if the soak could not be run.
func run(args []string) (code int) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	program := flags.String("robotsproxy", "../robotsproxy", "the built program")
	length := flags.Duration("for", 5*time.Minute, "how long clients and faults go on")
	seed := flags.Uint64("seed", 0, "what chance follows; 0 means a new one")
	clients := flags.Int("clients", 24, "how many clients ask at once")
	origins := flags.Int("origins", 100, "how many origins there are, at most 200")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	file, err := filepath.Abs(*program)
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "soak: %v; build it first, or name it with -robotsproxy\n", err)
		return 2
	}
	for *seed == 0 {
		*seed = rand.Uint64N(1_000_000)
	}
	fmt.Printf("seed %d\n", *seed)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &soak{program: file, length: *length, seed: *seed, clients: *clients, sites: *origins}
	if err := s.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	s.report(os.Stdout)
	if len(s.checker.broken) > 0 {
		return 1
	}
	return 0
}
