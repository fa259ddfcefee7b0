package gates

import (
	"os"
	"testing"

	"github.com/toolbus/toolbus/test/systemtest"
)

// kits are what child processes of the gates run with, by name.
var kits = systemtest.Kits{
	"order": orderKit,
	"stale": staleKit,
}

func TestMain(m *testing.M) { os.Exit(systemtest.Main(m, kits)) }
