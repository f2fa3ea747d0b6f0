// Request and reply through a queue: Call asks, Serve answers. Nothing is stored; deadlines end everything.

package qwerq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How long a call waits when its context has no deadline.
const callTimeoutDefault = 30 * time.Second

var errResponderLeaves = Fail(ErrResponderLost, "the responder is leaving; call again")

// Request is what a handler of calls gets.
type Request struct {
	// Queue is the queue that was called.
	Queue string
	// Payload is the request's payload.
	Payload []byte
	// Headers are the request's headers.
	Headers Headers
	// SchemaVersion is the contract version that the request was accepted under; 0 on a queue without one.
	SchemaVersion uint32
}

// Reply is a call's answer.
type Reply struct {
	// Payload is the reply's payload.
	Payload []byte
	// Headers are the reply's headers.
	Headers Headers
}

// Call asks whoever serves the queue and waits for the reply until ctx ends, 30 s if it has no deadline. The error is ErrNoResponders,
// ErrResponderLost, ErrOverloaded or ErrTimeout, or what the responder answered. Of the options only headers count.
func (c *Client) Call(ctx context.Context, queue string, payload []byte, options ...PublishOption) (Reply, error) {
	return c.call(ctx, destination{queue: queue}, payload, options)
}

func (c *Client) call(ctx context.Context, to destination, payload []byte, options []PublishOption) (Reply, error) {
	var o publishOptions
	for _, option := range options {
		option(&o)
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeoutDefault)
		defer cancel()
		deadline, _ = ctx.Deadline()
	}
	call := &wireCall{
		Queue: to.queue, Payload: payload, Headers: toWireHeaders(o.headers), TimeoutMS: milliseconds(time.Until(deadline)),
		Contract: []byte(to.contract),
	}
	var response wireCallResponse
	if err := c.request(ctx, opCall, call, opCallResponse, &response, false); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return Reply{}, &Error{
				Code: ErrTimeout, Name: ErrTimeout.String(), Message: fmt.Sprintf("nobody on queue %s replied in time", to.queue), cause: err,
			}
		}
		return Reply{}, err
	}
	if response.Error != nil {
		return Reply{}, response.Error.fromWire()
	}
	return Reply{response.Payload, fromWireHeaders(response.Headers)}, nil
}

// Serve answers the calls of a queue until ctx ends, whose error it then returns, or until serving ends otherwise. The handler runs in
// goroutines, at most Concurrency (32) at once, with a context that ends when the caller stops waiting. An error made by Fail reaches the
// caller with its code, another as ErrInternal with its text. Serve returns after the last handler has.
func (c *Client) Serve(ctx context.Context, queue string, handler func(context.Context, *Request) (Reply, error), options ...ConsumeOption) error {
	o := newConsumeOptions(options)
	if o.concurrency == 0 {
		o.concurrency = prefetchDefault
	}
	o.prefetch = o.concurrency
	s, err := c.subscribe(ctx, queue, o, true)
	if err != nil {
		return err
	}
	var handlers sync.WaitGroup
	defer handlers.Wait()
	defer s.leave()
	places := make(chan struct{}, o.concurrency)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		call, err := next(ctx, s, s.nextCall)
		if err != nil {
			return err
		}
		handlers.Add(1)
		go func() {
			defer handlers.Done()
			defer func() { <-places }()
			call.serve(ctx, c, queue, handler)
		}()
	}
}

// Together runs functions beside each other until ctx ends or one of them returns, whose error it then gives, after the others have
// returned, too: their context ends.
func Together(ctx context.Context, functions ...func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	for _, function := range functions {
		running.Add(1)
		go func() {
			defer running.Done()
			stop(function(ctx))
		}()
	}
	running.Wait()
	return context.Cause(ctx)
}

// nextCall takes the next call whose caller still waits. Under the client's lock.
func (s *Subscription) nextCall() (*incomingCall, bool) {
	for len(s.calls) > 0 {
		call := s.calls[0]
		s.calls = s.calls[1:]
		if time.Now().Before(call.deadline) {
			return call, true
		}
	}
	return nil, false
}

type incomingCall struct {
	session  *session
	wire     *wireCall
	deadline time.Time
}

func (i *incomingCall) serve(ctx context.Context, c *Client, queue string, handler func(context.Context, *Request) (Reply, error)) {
	ctx, cancel := context.WithDeadline(ctx, i.deadline)
	defer cancel()
	answered := false
	defer func() {
		// Only a panic or runtime.Goexit leaves the caller without an answer.
		if !answered {
			i.reply(c, &wireCallResponse{Error: toWireError(Fail(ErrInternal, "the responder failed without a reply"))})
		}
	}()
	request := &Request{queue, i.wire.Payload, fromWireHeaders(i.wire.Headers), i.wire.SchemaVersion}
	reply, err := handler(ctx, request)
	answered = true
	if err != nil {
		i.reply(c, &wireCallResponse{Error: toWireError(err)})
		return
	}
	i.reply(c, &wireCallResponse{Payload: reply.Payload, Headers: toWireHeaders(reply.Headers)})
}

func (i *incomingCall) reply(c *Client, response *wireCallResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i.answer(c, response)
}

// answer: on another connection nobody knows the call any more; its caller has been told. Under the client's lock.
func (i *incomingCall) answer(c *Client, response *wireCallResponse) {
	if c.session == i.session {
		response.CallID = i.wire.CallID
		c.postLocked(opCallResponse, response)
	}
}
