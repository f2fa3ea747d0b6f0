// Queues, groups and positions, as far as services need them; operators have the command line.

package qwerq

import "context"

// QueueOptions are a queue's settings. What is zero is the broker's default, or stays as it is.
type QueueOptions struct {
	// Mode is "queue" or "stream".
	Mode string
	// MaxDeliveries is how many counted deliveries come before failure handling.
	MaxDeliveries uint32
	// OnFailure is "dlq", "drop" or "retry-forever".
	OnFailure string
	// SchemaMode is "permissive" or "strict".
	SchemaMode string
	// MaxMessages is how many messages are stored at most.
	MaxMessages uint64
}

func (o QueueOptions) toWire() *wireQueueOptions {
	return &wireQueueOptions{
		Mode: optional(o.Mode), MaxDeliveries: optional(o.MaxDeliveries), OnFailure: optional(o.OnFailure), SchemaMode: optional(o.SchemaMode),
		MaxMessages: optional(o.MaxMessages),
	}
}

func optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// QueueInfo is what the broker says of a queue.
type QueueInfo struct {
	// Name is the queue's.
	Name string
	// Depth counts messages stored and not settled by all groups, delayed ones included.
	Depth uint64
	// Ready, Delayed, BackingOff and InFlight are parts of it.
	Ready, Delayed, BackingOff, InFlight uint64
	// FirstSeq is the oldest stored position, NextSeq the one that the next message gets.
	FirstSeq, NextSeq uint64
}

func (i *wireQueueInfo) info() QueueInfo {
	return QueueInfo{i.Name, i.Depth, i.Ready, i.Delayed, i.BackingOff, i.InFlight, i.FirstSeq, i.NextSeq}
}

// CreateQueue creates a queue; one that exists with the same options is no error.
func (c *Client) CreateQueue(ctx context.Context, name string, options QueueOptions) (QueueInfo, error) {
	var info wireQueueInfo
	err := c.request(ctx, opQueueCreate, &wireQueueCreate{Name: name, Options: options.toWire()}, opQueueInfoResponse, &info, true)
	return info.info(), err
}

// DeleteQueue deletes a queue with all that it holds.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	return c.request(ctx, opQueueDelete, &wireQueueName{Name: name}, opDone, &wireDone{}, false)
}

// QueueInfo tells about a queue.
func (c *Client) QueueInfo(ctx context.Context, name string) (QueueInfo, error) {
	var info wireQueueInfo
	err := c.request(ctx, opQueueInfo, &wireQueueName{Name: name}, opQueueInfoResponse, &info, true)
	return info.info(), err
}

// CreateGroup creates a consumer group that begins there.
func (c *Client) CreateGroup(ctx context.Context, queue, group string, start StartAt) error {
	message := &wireGroupRequest{Queue: queue, Group: group, StartAt: start.toWire()}
	return c.request(ctx, opGroupCreate, message, opDone, &wireDone{}, false)
}

// Seek makes a group of a stream go on there; its leases and attempts end.
func (c *Client) Seek(ctx context.Context, stream, group string, to StartAt) error {
	return c.request(ctx, opSeek, &wireGroupRequest{Queue: stream, Group: group, StartAt: to.toWire()}, opDone, &wireDone{}, true)
}

// AckThrough settles all messages of a stream for a group, up to and including that offset.
func (c *Client) AckThrough(ctx context.Context, stream, group string, offset uint64) error {
	return c.request(ctx, opCommitOffset, &wireCommitOffset{Queue: stream, Group: group, Offset: offset}, opDone, &wireDone{}, true)
}

// Peek reads stored messages from a position on, without leases and without a group.
func (c *Client) Peek(ctx context.Context, queue string, from uint64, limit int) ([]*Delivery, error) {
	var fetched wireFetched
	message := &wirePeek{Queue: queue, FromSeq: from, Max: uint32(max(limit, 1))}
	if err := c.request(ctx, opPeek, message, opFetched, &fetched, true); err != nil {
		return nil, err
	}
	deliveries := make([]*Delivery, len(fetched.Messages))
	for i, d := range fetched.Messages {
		deliveries[i] = c.newDelivery(queue, d, nil)
	}
	return deliveries, nil
}
