// Package hazards proves, one test for each, that the ways in which the design
// could break are closed: interleavings are forced with row locks that the test
// holds, answers are lost by a proxy in front of PostgreSQL, and nothing is left
// to chance. docs/design.md tells the hazards; the number in a test's name is the
// one it has there.
package hazards

import (
	"os"
	"testing"

	"github.com/toolbus/toolbus/test/systemtest"
)

func TestMain(m *testing.M) { os.Exit(systemtest.Main(m, nil)) }
