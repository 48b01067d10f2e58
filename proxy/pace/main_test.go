package pace

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	shortWait = 3 * time.Second
	goleak.VerifyTestMain(m)
}
