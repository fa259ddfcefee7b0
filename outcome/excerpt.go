package outcome

import (
	"slices"
	"strconv"

	"github.com/toolbus/toolbus/tool"
)

// The shares of a budget that an excerpt spends on its two ends, in percent
// (specification, "Output: limits, truncation, and artifacts").
const (
	headShare = 60
	tailShare = 20
)

// marker is the line that stands for what was left out.
func marker(elided int, ref *tool.ArtifactRef) string {
	line := "[... " + groupDigits(elided) + " bytes elided"
	if ref != nil {
		line += "; full output: artifact:" + ref.ID.String()
	}
	return line + " ...]"
}

// groupDigits spells n with a comma between groups of three.
func groupDigits(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rawSize is the size of a part before encoding: the bytes of its text.
func rawSize(parts []tool.Part) int {
	n := 0
	for _, p := range parts {
		if isArtifact(p) {
			n += partCost(p)
		} else {
			n += len(p.Text)
		}
	}
	return n
}

// excerpt is the two ends of content that is too large for a budget.
type excerpt struct {
	// head and tail are in order; the last of head may be a prefix of its part,
	// the first of tail a suffix.
	head, tail []tool.Part
	// headCut and tailCut say that these two are cut; samePart that they were
	// cut from one part.
	headCut, tailCut, samePart bool
	elided                     int
	ref                        *tool.ArtifactRef
}

// spare is what the marker and the file reference leave of a budget, negative
// when they do not fit at all.
func spare(parts []tool.Part, budget int, ref *tool.ArtifactRef) int {
	const newlines = len(`\n\n`)
	spent := len("[]") + textOverhead + newlines + len(marker(rawSize(parts), ref))
	if ref != nil {
		spent += len(",") + partCost(tool.ArtifactPart(*ref))
	}
	return budget - spent
}

// cut takes the two ends of parts so that what [excerpt.render] makes of them,
// envelopes excluded, has a compact JSON of at most budget bytes. parts must
// cost more than budget. ok is false when not even the marker and the reference
// fit.
func cut(parts []tool.Part, budget int, ref *tool.ArtifactRef) (e excerpt, ok bool) {
	room := spare(parts, budget, ref)
	if room < 0 {
		return excerpt{}, false
	}
	headRoom := min(budget*headShare/100, room*headShare/(headShare+tailShare))
	tailRoom := min(budget*tailShare/100, room-headRoom)

	n, prefix := takeHead(parts, headRoom)
	e = excerpt{head: slices.Clone(parts[:n]), ref: ref}
	rest := slices.Clone(parts[n:])
	if prefix != "" {
		e.head, e.headCut = append(e.head, tool.Text(prefix)), true
		rest[0] = tool.Text(rest[0].Text[len(prefix):])
	}
	m, suffix := takeTail(rest, tailRoom)
	if suffix != "" {
		e.tail, e.tailCut = append(e.tail, tool.Text(suffix)), true
		e.samePart = e.headCut && m == 1
	}
	e.tail = append(e.tail, rest[m:]...)
	e.elided = rawSize(parts) - rawSize(e.head) - rawSize(e.tail)
	return e, true
}

// takeHead gives the number of leading parts that fit whole, and the prefix of
// the next that still fits.
func takeHead(parts []tool.Part, room int) (whole int, prefix string) {
	for i, p := range parts {
		if cost := partCost(p) + len(","); cost <= room {
			room -= cost
			continue
		}
		if isArtifact(p) {
			return i, ""
		}
		return i, prefixWithin(p.Text, room-textOverhead-len(","))
	}
	return len(parts), ""
}

// takeTail gives the index from which trailing parts fit whole, and the suffix
// of the part before it that still fits.
func takeTail(parts []tool.Part, room int) (from int, suffix string) {
	for i, p := range slices.Backward(parts) {
		if cost := partCost(p) + len(","); cost <= room {
			room -= cost
			continue
		}
		if isArtifact(p) {
			return i + 1, ""
		}
		return i + 1, suffixWithin(p.Text, room-textOverhead-len(","))
	}
	return 0, ""
}

// render puts the marker between the ends, on a line of its own and outside
// every envelope, and the file reference behind them. wrap frames one text.
func (e excerpt) render(wrap func(string) (string, error)) ([]tool.Part, error) {
	head, err := wrapTexts(e.head, wrap)
	if err != nil {
		return nil, err
	}
	tail, err := wrapTexts(e.tail, wrap)
	if err != nil {
		return nil, err
	}
	line := marker(e.elided, e.ref)
	if e.headCut {
		line = head[len(head)-1].Text + "\n" + line
		head = head[:len(head)-1]
	}
	if e.samePart {
		line += "\n" + tail[0].Text
		tail = tail[1:]
	}
	parts := append(append(head, tool.Text(line)), tail...)
	if e.ref != nil {
		parts = append(parts, tool.ArtifactPart(*e.ref))
	}
	return parts, nil
}

// wrapTexts frames the text parts and passes the others.
func wrapTexts(parts []tool.Part, wrap func(string) (string, error)) ([]tool.Part, error) {
	out := make([]tool.Part, 0, len(parts)+2)
	for _, p := range parts {
		if !isArtifact(p) {
			text, err := wrap(p.Text)
			if err != nil {
				return nil, err
			}
			p = tool.Text(text)
		}
		out = append(out, p)
	}
	return out, nil
}

// bare is the frame of text that needs none.
func bare(text string) (string, error) { return text, nil }

// clip keeps at most limit bytes of text, the last one cut at a character
// boundary, and every reference: a reference is not what the hard ceiling bounds.
// It reports whether it cut anything.
func clip(parts []tool.Part, limit int) (kept []tool.Part, clipped bool) {
	for _, p := range parts {
		switch {
		case isArtifact(p), len(p.Text) <= limit:
			limit -= len(p.Text)
			kept = append(kept, p)
		default:
			if text := validPrefix(p.Text, limit); text != "" {
				kept = append(kept, tool.Text(text))
			}
			limit, clipped = 0, true
		}
	}
	return kept, clipped
}
