// Publishes of one queue on their way out: they collect in batches, one batch becoming one PUBLISH. Nothing waits for a timer: the
// session takes a batch whenever the connection can carry it. All of it is guarded by the client's lock.

package qwerq

import (
	"context"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// Messages of one PUBLISH at most.
	batchMessagesMax = 256
	// Encoded bytes of one PUBLISH at most, unless a single message is larger.
	batchBytesMax = 256 << 10
)

// destination is a queue and the contract that its publishers declare.
type destination struct {
	queue    string
	contract string
}

type lane struct {
	destination
	batches []*batch
	listed  bool
}

type batch struct {
	items   []byte // the fields `items`, encoded
	entries []entry
	atomic  bool
	refused int // how often the broker has answered `overloaded`
	open    bool
}

type entry struct {
	end      int // of the item in batch.items
	receipt  *Receipt
	messages int // taken from the window
	bytes    int
	keyed    bool
}

// Receipt is the result of one submitted message, once it is there.
type Receipt struct {
	done      chan struct{}
	published Published
	err       error
}

// Wait waits for the result. When ctx ends first, the message goes out all the same.
func (r *Receipt) Wait(ctx context.Context) (Published, error) {
	select {
	case <-r.done:
		return r.published, r.err
	default:
	}
	select {
	case <-r.done:
		return r.published, r.err
	case <-ctx.Done():
		return Published{}, ctx.Err()
	}
}

// Done is closed when the result is there.
func (r *Receipt) Done() <-chan struct{} { return r.done }

func newReceipt() *Receipt { return &Receipt{done: make(chan struct{})} }

// push appends a message to the last batch, or to a new one.
func (l *lane) push(item []byte, keyed bool, bytes, frameRoom int) *Receipt {
	size := protowire.SizeTag(2) + protowire.SizeBytes(len(item))
	last := len(l.batches) - 1
	if last < 0 || !l.batches[last].hasRoom(size, frameRoom) {
		l.batches = append(l.batches, &batch{open: true})
		last++
	}
	return l.batches[last].append(item, keyed, 1, bytes)
}

func (b *batch) hasRoom(size, frameRoom int) bool {
	return b.open && len(b.entries) < batchMessagesMax && len(b.items)+size <= min(batchBytesMax, frameRoom)
}

func (b *batch) append(item []byte, keyed bool, messages, bytes int) *Receipt {
	b.items = appendBytes(b.items, 2, item)
	receipt := newReceipt()
	b.entries = append(b.entries, entry{len(b.items), receipt, messages, bytes, keyed})
	return receipt
}

// part is what of the batch satisfies keep; nil when nothing does.
func (b *batch) part(keep func(position int, e *entry) bool) *batch {
	part := &batch{atomic: b.atomic, refused: b.refused}
	start := 0
	for position := range b.entries {
		e := b.entries[position]
		if keep(position, &e) {
			part.items = append(part.items, b.items[start:b.entries[position].end]...)
			e.end = len(part.items)
			part.entries = append(part.entries, e)
		}
		start = b.entries[position].end
	}
	if len(part.entries) == 0 {
		return nil
	}
	return part
}

// payload is the PUBLISH.
func (l *lane) payload(b *batch) []byte {
	buf := make([]byte, 0, len(b.items)+len(l.queue)+len(l.contract)+16)
	buf = appendString(buf, 1, l.queue)
	buf = append(buf, b.items...)
	if b.atomic {
		buf = appendVarint(buf, 3, 1)
	}
	return appendString(buf, 4, l.contract)
}

func (c *Client) laneOf(to destination) *lane {
	l, ok := c.lanes[to]
	if !ok {
		l = &lane{destination: to}
		c.lanes[to] = l
	}
	return l
}

func (c *Client) list(l *lane) {
	if !l.listed {
		l.listed = true
		c.listed = append(c.listed, l)
	}
}

// putBack puts a batch in front of all others.
func (c *Client) putBack(l *lane, b *batch) {
	b.open = false
	l.batches = append([]*batch{b}, l.batches...)
	c.list(l)
}

// resolve tells whoever waits for the batch's messages, and gives back what they took from the window.
func (c *Client) resolve(b *batch, result func(position int) (Published, error)) {
	messages, bytes := 0, 0
	for position, e := range b.entries {
		e.receipt.published, e.receipt.err = result(position)
		close(e.receipt.done)
		messages += e.messages
		bytes += e.bytes
	}
	c.window.give(messages, bytes)
}

func (c *Client) resolveAll(b *batch, err error) {
	c.resolve(b, func(int) (Published, error) { return Published{}, err })
}

// survivors is what of a batch may go out again after its connection was lost; the others are told.
func (c *Client) survivors(b *batch, maybeStored bool) *batch {
	if !maybeStored {
		return b
	}
	allKeyed := true
	for _, e := range b.entries {
		allKeyed = allKeyed && e.keyed
	}
	// A part of an atomic batch would break it, so it survives only as a whole.
	survives := func(_ int, e *entry) bool { return e.keyed && (!b.atomic || allKeyed) }
	if dead := b.part(func(at int, e *entry) bool { return !survives(at, e) }); dead != nil {
		c.resolveAll(dead, &DisconnectedError{MaybeStored: true})
	}
	return b.part(survives)
}
