// A message on loan: its contents, and what its holder says about it in the end. The loan itself is kept in lease.go.

package qwerq

import (
	"context"
	"runtime"
	"time"
)

// Delivery is a message that this consumer holds a lease on. Settle it: Ack, Nack, Reject or Release.
//
// Until then the client renews its lease. One that is forgotten unsettled is left to its lease when the garbage collector finds it: it
// occupies a place of the prefetch until the visibility timeout ends it, and then an attempt is counted.
type Delivery struct {
	// ID is the message's id.
	ID MessageID
	// Queue is where it came from.
	Queue string
	// Seq is its position in the queue, or its offset in the stream.
	Seq uint64
	// Attempt is which delivery of this message to this group it is, from 1.
	Attempt uint32
	// PublishedAt is when the broker accepted it.
	PublishedAt time.Time
	// Headers are as published, and the broker's own on dead letters.
	Headers Headers
	// Payload is as published, byte for byte.
	Payload []byte
	// SchemaVersion is the contract version that it was accepted under; 0 on a queue without one.
	SchemaVersion uint32
	// OrderingKey is as published.
	OrderingKey string
	// Skipped (streams): so many messages before this one were removed by retention before the group saw them.
	Skipped uint64

	client  *Client
	lease   *lease // nil for a reader without leases
	cleanup runtime.Cleanup
}

func (c *Client) newDelivery(queue string, d *wireDelivered, l *lease) *Delivery {
	delivery := &Delivery{
		Queue: queue, Seq: d.Seq, Attempt: d.Attempt, PublishedAt: time.UnixMilli(int64(d.PublishedAtMS)), Headers: fromWireHeaders(d.Headers),
		Payload: d.Payload, SchemaVersion: d.SchemaVersion, OrderingKey: d.OrderingKey, Skipped: d.Skipped, client: c, lease: l,
	}
	copy(delivery.ID[:], d.ID)
	if l != nil {
		delivery.cleanup = runtime.AddCleanup(delivery, c.abandon, l)
	}
	return delivery
}

func fromWireHeaders(headers []*wireHeader) Headers {
	if len(headers) == 0 {
		return nil
	}
	result := make(Headers, len(headers))
	for i, header := range headers {
		result[i] = Header{header.Name, header.Value}
	}
	return result
}

func toWireHeaders(headers Headers) []*wireHeader {
	result := make([]*wireHeader, len(headers))
	for i, header := range headers {
		result[i] = &wireHeader{header.Name, header.Value}
	}
	return result
}

// LeaseID is the lease's id; nil for a reader without leases.
func (d *Delivery) LeaseID() []byte {
	if d.lease == nil {
		return nil
	}
	return d.lease.id
}

// Stale reports whether the lease is known to have ended: settled, or with its connection, its subscription or by being refused.
func (d *Delivery) Stale() bool {
	if d.lease == nil {
		return false
	}
	d.client.mu.Lock()
	defer d.client.mu.Unlock()
	return !d.lease.held
}

// Ack: the message is done. It rides in a shared frame and does not wait for the broker. The error is ErrStaleLease when the lease is
// known to have ended; the message is delivered again then. So it is for all of these.
func (d *Delivery) Ack() error { return d.settle(say{op: opAck}) }

// AckConfirmed: the message is done; returns when that is durable.
func (d *Delivery) AckConfirmed(ctx context.Context) error {
	return d.settleConfirmed(ctx, say{op: opAck})
}

// Nack: the attempt failed. The message comes again after the queue's backoff; the reason, which may be empty, is for its dead letter.
func (d *Delivery) Nack(reason string) error { return d.settle(say{op: opNack, reason: reason}) }

// NackAfter: the attempt failed. The message comes again after delay, which may be zero.
func (d *Delivery) NackAfter(delay time.Duration, reason string) error {
	return d.settle(say{op: opNack, hasDelay: true, delayMS: milliseconds(delay), reason: reason})
}

// Reject: the message is hopeless. It goes to failure handling at once, with the reason for whoever looks at the dead letter.
func (d *Delivery) Reject(reason string) error { return d.settle(say{op: opReject, reason: reason}) }

// RejectConfirmed is Reject; returns when that is durable.
func (d *Delivery) RejectConfirmed(ctx context.Context, reason string) error {
	return d.settleConfirmed(ctx, say{op: opReject, reason: reason})
}

// Release gives the message back as if it had not been delivered.
func (d *Delivery) Release() error { return d.settle(say{op: opRelease}) }

// Extend makes the lease end so long from now, and from then on renews it for as long. Only a hint to the broker: the client renews by
// itself until the message is settled.
func (d *Delivery) Extend(ctx context.Context, length time.Duration) error {
	if d.lease == nil {
		return nil
	}
	return d.client.extend(ctx, d.lease, length)
}

func (d *Delivery) settle(what say) error {
	if d.lease == nil {
		return nil
	}
	d.cleanup.Stop()
	_, err := d.client.settle(d.lease, what, false)
	return err
}

func (d *Delivery) settleConfirmed(ctx context.Context, what say) error {
	if d.lease == nil {
		return nil
	}
	d.cleanup.Stop()
	waiter, err := d.client.settle(d.lease, what, true)
	if err != nil {
		return err
	}
	return await(ctx, waiter)
}
