// A subscription yields deliveries, or calls, as they come. It is opened again after every reconnect; its leases are not: what nobody has
// taken yet vanishes with the connection, and comes again.

package qwerq

import (
	"context"
	"errors"
	"iter"
)

// Subscription is an open subscription of one queue. It may be used by several goroutines.
type Subscription struct {
	client  *Client
	number  uint32
	queue   string
	options *consumeOptions
	serve   bool
	// Rings when something arrived or it ended; whoever takes from it and leaves something rings on.
	arrived chan struct{}
	opened  chan error

	// Guarded by the client's lock.
	items      []*Delivery
	calls      []*incomingCall
	agreed     bool // the broker has said CONSUME_ACK once
	group      string
	existed    bool
	ending     bool
	over       bool
	err        error
	position   *uint64 // the one after the last that arrived, for readers that keep their own
	takenCount uint32  // by a reader without leases, since its last CREDIT
	takenBytes uint64
	credit     *wireCredit // what SetPrefetch said last
}

// Subscribe opens a subscription of a queue. Close it.
func (c *Client) Subscribe(ctx context.Context, queue string, options ...ConsumeOption) (*Subscription, error) {
	return c.subscribe(ctx, queue, newConsumeOptions(options), false)
}

func (c *Client) subscribe(ctx context.Context, queue string, options *consumeOptions, serve bool) (*Subscription, error) {
	s := &Subscription{
		client: c, queue: queue, options: options, serve: serve, arrived: make(chan struct{}, 1), opened: make(chan error, 1),
	}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	c.lastSubscription++
	s.number = c.lastSubscription
	c.subscriptions[s.number] = s
	if c.session != nil {
		c.sendConsume(s)
	}
	c.mu.Unlock()
	select {
	case err := <-s.opened:
		if err != nil {
			return nil, err
		}
		return s, nil
	case <-ctx.Done():
		c.unsubscribe(s, false)
		return nil, ctx.Err()
	}
}

