// A worker over a subscription: settles what a function returns, so that nobody forgets to.

package qwerq

import (
	"context"
	"errors"
	"sync"
)

// Handle gives each message of a queue to a function, at most Concurrency (1) at once, and settles it: nil acknowledges, an error made by
// Reject rejects, another nacks with its text as the reason. It runs until ctx ends, whose error it then returns, or the subscription
// ends. Handle returns after the last call of the function has. One that fails because ctx has ended gives its message back uncounted.
func (c *Client) Handle(ctx context.Context, queue string, handler func(context.Context, *Delivery) error, options ...ConsumeOption) error {
	o := newConsumeOptions(options)
	o.concurrency = max(o.concurrency, 1)
	if o.prefetch == 0 {
		o.prefetch = max(prefetchDefault, o.concurrency)
	}
	s, err := c.subscribe(ctx, queue, o, false)
	if err != nil {
		return err
	}
	defer s.leave()
	var workers sync.WaitGroup
	errs := make([]error, o.concurrency)
	for i := range errs {
		workers.Add(1)
		go func() {
			defer workers.Done()
			errs[i] = s.work(ctx, handler)
		}()
	}
	workers.Wait()
	for _, err := range errs {
		if !errors.Is(err, ErrEnded) {
			return err
		}
	}
	return ErrEnded
}

func (s *Subscription) work(ctx context.Context, handler func(context.Context, *Delivery) error) error {
	for {
		d, err := s.Next(ctx)
		if err != nil {
			return err
		}
		// A lease that has ended meanwhile needs no settling: the message comes again.
		_ = d.settle(verdict(ctx, handler(ctx, d)))
	}
}

func verdict(ctx context.Context, err error) say {
	var rejected *rejection
	switch {
	case err == nil:
		return say{op: opAck}
	case errors.As(err, &rejected):
		return say{op: opReject, reason: err.Error()}
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return say{op: opRelease}
	default:
		return say{op: opNack, reason: err.Error()}
	}
}

type rejection struct{ error }

func (r *rejection) Unwrap() error { return r.error }

// Reject makes an error that Handle rejects the message for: it goes to failure handling at once.
func Reject(err error) error { return &rejection{err} }
