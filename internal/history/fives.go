package history

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// maxBoots bounds the boots of one host in one hour. A node that makes up more loses them.
const maxBoots = 8

// A bootFives is the fives of one boot of a host in one hour.
type bootFives struct {
	boot uint64
	// whole says that its finished hour came: until then, samples may come that it lacks.
	whole bool
	*frame
}

// encodeBoots writes the fives of an hour: for each boot its number, 1 for a whole hour, and the length of its frame
// before the frame.
func encodeBoots(boots []bootFives) []byte {
	var b []byte
	for i := range boots {
		body := boots[i].encode()
		b = binary.LittleEndian.AppendUint64(b, boots[i].boot)
		b = append(b, 0)
		if boots[i].whole {
			b[len(b)-1] = 1
		}
		b = binary.AppendUvarint(b, uint64(len(body)))
		b = append(b, body...)
	}
	return b
}

func decodeBoots(data []byte, want wanted, pool *columnPool) (boots []bootFives, err error) {
	r := &reader{b: data}
	for len(r.b) > 0 && r.err == nil && len(boots) < maxBoots {
		var boot uint64
		if b := r.bytes(8); b != nil {
			boot = binary.LittleEndian.Uint64(b)
		}
		whole := r.byte() == 1
		body := r.bytes(r.uvarint())
		if r.err != nil {
			break
		}
		f, err := decodeFrame(body, fivesAnHour, want, pool)
		if err != nil {
			return nil, err
		}
		boots = append(boots, bootFives{boot, whole, f})
	}
	return boots, r.end()
}

// putBoot puts consecutive fives of a boot in place of what is known of them, where they come
// from more samples. A whole hour also replaces fives of as many samples: it knows those before and after them.
func putBoot(boots []bootFives, boot uint64, slot int, fives []bucket, whole bool) []bootFives {
	i, found := slices.BinarySearchFunc(boots, boot, func(b bootFives, boot uint64) int {
		return cmp.Compare(b.boot, boot)
	})
	if !found {
		if len(boots) >= maxBoots {
			return boots
		}
		boots = slices.Insert(boots, i, bootFives{boot, false, &frame{slots: fivesAnHour}})
	}
	f, final := boots[i].frame, boots[i].whole
	boots[i].whole = final || whole
	for k := range fives {
		b := &fives[k]
		samples, known := f.host(hSamples, slot+k), f.host(hCover, slot+k)
		more := b.v[hSamples] > samples || b.v[hSamples] == samples && (whole || !final && known == 0)
		if more && (!b.nothing() || known > 0) {
			f.put(slot+k, fives[k:k+1])
		}
	}
	return boots
}

// together adds the boots of an hour up. Boots that overlap in a five, as of two machines that send as one host,
// are not added there: the one of which most is known stands for both.
func together(boots []bootFives) *frame {
	if len(boots) == 1 {
		return boots[0].frame
	}
	sum := &frame{slots: fivesAnHour}
	for slot := range fivesAnHour {
		slices.SortStableFunc(boots, func(a, b bootFives) int {
			return cmp.Compare(b.host(hCover, slot), a.host(hCover, slot))
		})
		known := int64(0)
		for _, b := range boots {
			if known += b.host(hCover, slot); known > fiveMinutes/1000+1 {
				break
			}
			sum.addSlot(slot, b.frame, slot)
		}
	}
	return sum
}

// writeFives keeps consecutive fives of a boot, the first numbered lo since 1970, and the sums of their hours.
func (s *Store) writeFives(
	ctx context.Context, tx *sql.Tx, h *host, boot uint64, lo int64, fives []bucket, whole bool,
) error {
	for len(fives) > 0 {
		hour := floorDiv(lo, fivesAnHour)
		slot := int(lo - hour*fivesAnHour)
		n := min(len(fives), fivesAnHour-slot)
		if hour >= s.pruned {
			if err := s.writeHour(ctx, tx, h, boot, hour, slot, fives[:n], whole); err != nil {
				return fmt.Errorf("writing an hour of %s: %w", h.name, err)
			}
		}
		lo, fives = lo+int64(n), fives[n:]
	}
	return nil
}

func (s *Store) writeHour(
	ctx context.Context, tx *sql.Tx, h *host, boot uint64, hour int64, slot int, fives []bucket, whole bool,
) error {
	before, err := s.blob(ctx, tx, "select data from hour where id=?", blobID(hour, h.id))
	if err != nil {
		return err
	}
	boots, err := decodeBoots(before, nil, nil)
	if err != nil {
		s.badBlobs++
		boots = nil
	}
	boots = putBoot(boots, boot, slot, fives, whole)
	after := encodeBoots(boots)
	if bytes.Equal(before, after) {
		return nil
	}
	h.week, s.wrote = nil, true
	_, err = tx.ExecContext(ctx, "insert or replace into hour(id,data) values(?,?)",
		blobID(hour, h.id), s.pack(after))
	if err != nil {
		return err
	}
	day := floorDiv(hour, 24)
	hours, err := s.blob(ctx, tx, "select hours from day where id=?", blobID(day, h.id))
	if err != nil {
		return err
	}
	f := &frame{slots: 24}
	if hours != nil {
		if f, err = decodeFrame(hours, 24, nil, nil); err != nil {
			s.badBlobs++
			f = &frame{slots: 24}
		}
	}
	at := int(hour - day*24)
	f.clear(at, at+1)
	f.addSlot(at, together(boots).fold(fivesAnHour), 0)
	_, err = tx.ExecContext(ctx, "insert or replace into day(id,total,hours) values(?,?,?)",
		blobID(day, h.id), s.pack(f.fold(24).encode()), s.pack(f.encode()))
	return err
}

// blob reads a record; nil where there is none, or a damaged one.
func (s *Store) blob(ctx context.Context, q querier, query string, args ...any) ([]byte, error) {
	var packed []byte
	err := q.QueryRowContext(ctx, query, args...).Scan(&packed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return bytes.Clone(s.unpack(packed)), err
}

func (s *Store) pack(raw []byte) []byte { return s.enc.EncodeAll(raw, nil) }

// unpack decompresses a record; nil where it is damaged. It is good until the next call.
func (s *Store) unpack(packed []byte) []byte {
	raw, err := s.dec.DecodeAll(packed, s.scratch[:0])
	if err != nil {
		s.badBlobs++
		return nil
	}
	s.scratch = raw
	return raw
}

var errClosed = errors.New("history is closed")

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