// Consume yields the deliveries of a queue until ctx ends, the loop is left or the subscription ends: with the error that ended it, once.
// Settle each. Leaving the loop ends the subscription; what was handed out may still be settled, the rest goes back uncounted.
func (c *Client) Consume(ctx context.Context, queue string, options ...ConsumeOption) iter.Seq2[*Delivery, error] {
	return func(yield func(*Delivery, error) bool) {
		s, err := c.Subscribe(ctx, queue, options...)
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.leave()
		for {
			d, err := s.Next(ctx)
			if errors.Is(err, ErrEnded) {
				return
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// Queue is the queue's name.
func (s *Subscription) Queue() string { return s.queue }

// Group is the group that it consumes in, as the broker says; empty for a reader without one.
func (s *Subscription) Group() string {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return s.group
}

// GroupExisted reports that the group was there before, so that From was ignored.
func (s *Subscription) GroupExisted() bool {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return s.existed
}

// Next waits for the next delivery. ErrEnded says that the subscription was closed; another error ended it, or is that of ctx. A lost
// connection is not an end.
func (s *Subscription) Next(ctx context.Context) (*Delivery, error) {
	return next(ctx, s, func() (*Delivery, bool) {
		for len(s.items) > 0 {
			d := s.items[0]
			s.items[0] = nil
			s.items = s.items[1:]
			if d.lease == nil {
				s.taken(d)
				return d, true
			}
			if d.lease.held {
				return d, true
			}
		}
		return nil, false
	})
}

// next waits until take gives something; take is called under the client's lock.
func next[T any](ctx context.Context, s *Subscription, take func() (*T, bool)) (*T, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.client.mu.Lock()
		item, ok := take()
		more, over, err := len(s.items)+len(s.calls) > 0, s.over, s.err
		if !ok && over {
			s.err = nil // an error is told once
		}
		s.client.mu.Unlock()
		if more || over {
			s.ring()
		}
		switch {
		case ok:
			return item, nil
		case over && err != nil:
			return nil, err
		case over:
			return nil, ErrEnded
		}
		select {
		case <-s.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// taken grants a reader without leases as much as it has taken, in halves of the prefetch.
func (s *Subscription) taken(d *Delivery) {
	s.takenCount++
	s.takenBytes += uint64(len(d.Payload))
	messages, bytes := s.options.prefetch, s.options.bytes
	if messages == 0 {
		messages = prefetchDefault
	}
	if bytes == 0 {
		bytes = prefetchBytesDefault
	}
	if s.over || s.ending || s.takenCount < (messages+1)/2 && s.takenBytes < (bytes+1)/2 {
		return
	}
	s.client.postLocked(opCredit, &wireCredit{Subscription: s.number, Prefetch: messages, PrefetchBytes: bytes})
	s.takenCount, s.takenBytes = 0, 0
}

// SetPrefetch changes how much the subscription may hold; 0 messages pause it.
func (s *Subscription) SetPrefetch(messages uint32, bytes uint64) error {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if s.over {
		return ErrEnded
	}
	s.credit = &wireCredit{Subscription: s.number, Prefetch: messages, PrefetchBytes: bytes}
	s.client.postLocked(opCredit, s.credit)
	return nil
}

// Close ends the subscription. All leases that came by it are released without counting an attempt, those of deliveries that are being
// worked on too: settle these first, or use Drain.
func (s *Subscription) Close(ctx context.Context) error {
	return await(ctx, s.client.unsubscribe(s, false))
}

// Drain ends the subscription, but what was handed out keeps its leases until it is settled.
func (s *Subscription) Drain(ctx context.Context) error {
	return await(ctx, s.client.unsubscribe(s, true))
}

// leave is Drain without waiting.
func (s *Subscription) leave() { s.client.unsubscribe(s, true) }

func (s *Subscription) ring() {
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// end: nothing will arrive any more. Under the client's lock.
func (s *Subscription) end(err error) {
	if !s.over {
		s.over, s.err = true, err
	}
	if !s.agreed {
		s.agreed = true
		if err == nil {
			err = ErrClosed
		}
		s.opened <- err
	}
	s.ring()
}

// disconnected: the leases are gone, and with them what nobody has taken.
func (s *Subscription) disconnected() {
	s.calls = nil
	kept := s.items[:0]
	for _, d := range s.items {
		if d.lease == nil {
			kept = append(kept, d)
		}
	}
	clear(s.items[len(kept):])
	s.items = kept
	s.takenCount, s.takenBytes = 0, 0
}

func (s *Subscription) toWire() *wireConsume {
	o := s.options
	consume := &wireConsume{
		Subscription: s.number, Queue: s.queue, Group: o.group, Prefetch: o.prefetch, PrefetchBytes: o.bytes, Concurrency: o.concurrency,
		VisibilityTimeoutMS: milliseconds(o.visibility), StartAt: o.start.toWire(), Contract: o.contract,
	}
	switch {
	case s.serve:
		consume.Role = roleServe
	case o.tail:
		consume.Role = roleTail
	}
	// A reader that keeps its own position goes on there after a reconnect.
	if s.position != nil && (o.tail || o.group == "") {
		consume.StartAt = &wireStartAt{Offset: s.position}
	}
	return consume
}

const (
	roleServe = 1
	roleTail  = 2
)

// sendConsume asks for the subscription on the connection that is there. Under the client's lock.
func (c *Client) sendConsume(s *Subscription) {
	c.out = append(c.out, &request{id: c.nextRequest(), op: opConsume, kind: kindConsume, payload: marshal(s.toWire()), subscription: s})
	if s.credit != nil {
		c.postLocked(opCredit, s.credit)
	}
	c.ring()
}

// unsubscribe says goodbye; the channel tells when the broker has heard it.
func (c *Client) unsubscribe(s *Subscription, keepLeases bool) chan error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsubscribeLocked(s, keepLeases)
}

func (c *Client) unsubscribeLocked(s *Subscription, keepLeases bool) chan error {
	ended := make(chan error, 1)
	if c.subscriptions[s.number] != s || s.ending {
		ended <- nil
		return ended
	}
	s.ending = true
	s.end(nil)
	untaken, calls := s.items, s.calls
	s.items, s.calls = nil, nil
	for _, call := range calls {
		call.answer(c, &wireCallResponse{Error: toWireError(errResponderLeaves)})
	}
	if c.session == nil {
		delete(c.subscriptions, s.number)
		ended <- nil
		return ended
	}
	if keepLeases {
		for _, d := range untaken {
			c.release(d.lease)
		}
	} else {
		c.session.lose(s.number)
	}
	message := wireUnsubscribe{Subscription: s.number, KeepLeases: keepLeases}
	c.out = append(c.out, &request{
		id: c.nextRequest(), op: opUnsubscribe, kind: kindUnsubscribe, payload: marshal(&message), subscription: s,
		done: func(a answer) { ended <- a.err },
	})
	c.ring()
	return ended
}

// release gives a lease back that nobody has looked at. Under the client's lock.
func (c *Client) release(l *lease) {
	if l != nil && l.held {
		l.session.drop(l)
		l.session.write(say{op: opRelease}, l.id, false)
		c.ring()
	}
}
