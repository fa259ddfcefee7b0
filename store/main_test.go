package store_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/internal/localpg/testcluster"
)

func TestMain(m *testing.M) {
	code := testcluster.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
