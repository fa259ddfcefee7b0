package builtin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/toolbus/toolbus/tool"
)

const (
	// reservedPrefix begins the names of files that these tools make for themselves:
	// temporary files and edit records. They are never listed and cannot be named.
	reservedPrefix = ".toolbus-"
	// maximumFileBytes bounds any file that a tool reads whole.
	maximumFileBytes = 8 << 20
)

// workspace is the run's directory as these tools use it: every access goes through
// the root, which refuses to follow anything that leads out of it, at the moment of
// use and not before.
type workspace struct {
	tool.Workspace
	opener
}

// opener is what an [*os.Root] has beyond [tool.Workspace], which cannot name it since
// the domain does not know the operating system: opening with flags, so that a named
// pipe does not block and a temporary file is surely a new one.
type opener interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
}

var errNoWorkspace = errors.New("the call has no workspace of the kind that is needed")

func open(exec *tool.Execution) (workspace, error) {
	o, ok := exec.Workspace.(opener)
	if !ok {
		return workspace{}, errNoWorkspace
	}
	return workspace{Workspace: exec.Workspace, opener: o}, nil
}

// problem is a failure on its way up from a helper to the tool.
type problem struct {
	kind   tool.FailureKind
	suffix string
	words  string
}

// Error gives the words.
func (p *problem) Error() string { return p.words }

// settle turns the error of a helper into the result of a tool. Refusals of the
// file system become failures, an ended context and defects stay errors.
func settle(err error) (tool.Result, error) {
	if p, ok := errors.AsType[*problem](err); ok {
		return fail(p.kind, p.suffix, p.words), nil
	}
	if _, ok := errors.AsType[*fs.PathError](err); !ok {
		if _, ok := errors.AsType[*os.LinkError](err); !ok {
			return tool.Result{}, err
		}
	}
	errno, system := errors.AsType[syscall.Errno](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(tool.FailNotFound, "path", "no such file or directory"), nil
	case errors.Is(err, fs.ErrPermission):
		return fail(tool.FailPermission, "path", "the file system does not permit it"), nil
	case !system, errno == syscall.ELOOP, errno == syscall.EXDEV:
		// The root itself refuses what leads out of it.
		return fail(tool.FailPermission, "outside_workspace", "the path leads out of the workspace"), nil
	case errno == syscall.ENOTDIR, errno == syscall.EISDIR, errno == syscall.ENAMETOOLONG, errno == syscall.ENOTEMPTY, errno == syscall.ENXIO:
		return fail(tool.FailInvalidArguments, "path", "the path is of the wrong kind"), nil
	case errno == syscall.ENOSPC, errno == syscall.EDQUOT, errno == syscall.EFBIG:
		return fail(tool.FailInternal, "no_space", "no space is left for the file"), nil
	}
	return tool.Result{}, err
}

var (
	errArguments = &problem{tool.FailInvalidArguments, "", "arguments do not decode"}
	errPath      = &problem{tool.FailInvalidArguments, "path", "a path is relative, uses slashes and has no .. in it"}
	errKind      = &problem{tool.FailInvalidArguments, "not_a_file", "not a regular file"}
	errBinary    = &problem{tool.FailInvalidArguments, "not_text", "the file is not UTF-8 text; export it as an artifact instead"}
	errBig       = &problem{tool.FailOutputTooLarge, "file", "the file is larger than this tool handles"}
)

// clean checks a path of the model and gives its one spelling; "." is the workspace.
func clean(name string) (string, error) {
	if name == "" || len(name) > 1024 || path.IsAbs(name) || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\\") {
		return "", errPath
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." || reserved(element) {
			return "", errPath
		}
	}
	return path.Clean(name), nil
}

func reserved(base string) bool { return strings.HasPrefix(base, reservedPrefix) }

// reading opens a regular file.
func (w workspace) reading(name string) (*os.File, fs.FileInfo, error) {
	f, err := w.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errKind
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// text reads a whole text file.
func (w workspace) text(name string) (string, error) {
	f, _, err := w.reading(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maximumFileBytes+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maximumFileBytes:
		return "", errBig
	case !isText(b):
		return "", errBinary
	}
	return string(b), nil
}

// isText reports whether b can be shown as text.
func isText(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// replace writes a file so that a reader sees the old content or the new and never a
// part: into a new file beside it, which then takes its name. What was executable
// stays so.
func (w workspace) replace(ctx context.Context, exec *tool.Execution, name string, data []byte) error {
	perm := fs.FileMode(0o644)
	switch info, err := w.Lstat(name); {
	case err == nil && !info.Mode().IsRegular():
		return errKind
	case err == nil:
		perm = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := boundary(ctx, exec); err != nil {
		return err
	}
	dir := path.Dir(name)
	if dir != "." {
		if err := w.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	temporary := path.Join(dir, temporaryName())
	if err := w.create(temporary, data, perm); err != nil {
		_ = w.Remove(temporary)
		return err
	}
	if err := w.Rename(temporary, name); err != nil {
		_ = w.Remove(temporary)
		return err
	}
	return nil
}

// create makes a file that did not exist, complete on disk when it returns.
func (w workspace) create(name string, data []byte, perm fs.FileMode) error {
	f, err := w.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func temporaryName() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails
	return reservedPrefix + hex.EncodeToString(b[:]) + ".tmp"
}

// entries reads a directory in name order, without what these tools made for
// themselves. A directory beyond the bound is an error rather than a random part.
func (w workspace) entries(name string) ([]fs.DirEntry, error) {
	f, err := w.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	const bound = 20_000
	list, err := f.ReadDir(bound + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(list) > bound {
		return nil, &problem{tool.FailOutputTooLarge, "directory", "a directory has more entries than this tool handles"}
	}
	return sortEntries(list), nil
}

// walk visits everything below dir in path order, directories before their content,
// symbolic links unfollowed, to the given depth (1 is the entries of dir itself).
// visit returns [fs.SkipAll] to end the walk.
func (w workspace) walk(ctx context.Context, dir string, depth int, visit func(name string, entry fs.DirEntry) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("walk the workspace: %w", err)
	}
	list, err := w.entries(dir)
	if err != nil {
		return err
	}
	for _, entry := range list {
		name := path.Join(dir, entry.Name())
		if err := visit(name, entry); err != nil {
			return err
		}
		if !entry.IsDir() || depth <= 1 {
			continue
		}
		if err := w.walk(ctx, name, depth-1, visit); err != nil && !vanished(err) {
			return err
		}
	}
	return nil
}

// vanished reports whether a directory ceased to be one while it was being walked.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
