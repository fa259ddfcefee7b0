package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/internal/localpg"
	"github.com/toolbus/toolbus/internal/sandbox"
	"github.com/toolbus/toolbus/internal/ui"
)

// doctorCommand looks and changes nothing.
type doctorCommand struct {
	place
	JSON bool `name:"json" help:"Print JSON."`
}

const (
	inspectTimeout = 10 * time.Second
	// maximumSkew is how far clocks may differ: leases do not depend on it, but
	// deadlines and what people read do.
	maximumSkew = 2 * time.Second
	minimumDisk = 1 << 30
)

// finding is one thing that was looked at.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	// Detail says what was found, Mend what to do about it.
	Detail string `json:"detail"`
	Mend   string `json:"mend"`
}

// Run looks at everything and lists it.
func (c *doctorCommand) Run(ctx context.Context, p *process) error {
	o, err := c.find(ctx, p)
	found := []finding{c.located(err)}
	var use *useError
	if errors.As(err, &use) {
		return err
	}
	if err == nil {
		found = append(found, c.engines(ctx, o)...)
	}
	dir, err := p.dataDir(c.Data)
	if err != nil {
		return err
	}
	found = append(found, binaries(ctx, o), confinement(ctx, o), disk(dir))
	if c.JSON {
		err = p.json(found)
	} else {
		p.printFindings(found)
	}
	for _, f := range found {
		if !f.OK {
			return errors.Join(err, errFound)
		}
	}
	return err
}

func (c *doctorCommand) located(err error) finding {
	f := finding{Check: "system", OK: err == nil, Detail: "engines are known"}
	if err != nil {
		f.Detail, f.Mend = err.Error(), startAdvice
	}
	return f
}

func (c *doctorCommand) engines(ctx context.Context, o app.Options) []finding {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	i := app.Inspect(ctx, o)
	return append(databaseFindings(&i), busFindings(&i)...)
}

func databaseFindings(i *app.Inspection) []finding {
	db := &i.Database
	if i.DatabaseErr != nil {
		return []finding{{Check: "postgresql", Detail: i.DatabaseErr.Error(), Mend: "check TOOLBUS_DATABASE_URL, and that the server runs"}}
	}
	roles := finding{Check: "roles", OK: len(db.MissingRoles) == 0, Detail: db.User + " acts as toolbus_service and toolbus_sweeper"}
	if !roles.OK {
		roles.Detail = db.User + " may not act as " + strings.Join(db.MissingRoles, ", ")
		roles.Mend = "toolbus migrate, then as the owner: GRANT toolbus_service, toolbus_sweeper TO " + localpg.QuoteIdentifier(db.User)
	}
	schema := finding{Check: "schema", OK: db.Schema == db.Want, Detail: fmt.Sprintf("version %d", db.Schema)}
	switch {
	case db.Schema < db.Want:
		schema.Detail, schema.Mend = fmt.Sprintf("version %d, this build wants %d", db.Schema, db.Want), "toolbus migrate"
	case db.Schema > db.Want:
		schema.Detail, schema.Mend = fmt.Sprintf("version %d, this build knows %d", db.Schema, db.Want), "install a newer toolbus"
	}
	clocks := finding{Check: "clocks", OK: db.Skew.Abs() <= maximumSkew+db.RoundTrip, Detail: "the database is ahead by " + ui.Duration(db.Skew)}
	if !clocks.OK {
		clocks.Mend = "synchronise both machines: timedatectl set-ntp true"
	}
	return []finding{{Check: "postgresql", OK: true, Detail: db.ServerVersion + ", answers in " + ui.Duration(db.RoundTrip)}, roles, schema, clocks}
}

func busFindings(i *app.Inspection) []finding {
	if i.NATSErr != nil {
		return []finding{{Check: "nats", Detail: i.NATSErr.Error(), Mend: "check TOOLBUS_NATS_URL with its user and password, and that the server runs"}}
	}
	streams := finding{Check: "streams", OK: i.StreamsErr == nil, Detail: "streams and consumers are as declared"}
	if i.StreamsErr != nil {
		streams.Detail, streams.Mend = i.StreamsErr.Error(), "toolbus migrate"
	}
	return []finding{{Check: "nats", OK: true, Detail: i.NATSVersion}, streams}
}

// binaries looks for what `toolbus dev` needs to run a database of its own.
func binaries(ctx context.Context, o app.Options) finding {
	b, err := localpg.Find(ctx)
	if err == nil {
		return finding{Check: "postgresql binaries", OK: true, Detail: fmt.Sprintf("release %d in %s", b.Major, b.Dir)}
	}
	if o.Config.Database.URL.Reveal() != "" {
		return finding{Check: "postgresql binaries", OK: true, Detail: "none, and none needed: the configuration names a database"}
	}
	return finding{Check: "postgresql binaries", Detail: err.Error(), Mend: localpg.InstallCommand()}
}

// confinement tries the sandbox: a bubblewrap that is installed need not be
// permitted.
func confinement(ctx context.Context, o app.Options) finding {
	err := sandbox.New(sandbox.Config{}).Confinement(ctx)
	f := finding{Check: "sandbox", OK: err == nil, Detail: "bubblewrap confines commands"}
	switch {
	case err == nil && os.Geteuid() == 0:
		f.Detail += "; as root sandbox.processes does not bind, run as another user where that matters"
	case err == nil:
	case o.Config.Sandbox.AllowUnconfined:
		f.OK, f.Detail = true, "commands run unconfined, as sandbox.allow_unconfined says"
	case runtime.GOOS != "linux":
		f.OK, f.Detail = true, "none on this system: sandbox.run_command is refused"
	default:
		f.Detail, f.Mend = err.Error(), "install bubblewrap (make setup), and permit user namespaces: sysctl kernel.unprivileged_userns_clone=1"
	}
	return f
}

func disk(dir string) finding {
	f := finding{Check: "disk"}
	there := dir
	for {
		_, err := os.Stat(there)
		if !errors.Is(err, fs.ErrNotExist) || there == filepath.Dir(there) {
			break
		}
		there = filepath.Dir(there)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(there, &s); err != nil {
		f.Detail, f.Mend = err.Error(), "name another data directory with --data DIR"
		return f
	}
	free := s.Bavail * uint64(s.Bsize) //nolint:gosec // a block size is positive; its type differs by system
	f.OK, f.Detail = free >= minimumDisk, fmt.Sprintf("%.1f GiB free for %s", float64(free)/(1<<30), dir)
	if !f.OK {
		f.Mend = "free some space: below 1 GiB PostgreSQL and NATS may stop"
	}
	return f
}

func (p *process) printFindings(found []finding) {
	problems := 0
	for _, f := range found {
		mark := p.out.Paint(ui.Green, "✓")
		if !f.OK {
			problems++
			mark = p.out.Paint(ui.Red, "✗")
		}
		p.out.Printf("%s %s  %s\n", mark, ui.Pad(f.Check, 19), ui.Escape(f.Detail))
		if f.Mend != "" {
			p.out.Printf("  %s  %s\n", ui.Pad("", 19), p.out.Paint(ui.Cyan, "mend: "+f.Mend))
		}
	}
	switch problems {
	case 0:
		p.out.Printf("\n%s\n", p.out.Paint(ui.Green, "nothing is wrong"))
	case 1:
		p.out.Printf("\n%s\n", p.out.Paint(ui.Red, "1 problem"))
	default:
		p.out.Printf("\n%s\n", p.out.Paint(ui.Red, fmt.Sprintf("%d problems", problems)))
	}
}
