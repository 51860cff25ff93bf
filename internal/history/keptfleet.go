package history

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// keepFleets is how long sums of the fleet are kept.
const keepFleets = 370 * 24 * time.Hour

// KeepFleet keeps what [Store.Fleet] added up between the same instants, for [Store.KeptFleet]. It is
// for days that cannot change any more: adding up a year of a thousand hosts takes seconds.
func (s *Store) KeepFleet(ctx context.Context, at []time.Time, f Fleet) error {
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("keeping sums of the fleet: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return errClosed
	}
	from, to := at[0], at[len(at)-1]
	_, err = s.db.ExecContext(ctx, "insert or replace into fleet(start,stop,data) values(?,?,?)",
		from.UnixMilli(), to.UnixMilli(), s.pack(data))
	if err == nil {
		_, err = s.db.ExecContext(ctx, "delete from fleet where start < ?", s.lastAt-keepFleets.Milliseconds())
	}
	if err != nil {
		return fmt.Errorf("keeping sums of the fleet: %w", err)
	}
	return nil
}

// KeptFleet returns what was kept between these instants. It is false where nothing was, or where it is damaged.
func (s *Store) KeptFleet(ctx context.Context, at []time.Time) (f Fleet, kept bool, err error) {
	err = s.view(ctx, "the fleet", func(q querier) error {
		data, err := s.blob(ctx, q, "select data from fleet where start=? and stop=?",
			at[0].UnixMilli(), at[len(at)-1].UnixMilli())
		kept = err == nil && len(data) > 0 && json.Unmarshal(data, &f) == nil && f.sound(len(at)-1)
		return err
	})
	if !kept {
		f = Fleet{}
	}
	return f, kept, err
}

// sound reports whether there is a value for each step, also of people and of what was held.
func (f *Fleet) sound(steps int) bool {
	for name, free := range f.Free {
		if len(free) != steps || len(f.Held[name]) != steps {
			return false
		}
	}
	for i := range f.Users {
		if len(f.People[f.Users[i].Name]) != steps {
			return false
		}
	}
	return len(f.Steps) == steps
}
