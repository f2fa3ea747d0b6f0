// Back-pressure on publishers: so many messages and payload bytes may be unacknowledged; whoever wants more waits in line.

package qwerq

import (
	"context"
	"sync"
)

type window struct {
	maxMessages int
	maxBytes    int

	mu       sync.Mutex
	messages int // taken
	bytes    int
	line     []*taker
	closed   bool
}

type taker struct {
	messages, bytes int
	ready           chan error
}

func newWindow(messages, bytes int) *window { return &window{maxMessages: messages, maxBytes: bytes} }

// cost is what a payload takes: one larger than the whole window takes all of it.
func (w *window) cost(payloadBytes int) int { return min(payloadBytes, w.maxBytes) }

// take takes room, waiting for it in line. Nothing is taken when it returns an error.
func (w *window) take(ctx context.Context, messages, bytes int) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	if len(w.line) == 0 && w.fits(messages, bytes) {
		w.messages += messages
		w.bytes += bytes
		w.mu.Unlock()
		return nil
	}
	t := &taker{messages, bytes, make(chan error, 1)}
	w.line = append(w.line, t)
	w.mu.Unlock()
	select {
	case err := <-t.ready:
		return err
	case <-ctx.Done():
		return w.leave(t, ctx.Err())
	}
}

// leave takes t out of the line; if its turn had come meanwhile, what it got goes back.
func (w *window) leave(t *taker, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, waiting := range w.line {
		if waiting == t {
			w.line = append(w.line[:i], w.line[i+1:]...)
			w.admit()
			return err
		}
	}
	if <-t.ready == nil {
		w.messages -= t.messages
		w.bytes -= t.bytes
		w.admit()
	}
	return err
}

// give gives room back.
func (w *window) give(messages, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.messages -= messages
	w.bytes -= bytes
	w.admit()
}

// close: from now on every taker gets ErrClosed.
func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, t := range w.line {
		t.ready <- ErrClosed
	}
	w.line = nil
}

func (w *window) admit() {
	for len(w.line) > 0 && w.fits(w.line[0].messages, w.line[0].bytes) {
		t := w.line[0]
		w.line = w.line[1:]
		w.messages += t.messages
		w.bytes += t.bytes
		t.ready <- nil
	}
}

func (w *window) fits(messages, bytes int) bool {
	return w.messages+messages <= w.maxMessages && w.bytes+bytes <= w.maxBytes
}
