// Publishes of one queue on their way out: they collect in batches, one batch becoming one PUBLISH. Nothing waits for a timer: the
// session takes a batch whenever the connection can carry it. All of it is guarded by the client's lock.

package qwerq

import (
	"context"
	"time"

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
	refused int       // how often the broker has answered `overloaded`
	lostAt  time.Time // when a connection was first lost on which it may have been stored; zero: never
	open    bool
}

type entry struct {
	end      int // of the item in batch.items
	receipt  *Receipt
	messages int // taken from the window
	bytes    int
	keyed    bool
	retry    uint64 // the number of a key of the client's own; 0: it has none
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
func (l *lane) push(item []byte, keyed bool, retry uint64, bytes, frameRoom int) *Receipt {
	size := protowire.SizeTag(2) + protowire.SizeBytes(len(item))
	last := len(l.batches) - 1
	if last < 0 || !l.batches[last].hasRoom(size, frameRoom) {
		l.batches = append(l.batches, &batch{open: true})
		last++
	}
	return l.batches[last].append(item, keyed, retry, 1, bytes)
}

func (b *batch) hasRoom(size, frameRoom int) bool {
	return b.open && len(b.entries) < batchMessagesMax && len(b.items)+size <= min(batchBytesMax, frameRoom)
}

func (b *batch) append(item []byte, keyed bool, retry uint64, messages, bytes int) *Receipt {
	b.items = appendBytes(b.items, 2, item)
	receipt := newReceipt()
	b.entries = append(b.entries, entry{len(b.items), receipt, messages, bytes, keyed, retry})
	return receipt
}

// part is what of the batch satisfies keep; nil when nothing does.
func (b *batch) part(keep func(position int, e *entry) bool) *batch {
	part := &batch{atomic: b.atomic, refused: b.refused, lostAt: b.lostAt}
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
		if e.retry != 0 {
			// To its caller a message that the client sent twice was published once.
			e.receipt.published.Duplicate = false
			c.retryKeys.settle(e.retry)
		}
		close(e.receipt.done)
		messages += e.messages
		bytes += e.bytes
	}
	c.window.give(messages, bytes)
}

func (c *Client) resolveAll(b *batch, err error) {
	c.resolve(b, func(int) (Published, error) { return Published{}, err })
}

// withKey gives an item without an idempotency key one of the client's own, where it may have to be retried.
func (c *Client) withKey(item []byte, keyed bool) (_ []byte, isKeyed bool, retry uint64) {
	if keyed || !c.cluster {
		return item, keyed, 0
	}
	retry, key := c.retryKeys.take()
	return appendString(item, itemIdempotencyKey, key), true, retry
}

// survivors is what of a batch may go out again after its connection was lost; the others are told.
func (c *Client) survivors(b *batch, maybeStored bool) *batch {
	if !maybeStored {
		return b
	}
	if b.lostAt.IsZero() {
		b.lostAt = time.Now()
	}
	return c.keep(b, func(e *entry) bool { return e.keyed && (e.retry == 0 || c.retryKeys.isKept(e.retry)) })
}

// inTime is what of a batch that is about to go out again the broker will still know; the others are told.
func (c *Client) inTime(b *batch) *batch {
	if b.lostAt.IsZero() || time.Since(b.lostAt) <= retryBudget {
		return b
	}
	return c.keep(b, func(e *entry) bool { return e.retry == 0 })
}

// keep is those that may be sent twice; the others may have been stored. A part of an atomic batch would break it, so it is kept as a
// whole or not at all.
func (c *Client) keep(b *batch, may func(*entry) bool) *batch {
	all := true
	for i := range b.entries {
		all = all && may(&b.entries[i])
	}
	if all {
		return b
	}
	keeps := func(_ int, e *entry) bool { return !b.atomic && may(e) }
	if dead := b.part(func(at int, e *entry) bool { return !keeps(at, e) }); dead != nil {
		c.resolveAll(dead, &DisconnectedError{MaybeStored: true})
	}
	return b.part(keeps)
}
