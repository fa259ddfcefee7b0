package localpg

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Exec runs SQL as the superuser through psql, one transaction per statement,
// and returns the rows it prints: a line each, columns joined by "|". The first
// error ends it. It is meant for administration, not for speed.
func (c *Cluster) Exec(ctx context.Context, database, sql string) (string, error) {
	cmd := c.command(ctx, c.binaries.path("psql"),
		"--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--file=-")
	// The client runs as the present user, not as the server's account.
	cmd.SysProcAttr = nil
	cmd.Env = append(cmd.Env,
		"PGHOST="+c.socketDir, "PGPORT="+strconv.Itoa(c.port), "PGDATABASE="+database,
		"PGUSER="+Superuser, "PGPASSWORD="+c.password, "PGCONNECT_TIMEOUT=10")
	cmd.Stdin = strings.NewReader(sql)
	out, err := output(cmd)
	if err != nil {
		return "", fmt.Errorf("localpg: psql: %w: %s", err, out)
	}
	return out, nil
}

// output runs the command to its end. It returns what was printed: on failure,
// to standard error.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(stderr.String()), err
	}
	return strings.TrimSpace(stdout.String()), nil
}

// QuoteIdentifier quotes a name for use in SQL.
func QuoteIdentifier(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// QuoteLiteral quotes a string for use in SQL, whatever it holds.
func QuoteLiteral(text string) string {
	text = strings.ReplaceAll(text, `\`, `\\`)
	return ` E'` + strings.ReplaceAll(text, `'`, `''`) + `'`
}
