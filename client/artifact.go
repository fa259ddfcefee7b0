package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// ArtifactReader reads an artifact in chunks of at most 256 KiB, which are
// fetched as they are needed. In the place of io.EOF it gives [ErrCorrupt] when
// the bytes are not those whose length and hash were recorded. It holds nothing
// that has to be released, and serves one goroutine at a time.
type ArtifactReader struct {
	client *Client
	ctx    context.Context //nolint:containedctx // a reader has no other way to get it
	ref    tool.ArtifactRef
	hash   hash.Hash
	chunk  []byte
	offset int64
	last   bool
	err    error
}

// Artifact begins to read an artifact of the client's tenant; ctx bounds the
// reading too. One that does not exist, or is another tenant's, is a
// [*subjects.RPCError] with the code not_found.
func (c *Client) Artifact(ctx context.Context, id tool.ID) (*ArtifactReader, error) {
	r := &ArtifactReader{client: c, ctx: ctx, ref: tool.ArtifactRef{ID: id}, hash: sha256.New()}
	answer, err := r.fetch()
	if err != nil {
		return nil, err
	}
	r.ref = tool.ArtifactRef{ID: id, MediaType: answer.MediaType, Bytes: answer.Bytes, SHA256: answer.SHA256}
	if err := r.accept(answer); err != nil {
		return nil, err
	}
	return r, nil
}

// Ref gives the media type, length and recorded hash of the artifact.
func (r *ArtifactReader) Ref() tool.ArtifactRef { return r.ref }

// Read implements io.Reader.
func (r *ArtifactReader) Read(p []byte) (int, error) {
	for len(r.chunk) == 0 && r.err == nil && len(p) > 0 {
		r.err = r.advance()
	}
	if len(r.chunk) == 0 && len(p) > 0 {
		return 0, r.err
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

// advance gets the next chunk, or gives the reason why there is none.
func (r *ArtifactReader) advance() error {
	if !r.last {
		answer, err := r.fetch()
		if err != nil {
			return err
		}
		return r.accept(answer)
	}
	if r.offset != r.ref.Bytes || hex.EncodeToString(r.hash.Sum(nil)) != r.ref.SHA256 {
		return ErrCorrupt
	}
	return io.EOF
}

func (r *ArtifactReader) fetch() (*subjects.ArtifactsGetResponse, error) {
	var answer subjects.ArtifactsGetResponse
	err := r.client.ask(r.ctx, subjects.VerbArtifactsGet, subjects.ArtifactsGetRequest{ID: r.ref.ID, Offset: r.offset}, &answer)
	return &answer, err
}

// accept takes a chunk that continues the artifact. An empty one that is not the
// last would be asked for for ever.
func (r *ArtifactReader) accept(a *subjects.ArtifactsGetResponse) error {
	switch {
	case a.ID != r.ref.ID || a.Bytes != r.ref.Bytes || a.SHA256 != r.ref.SHA256 || a.Offset != r.offset:
		return fmt.Errorf("%w: the chunk belongs to something else", ErrCorrupt)
	case len(a.Data) == 0 && !a.Last:
		return fmt.Errorf("%w: a chunk is empty", ErrCorrupt)
	}
	r.hash.Write(a.Data)
	r.chunk, r.last = a.Data, a.Last
	r.offset += int64(len(a.Data))
	return nil
}
