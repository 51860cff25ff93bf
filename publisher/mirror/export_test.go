package mirror

// Allow bounds the hour files of a copy, in bytes.
func (m *Mirror) Allow(most int64) { m.most = most }
