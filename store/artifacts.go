package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// chunkBytes is the size of all chunks of an artifact but the last.
const chunkBytes = 256 << 10

// ErrArtifactTooLarge says that a source gave more than the artifact may hold.
var ErrArtifactTooLarge = errors.New("artifact is too large")

// CreateArtifact stores what r gives, at most maximum bytes, in chunks that
// never stand in memory together. The artifact belongs to the tenant of owner
// and has its trust. It is there before the terminal row that names it; one
// that no row comes to name is swept later. Errors: [ErrArtifactTooLarge], or
// what reading or the database says.
func (s *Store) CreateArtifact(ctx context.Context, owner *pipeline.Invocation, mediaType string, trust tool.Trust, maximum int64, r io.Reader) (tool.ArtifactRef, error) {
	ref := tool.ArtifactRef{ID: tool.NewID(), MediaType: mediaType}
	if ref.MediaType == "" {
		ref.MediaType = "application/octet-stream"
	}
	sum := sha256.New()
	for chunk := 0; ; chunk++ {
		n, last, err := s.writeChunk(ctx, owner.TenantID, ref.ID, chunk, maximum-ref.Bytes, r, sum)
		ref.Bytes += n
		if err != nil {
			return tool.ArtifactRef{}, err
		}
		if last {
			break
		}
	}
	ref.SHA256 = hex.EncodeToString(sum.Sum(nil))
	err := s.inTenant(ctx, owner.TenantID, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO artifacts (tenant_id, id, session_id, run_id, invocation_id, attempt, media_type, trust, bytes, sha256)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			owner.TenantID, uuid(ref.ID), uuid(owner.SessionID), uuid(owner.RunID), uuid(owner.ID), owner.Attempt,
			ref.MediaType, string(trust), ref.Bytes, ref.SHA256)
		return err
	})
	return ref, translate("artifact", err)
}

func (s *Store) writeChunk(ctx context.Context, tenant string, id tool.ID, chunk int, left int64, r io.Reader, sum hash.Hash) (int64, bool, error) {
	buf := make([]byte, chunkBytes)
	n, err := io.ReadFull(r, buf)
	last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !last {
		return 0, false, fmt.Errorf("artifact: %w", err)
	}
	if int64(n) > left {
		return 0, false, ErrArtifactTooLarge
	}
	if n == 0 {
		return 0, true, nil
	}
	sum.Write(buf[:n])
	err = s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO artifact_chunks (tenant_id, artifact_id, chunk, data) VALUES ($1, $2, $3, $4)", tenant, uuid(id), chunk, buf[:n])
		return err
	})
	return int64(n), last, translate("artifact", err)
}

// Artifact gives the chunk of an artifact that holds the given offset; offset
// is a multiple of the chunk size. Errors: [ErrNotFound].
func (s *Store) Artifact(ctx context.Context, tenant string, id tool.ID, offset int64) (ref tool.ArtifactRef, data []byte, err error) {
	ref.ID = id
	err = s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT media_type, bytes, sha256 FROM artifacts WHERE tenant_id = $1 AND id = $2", tenant, uuid(id)).
			Scan(&ref.MediaType, &ref.Bytes, &ref.SHA256)
		if err != nil || offset < 0 || offset >= ref.Bytes {
			return err
		}
		at := offset / chunkBytes
		if err := tx.QueryRow(ctx, "SELECT data FROM artifact_chunks WHERE tenant_id = $1 AND artifact_id = $2 AND chunk = $3", tenant, uuid(id), at).Scan(&data); err != nil {
			return err
		}
		data = data[offset-at*chunkBytes:]
		return nil
	})
	return ref, data, translate("artifact", err)
}
