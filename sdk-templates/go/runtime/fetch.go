// Pulling instead of subscribing: fetch under leases, and settle leases by their ids.

package qwerq

import (
	"context"
	"time"
)

// Fetch pulls up to limit messages; with Wait it waits for the first one. None is no error. Settle each, as with a subscription.
func (c *Client) Fetch(ctx context.Context, queue string, limit int, options ...ConsumeOption) ([]*Delivery, error) {
	o := newConsumeOptions(options)
	fetch := &wireFetch{
		Queue: queue, Group: o.group, Max: uint32(max(limit, 1)), WaitMS: milliseconds(o.wait), VisibilityTimeoutMS: milliseconds(o.visibility),
		Detached: o.detached, StartAt: o.start.toWire(), Contract: o.contract,
	}
	a, err := c.ask(ctx, opFetch, fetch, false)
	if err != nil {
		return nil, err
	}
	var fetched wireFetched
	if err := a.frame.decode(opFetched, &fetched); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	deliveries := make([]*Delivery, len(fetched.Messages))
	for i, d := range fetched.Messages {
		var l *lease
		if len(d.LeaseID) > 0 {
			l = a.session.hold(d.LeaseID, 0, duration(d.LeaseMS), !o.detached, time.Now())
		}
		deliveries[i] = c.newDelivery(queue, d, l)
	}
	c.ring() // for the renewals
	return deliveries, nil
}

// AckLeases acknowledges leases by their ids, such as detached ones, and waits until that is durable; one result each.
func (c *Client) AckLeases(ctx context.Context, ids ...[]byte) []error {
	return c.settleLeases(ctx, say{op: opAck}, ids)
}

// ReleaseLeases gives messages back by their leases' ids, without counting an attempt; one result each.
func (c *Client) ReleaseLeases(ctx context.Context, ids ...[]byte) []error {
	return c.settleLeases(ctx, say{op: opRelease}, ids)
}

// RejectLeases rejects messages by their leases' ids; one result each.
func (c *Client) RejectLeases(ctx context.Context, reason string, ids ...[]byte) []error {
	return c.settleLeases(ctx, say{op: opReject, reason: reason}, ids)
}

func (c *Client) settleLeases(ctx context.Context, what say, ids [][]byte) []error {
	results := make([]error, len(ids))
	waiters := make([]chan error, len(ids))
	c.mu.Lock()
	s := c.session
	for i, id := range ids {
		switch {
		case c.closing:
			results[i] = ErrClosed
		case s == nil:
			results[i] = &DisconnectedError{}
		default:
			waiters[i] = s.write(what, id, true)
		}
	}
	c.ring()
	c.mu.Unlock()
	for i, waiter := range waiters {
		if waiter != nil {
			results[i] = await(ctx, waiter)
		}
	}
	return results
}
