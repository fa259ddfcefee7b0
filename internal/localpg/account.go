package localpg

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who runs the server. The zero value is the present user.
type account struct {
	name       string
	credential *syscall.Credential
}

// serverAccount picks the account: the present user, unless that is root.
func serverAccount(wanted string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	names := []string{"postgres", "nobody"}
	if wanted != "" {
		names = []string{wanted}
	}
	var errs []error
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return account{}, fmt.Errorf("localpg: account %s: %w", name, err)
		}
		if uid == 0 {
			return account{}, fmt.Errorf("localpg: account %s is root, as which PostgreSQL refuses to run", name)
		}
		return account{name: name, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, fmt.Errorf("localpg: no account to run PostgreSQL as: %w", errors.Join(errs...))
}

// own hands path to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	if err := os.Chown(path, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
		return fmt.Errorf("localpg: give %s to %s: %w", path, a.name, err)
	}
	return nil
}

// reaches checks that the account may enter dir and every parent of it, so
// that the reason is said where initdb would only say "permission denied".
func (a account) reaches(dir string) error {
	if a.credential == nil {
		return nil
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("localpg: %w", err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("localpg: %s: no owner is known", dir)
		}
		mode := info.Mode().Perm()
		enters := mode&0o001 != 0
		switch {
		case stat.Uid == a.credential.Uid:
			enters = mode&0o100 != 0
		case stat.Gid == a.credential.Gid:
			enters = mode&0o010 != 0
		}
		if !enters {
			return fmt.Errorf("localpg: %s is closed to the account %s, as which PostgreSQL runs for root: open it (chmod o+x) or choose another directory", dir, a.name)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// privateDir makes dir if need be and checks that it belongs to the account
// and is closed to others.
func (a account) privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil {
		return a.own(dir)
	} else if !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("localpg: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	owner := uint32(os.Geteuid()) //nolint:gosec // a user id fits
	if a.credential != nil {
		owner = a.credential.Uid
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || stat.Uid != owner || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("localpg: %s is not a directory of mode 0700 owned by user id %d: remove it", dir, owner)
	}
	return nil
}
