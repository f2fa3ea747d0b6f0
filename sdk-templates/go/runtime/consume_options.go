// How to read a queue: by subscription, by fetching, or by serving its calls.

package qwerq

import (
	"fmt"
	"time"
)

// ConsumeOption changes how a queue is read.
type ConsumeOption func(*consumeOptions)

type consumeOptions struct {
	group       string
	prefetch    uint32
	bytes       uint64
	concurrency uint32
	visibility  time.Duration
	start       *StartAt
	tail        bool
	contract    []byte
	// Of a fetch only.
	wait     time.Duration
	detached bool
}

func newConsumeOptions(options []ConsumeOption) *consumeOptions {
	o := &consumeOptions{}
	for _, option := range options {
		option(o)
	}
	return o
}

const (
	prefetchDefault      = 32
	prefetchBytesDefault = 16 << 20
)

// Group consumes in that group. Without it: the group `default` on a queue; on a stream no group, but a reader of its own.
func Group(name string) ConsumeOption { return func(o *consumeOptions) { o.group = name } }

// Prefetch holds at most so many unsettled messages. Default: 32.
func Prefetch(messages uint32) ConsumeOption {
	return func(o *consumeOptions) { o.prefetch = messages }
}

// PrefetchBytes holds at most so many unsettled payload bytes; one message is delivered even if it is larger. Default: 16 MiB.
func PrefetchBytes(bytes uint64) ConsumeOption { return func(o *consumeOptions) { o.bytes = bytes } }

// Concurrency says how many messages are worked on at once; only the oldest so many count an attempt when the connection is lost.
// Default: 1; for calls 32.
func Concurrency(messages uint32) ConsumeOption {
	return func(o *consumeOptions) { o.concurrency = messages }
}

// VisibilityTimeout sets how long a lease lasts between renewals. Default: as the queue says.
func VisibilityTimeout(timeout time.Duration) ConsumeOption {
	return func(o *consumeOptions) { o.visibility = timeout }
}

// From says where a new group, or a reader without one, begins.
func From(start StartAt) ConsumeOption { return func(o *consumeOptions) { o.start = &start } }

// Tail follows what is published from now on, without a group and without leases.
func Tail() ConsumeOption { return func(o *consumeOptions) { o.tail = true } }

// Wait says how long a fetch waits for the first message. Default: it does not. Of no effect elsewhere.
func Wait(limit time.Duration) ConsumeOption { return func(o *consumeOptions) { o.wait = limit } }

// Detached makes the leases of a fetch outlive the connection. They are not renewed: they end by timeout, or by whoever presents the lease
// id. Of no effect elsewhere.
func Detached() ConsumeOption { return func(o *consumeOptions) { o.detached = true } }

func withContract(fingerprint []byte) ConsumeOption {
	return func(o *consumeOptions) { o.contract = fingerprint }
}

// StartAt is where a group or a reader begins.
type StartAt struct{ wire wireStartAt }

// Beginning is the oldest message that is there.
func Beginning() StartAt { yes := true; return StartAt{wireStartAt{Beginning: &yes}} }

// End is what is published from now on.
func End() StartAt { yes := true; return StartAt{wireStartAt{End: &yes}} }

// Offset is the message at that position, or the first after it.
func Offset(offset uint64) StartAt { return StartAt{wireStartAt{Offset: &offset}} }

// Time is the first message published at or after that time.
func Time(t time.Time) StartAt {
	ms := epochMilliseconds(t)
	return StartAt{wireStartAt{TimeMS: &ms}}
}

func (s *StartAt) toWire() *wireStartAt {
	if s == nil {
		return nil
	}
	return &s.wire
}

func (s StartAt) String() string {
	switch w := s.wire; {
	case w.Beginning != nil:
		return "the beginning"
	case w.Offset != nil:
		return fmt.Sprintf("offset %d", *w.Offset)
	case w.TimeMS != nil:
		return time.UnixMilli(int64(*w.TimeMS)).UTC().Format(time.RFC3339Nano)
	default:
		return "the end"
	}
}
