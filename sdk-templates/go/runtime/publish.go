// Publishing: one message and its receipt, many at once, or pipelined under the window. Read on in lane.go.

package qwerq

import (
	"context"
	"errors"
)

// Outgoing is a payload to publish, and what is said beside it.
type Outgoing struct {
	// Payload reaches consumers byte for byte.
	Payload []byte
	// Options are those of this message.
	Options []PublishOption
}

// Result is what became of one message of a batch.
type Result struct {
	// Published is the receipt, if Err is nil.
	Published Published
	// Err says why the message was not accepted.
	Err error
}

// Publish publishes one message and waits until it is durable. Concurrent publishes share frames. When ctx ends first the message may be
// stored all the same.
func (c *Client) Publish(ctx context.Context, queue string, payload []byte, options ...PublishOption) (Published, error) {
	return c.publish(ctx, destination{queue: queue}, Outgoing{payload, options})
}

// Submit hands one message in and returns as soon as the window has room; the receipt may be waited for later, or not at all. Messages
// that one goroutine submits to one queue are stored in that order, as long as the broker does not answer `overloaded`, which sends them
// a second time.
func (c *Client) Submit(ctx context.Context, queue string, payload []byte, options ...PublishOption) (*Receipt, error) {
	return c.submit(ctx, destination{queue: queue}, Outgoing{payload, options})
}

// PublishBatch publishes many and waits for all: one result each, in their order. One bad message does not fail its neighbours.
func (c *Client) PublishBatch(ctx context.Context, queue string, messages []Outgoing) []Result {
	return c.publishBatch(ctx, destination{queue: queue}, messages)
}

// PublishAtomic publishes all or none, in one frame.
func (c *Client) PublishAtomic(ctx context.Context, queue string, messages []Outgoing) ([]Published, error) {
	return c.publishAtomic(ctx, destination{queue: queue}, messages)
}

func (c *Client) publish(ctx context.Context, to destination, message Outgoing) (Published, error) {
	receipt, err := c.submit(ctx, to, message)
	if err != nil {
		return Published{}, err
	}
	return receipt.Wait(ctx)
}

func (c *Client) submit(ctx context.Context, to destination, message Outgoing) (*Receipt, error) {
	item, keyed := message.encode()
	if err := c.checkFrame(len(item)); err != nil {
		return nil, err
	}
	cost := c.window.cost(len(message.Payload))
	if err := c.window.take(ctx, 1, cost); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		c.window.give(1, cost)
		return nil, ErrClosed
	}
	l := c.laneOf(to)
	item, keyed, retry := c.withKey(item, keyed)
	receipt := l.push(item, keyed, retry, cost, c.frameRoom)
	c.list(l)
	c.ring()
	return receipt, nil
}

func (c *Client) publishBatch(ctx context.Context, to destination, messages []Outgoing) []Result {
	results := make([]Result, len(messages))
	receipts := make([]*Receipt, len(messages))
	for i, message := range messages {
		receipts[i], results[i].Err = c.submit(ctx, to, message)
	}
	for i, receipt := range receipts {
		if receipt != nil {
			results[i].Published, results[i].Err = receipt.Wait(ctx)
		}
	}
	return results
}

func (c *Client) publishAtomic(ctx context.Context, to destination, messages []Outgoing) ([]Published, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	b := &batch{atomic: true}
	c.mu.Lock()
	for _, message := range messages {
		item, keyed, retry := c.withKey(message.encode())
		b.append(item, keyed, retry, 0, 0)
	}
	c.mu.Unlock()
	if err := c.checkFrame(len(b.items)); err != nil {
		c.forgo(b)
		return nil, err
	}
	// What the batch as a whole takes is written down with its first message.
	b.entries[0].messages = min(len(messages), c.window.maxMessages)
	b.entries[0].bytes = c.window.cost(len(b.items))
	if err := c.window.take(ctx, b.entries[0].messages, b.entries[0].bytes); err != nil {
		c.forgo(b)
		return nil, err
	}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		c.forgo(b)
		c.window.give(b.entries[0].messages, b.entries[0].bytes)
		return nil, ErrClosed
	}
	receipts := make([]*Receipt, len(messages))
	for i, e := range b.entries {
		receipts[i] = e.receipt
	}
	l := c.laneOf(to)
	l.batches = append(l.batches, b)
	c.list(l)
	c.ring()
	c.mu.Unlock()
	return waitForAll(ctx, receipts)
}

// forgo: the batch never leaves.
func (c *Client) forgo(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range b.entries {
		if e.retry != 0 {
			c.retryKeys.settle(e.retry)
		}
	}
}

// waitForAll gives the error of the message that was to blame, not those of its neighbours.
func waitForAll(ctx context.Context, receipts []*Receipt) ([]Published, error) {
	published := make([]Published, len(receipts))
	var first error
	for i, receipt := range receipts {
		var err error
		published[i], err = receipt.Wait(ctx)
		if err != nil && (first == nil || errors.Is(first, ErrAtomicRefused)) {
			first = err
		}
	}
	if first != nil {
		return nil, first
	}
	return published, nil
}

func (m *Outgoing) encode() (item []byte, keyed bool) {
	var o publishOptions
	for _, option := range m.Options {
		option(&o)
	}
	item = make([]byte, 0, len(m.Payload)+64)
	return appendItem(item, m.Payload, &o), o.idempotencyKey != ""
}
