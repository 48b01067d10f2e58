package redirect

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// inNewNetwork has the rest of the test work on a network without rules.
func inNewNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.EPERM) {
		t.Skip("only root may make a network namespace: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

func wantInstalled(t *testing.T, want Rules) {
	t.Helper()
	if got, err := Installed(); err != nil || !reflect.DeepEqual(got, Status{Rules: want}) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestRulesAreReplacedAndRemoved(t *testing.T) {
	inNewNetwork(t)
	if s, err := Installed(); !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("at first there is %+v, %v", s, err)
	}
	if err := Remove(); !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("at first, Remove returns %v", err)
	}
	var many []uint32
	for uid := range uint32(1000) {
		many = append(many, 1<<31+uid)
	}
	for _, r := range []Rules{
		{Port: 15001, Except: []uint32{65532}},
		{Port: 443, Except: []uint32{0, 65532, 1<<32 - 2}},
		{Port: 65535, Except: many},
		{Port: 1},
	} {
		r.Except = append(r.Except, r.Except...) // twice is as good as once
		if err := Install(r); err != nil {
			t.Fatal(err)
		}
		r.Except = r.Except[:len(r.Except)/2]
		wantInstalled(t, r)
	}
	if err := Remove(); err != nil {
		t.Fatal(err)
	}
	if s, err := Installed(); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("after Remove there is %+v, %v", s, err)
	}
}

func TestOtherTablesStay(t *testing.T) {
	inNewNetwork(t)
	conn, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, other := range []nftables.Table{
		{Name: "robotsproxy", Family: nftables.TableFamilyIPv4}, {Name: "robotsproxy2", Family: nftables.TableFamilyINet},
	} {
		conn.AddChain(&nftables.Chain{Name: "chain", Table: conn.AddTable(&other)})
		want = append(want, other.Name)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if s, err := Installed(); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("beside other tables there is %+v, %v", s, err)
	}
	for _, step := range []func() error{func() error { return Install(Rules{Port: 1}) }, func() error { return Install(Rules{Port: 2}) }, Remove} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	chains, err := conn.ListChains()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range chains {
		got = append(got, c.Table.Name)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the tables with chains are %v, want %v", got, want)
	}
}

func TestTableOfOthersWithOurName(t *testing.T) {
	inNewNetwork(t)
	conn, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	conn.AddTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if s, err := Installed(); err == nil || errors.Is(err, ErrNotInstalled) {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for cause, next := range map[error]string{
		unix.EPERM:           "run the command as root, or give its container the capability NET_ADMIN",
		unix.EPROTONOSUPPORT: "modprobe",
		unix.ENOENT:          "modprobe",
	} {
		err := newError("installing the redirection", fmt.Errorf("netlink: %w", cause))
		if text := err.Error(); !errors.Is(err, cause) || !strings.HasPrefix(text, "installing the redirection: netlink: ") || !strings.Contains(text, next) {
			t.Errorf("got %q", text)
		}
	}
}

// noCapability has this test program do what TestWithoutCapability is about.
const noCapability = "REDIRECT_TEST_WITHOUT_CAPABILITY"

func TestWithoutCapability(t *testing.T) {
	if os.Getenv(noCapability) != "" {
		_, err := Installed()
		for _, err := range []error{Install(Rules{Port: 1}), Remove(), err} {
			if err == nil || !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
				t.Errorf("got %v", err)
			}
		}
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), noCapability+"=1")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
