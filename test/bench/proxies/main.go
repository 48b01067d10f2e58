// Command proxies compares robotsproxy with the proxies that a user might choose instead. It
// starts an origin and the proxies, each in a process of its own, and generates the load
// itself. It reads each proxy's own CPU time from the kernel. All traffic is on loopback. Run
// it from the project's folder:
//
//	make bench                # everything, in some twenty minutes
//	make bench QUICK=1        # fewer and shorter rounds, in three minutes
//	make bench BENCH="-cases 'HTTP,' -proxies 'robotsproxy|squid'"
//	make bench-idle           # what robotsproxy needs for 10,000 idle connections of each kind
//	make bench-sealed         # what a sealed command costs
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	raiseFileLimit()
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := roles[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "proxies:", err)
		stop()
		os.Exit(1)
	}
}

// roles are the processes for which this program starts itself, by their first argument.
var roles = map[string]func(args []string) error{
	"origin":       serveOrigin,
	"goproxy":      serveGoproxy,
	"reverseproxy": serveReverseProxy,
	"sealed":       measureSealed,
}

// scale says how much is measured.
type scale struct {
	rounds   int    // many short ones, so that a disturbance of seconds affects all proxies alike
	each     budget // of a proxy in a round
	origins  int    // in a round
	throng   int    // requests of 1,024 clients in a round
	idle     []int  // numbers of idle tunnels, the largest last, which is also that of idle connections of each kind
	download int64  // in octets
}

var (
	full  = scale{rounds: 9, each: budget{length: time.Second}, origins: 5_000, throng: 30_000, idle: []int{1_000, 10_000}, download: 300 << 20}
	quick = scale{rounds: 5, each: budget{length: 350 * time.Millisecond}, origins: 1_000, throng: 8_000, idle: []int{1_000}, download: 300 << 20}
	smoke = scale{rounds: 1, each: budget{requests: 50}, origins: 50, throng: 50, idle: []int{40}, download: 1 << 20}
)

// run measures what args ask for. It writes the tables to out.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("proxies", flag.ContinueOnError)
	flags.SetOutput(progress)
	program := flags.String("robotsproxy", "../robotsproxy", "the built program")
	builds := map[string]string{}
	flags.Func("also", "`NAME=FILE`: another build of robotsproxy to measure in the same rounds; may be repeated", func(value string) error {
		name, file, found := strings.Cut(value, "=")
		if !found {
			return errors.New("write NAME=FILE")
		}
		builds[name] = file
		return nil
	})
	size := flags.String("scale", "full", "how much to measure: full, quick or smoke")
	onlyCases := flags.String("cases", "", "measure only the cases whose name matches this regular expression")
	onlyProxies := flags.String("proxies", "", "measure only the proxies whose name matches this regular expression")
	if err := flags.Parse(args); err != nil {
		return err
	}
	scale, known := map[string]scale{"full": full, "quick": quick, "smoke": smoke}[*size]
	if !known {
		return fmt.Errorf("-scale %q is not full, quick or smoke", *size)
	}
	cases, err := regexp.Compile(*onlyCases)
	if err != nil {
		return fmt.Errorf("-cases: %w", err)
	}
	proxies, err := regexp.Compile(*onlyProxies)
	if err != nil {
		return fmt.Errorf("-proxies: %w", err)
	}
	for _, file := range append(slices.Collect(maps.Values(builds)), *program) {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("%w; build it first, or name it with -robotsproxy", err)
		}
	}
	s, err := newSite()
	if err != nil {
		return err
	}
	defer s.close()
	b := &bench{site: s, kinds: kinds(*program, builds), holder: holder(*program), program: *program, scale: scale, cases: cases, progress: progress, results: results{}}
	if err := b.measure(ctx, proxies); err != nil {
		return err
	}
	b.report(out)
	return nil
}

// raiseFileLimit raises the limit on open files, as far as permitted, to what ten thousand
// tunnels with two ends each need. Child processes inherit it.
func raiseFileLimit() {
	const files = 65536
	limit := unix.Rlimit{Cur: files, Max: files}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) != nil && unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
}
