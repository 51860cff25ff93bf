package page

import (
	"bytes"
	"fmt"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// rendered is what one host contributes to pages.
type rendered struct {
	host   *board.Host
	view   *hostView // for the front page
	card   []byte
	files  []render.File // its own pages
	past   pastInput
	charts []byte // on its own page, where they stand there
}

// renderHosts renders the page and the card of every host on all processors, and
// returns them in the board's order. Their files go into out.
func (v *view) renderHosts(set *press, out *render.Sink) ([]*rendered, error) {
	hosts := v.in.Board.Hosts
	done := make([]*rendered, len(hosts))
	err := render.InParallel(len(hosts), func(i int) (err error) {
		if done[i], err = v.renderHost(set, &hosts[i]); err != nil {
			return err
		}
		files := done[i].files
		done[i].files = nil
		return out.Put(files...)
	})
	return done, err
}

func (v *view) renderHost(set *press, h *board.Host) (*rendered, error) {
	var buf bytes.Buffer
	execute := func(name string, data any) ([]byte, error) {
		buf.Reset()
		if err := set.execute(&buf, name, data); err != nil {
			return nil, fmt.Errorf("rendering host %s: %w", h.Name, err)
		}
		return bytes.Clone(buf.Bytes()), nil
	}
	r := &rendered{host: h, past: v.pastOf(h)}
	var err error
	if r.view, err = v.host(h, v.detail(), v.ref(h), ""); err != nil {
		return nil, err
	}
	if r.view.Huge = len(v.in.Board.Hosts) > denseHosts; r.view.Huge {
		for i := range r.view.Rows {
			r.view.Rows[i].Huge = true
		}
	}
	if r.card, err = execute("host-card", r.view); err != nil {
		return nil, err
	}
	r.view.Rows = nil // they are in the card
	page, err := v.hostPage(h)
	if err != nil {
		return nil, err
	}
	frame, err := execute("host.html", page)
	if err != nil {
		return nil, err
	}
	if err := v.renderPast(r, page, execute); err != nil {
		return nil, err
	}
	parts := [][]byte{frame}
	if page.Charts {
		parts = splice(frame, r.charts)
	}
	r.files = append([]render.File{render.NewFile("hosts/"+h.Name+"/index.html", parts...)}, r.files...)
	return r, nil
}

// splice returns the parts of a page: each card comes where the page left a slot
// for it. A slot cannot come from anywhere else: text never becomes a tag.
func splice(frame []byte, cards ...[]byte) [][]byte {
	slot := []byte("<slot></slot>")
	parts := make([][]byte, 0, 2*len(cards)+1)
	for _, c := range cards {
		before, after, found := bytes.Cut(frame, slot)
		if !found {
			break
		}
		parts = append(parts, before, c)
		frame = after
	}
	return append(parts, frame)
}
