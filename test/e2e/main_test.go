package e2e

import (
	"os"
	"testing"

	"github.com/toolbus/toolbus/internal/localpg/testcluster"
)

func TestMain(m *testing.M) { os.Exit(testcluster.Main(m)) }
