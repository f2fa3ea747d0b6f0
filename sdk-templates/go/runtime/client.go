// Package qwerq is the Go client of QWER-Q: it publishes, consumes, calls and serves over one connection that comes back by itself.
//
// Generated code puts types on top of it (Queue, Service). A call here leaves work for the client's goroutine, which runs one session
// after another (session.go); everything that the two share is guarded by one lock, which nobody holds while waiting.
package qwerq

import (
	"context"
	"sync"
)

// Client is a connection to a broker. It may be used by any number of goroutines. Close it.
type Client struct {
	settings settings
	window   *window
	// Rings when there is work for the session.
	bell chan struct{}
	// Ends dialling when the client is closed, and everything when Close has no more time.
	closingContext context.Context
	startClosing   context.CancelFunc
	abortContext   context.Context
	abort          context.CancelFunc
	// Closed when the client's goroutine has ended.
	ended chan struct{}

	mu               sync.Mutex
	session          *session // nil while there is no connection
	out              []*request
	lanes            map[destination]*lane
	listed           []*lane
	subscriptions    map[uint32]*Subscription
	lastRequest      uint32
	lastSubscription uint32
	frameRoom        int  // what one frame carries beside its overhead, in bytes, as last negotiated
	cluster          bool // the broker, when last heard, was a node of a cluster
	retryKeys        *retryKeys
	closing          bool
	closers          []chan error
	err              error // why there is no connection any more
}

// Dial connects to the broker at host:port, or to the leader of a cluster by some of its nodes, a:9876,b:9876,c:9876, and says HELLO. It
// tries each address once, in random order, and goes to the leader that a node names; while a cluster has no leader it keeps trying for ten
// seconds. ctx bounds the dialling only.
func Dial(ctx context.Context, address string, options ...DialOption) (*Client, error) {
	c := &Client{
		settings: newSettings(address, options), bell: make(chan struct{}, 1), ended: make(chan struct{}),
		lanes: map[destination]*lane{}, subscriptions: map[uint32]*Subscription{}, retryKeys: newRetryKeys(),
	}
	c.window = newWindow(c.settings.windowMessages, c.settings.windowBytes)
	link, err := c.connectPatiently(ctx)
	if err != nil {
		return nil, err
	}
	c.abortContext, c.abort = context.WithCancel(context.WithoutCancel(ctx))
	c.closingContext, c.startClosing = context.WithCancel(c.abortContext)
	s := c.newSession(link)
	go c.run(s)
	return c, nil
}

// Connected reports whether there is a connection right now. Without one, work waits for the next.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != nil
}

// Done is closed when the client has ended: closed, or out of patience.
func (c *Client) Done() <-chan struct{} { return c.ended }

// Err says why the client has ended; nil while it has not.
func (c *Client) Err() error {
	select {
	case <-c.ended:
		return c.err
	default:
		return nil
	}
}

// Close sends what is waiting, waits for its confirmation, releases all leases and closes the connection. What is asked after it gets
// ErrClosed. When ctx ends first the connection is cut; then, and when it was lost before all was confirmed, Close says so.
func (c *Client) Close(ctx context.Context) error {
	closed := make(chan error, 1)
	c.mu.Lock()
	select {
	case <-c.ended:
		c.mu.Unlock()
		return nil
	default:
	}
	c.closers = append(c.closers, closed)
	c.beginClosing()
	c.mu.Unlock()
	select {
	case err := <-closed:
		<-c.ended
		return err
	case <-ctx.Done():
		c.cut()
		<-c.ended
		return ctx.Err()
	}
}

// cut ends everything at once, also a write to a socket that takes nothing.
func (c *Client) cut() {
	c.abort()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != nil {
		c.session.conn.Close()
	}
}

// beginClosing: nothing new is taken from here on. Under the lock.
func (c *Client) beginClosing() {
	if c.closing {
		return
	}
	c.closing = true
	c.startClosing()
	c.window.close()
	for _, s := range c.subscriptions {
		s.end(nil)
	}
	if c.session != nil {
		c.session.cancelWaiting()
	}
	c.ring()
}

func (c *Client) ring() {
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

// run lives as long as the client: session after session, and the waits between them.
func (c *Client) run(s *session) {
	defer close(c.ended)
	defer c.abort()
	patience := &backoff{policy: c.settings.reconnect}
	for {
		leader, closed := s.run()
		if leader == "" {
			// Whoever led last is the likeliest to lead again.
			leader = s.address
		}
		c.mu.Lock()
		c.session = nil
		if closed {
			s.closed()
			c.fail(ErrClosed)
			c.mu.Unlock()
			return
		}
		s.lost()
		c.mu.Unlock()
		patience.connectedFor(s.lasted())
		link, err := c.reconnect(patience, leader)
		if err != nil {
			c.mu.Lock()
			c.fail(err)
			c.mu.Unlock()
			return
		}
		s = c.newSession(link)
	}
}

// fail: there will be no further connection; everybody is told why. Under the lock.
func (c *Client) fail(err error) {
	c.err = err
	c.beginClosing()
	unsent := false
	for _, l := range c.listed {
		for _, b := range l.batches {
			unsent = true
			// What had been sent on an earlier connection may be stored, whatever became of the later ones.
			if b.lostAt.IsZero() {
				c.resolveAll(b, err)
			} else {
				c.resolveAll(b, &DisconnectedError{MaybeStored: true})
			}
		}
		l.batches = nil
	}
	c.listed = nil
	for _, s := range c.subscriptions {
		s.disconnected()
		if err == ErrClosed {
			s.end(nil)
		} else {
			s.end(err)
		}
	}
	clear(c.subscriptions)
	for _, r := range c.out {
		unsent = unsent || r.kind == kindRequest && r.done != nil
		if r.kind == kindUnsubscribe {
			r.answer(answer{})
		} else {
			r.answer(answer{err: err})
		}
	}
	c.out = nil
	for _, closer := range c.closers {
		if unsent {
			closer <- &DisconnectedError{}
		} else {
			closer <- nil
		}
	}
	c.closers = nil
}

// ask sends a request and waits for its reply. What repeats may be sent again after a lost connection, because twice is like once.
func (c *Client) ask(ctx context.Context, op opcode, message any, repeats bool) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	payload := marshal(message)
	if err := c.checkFrame(len(payload)); err != nil {
		return answer{}, err
	}
	answered := make(chan answer, 1)
	r := &request{op: op, kind: kindRequest, payload: payload, repeats: repeats, done: func(a answer) { answered <- a }}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return answer{}, ErrClosed
	}
	r.id = c.nextRequest()
	c.out = append(c.out, r)
	c.ring()
	c.mu.Unlock()
	select {
	case a := <-answered:
		return a, a.err
	case <-ctx.Done():
	}
	c.cancel(r)
	select {
	case a := <-answered: // it was faster
		return a, a.err
	default:
		return answer{}, ctx.Err()
	}
}

// request asks and decodes the reply into `into`.
func (c *Client) request(ctx context.Context, op opcode, message any, expected opcode, into any, repeats bool) error {
	a, err := c.ask(ctx, op, message, repeats)
	if err != nil {
		return err
	}
	return a.frame.decode(expected, into)
}

// cancel: nobody waits for the request any more. What does not wait is answered by the time a cancellation could arrive.
func (c *Client) cancel(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.done = nil
	if s := c.session; s != nil && s.sent[r.id] == r {
		delete(s.sent, r.id)
		if r.mayWait() {
			c.postLocked(opCancel, &wireCancel{RequestID: r.id})
		}
		c.ring()
	}
}

// postLocked sends a frame that has no reply; it is lost with its connection. Under the lock.
func (c *Client) postLocked(op opcode, message any) {
	if c.session != nil {
		c.out = append(c.out, &request{op: op, kind: kindPost, payload: marshal(message)})
		c.ring()
	}
}

func (c *Client) nextRequest() uint32 {
	c.lastRequest++
	if c.lastRequest == 0 {
		c.lastRequest = 1
	}
	return c.lastRequest
}

// checkFrame refuses what no frame of this connection can carry; the queue's own limit is the broker's to judge.
func (c *Client) checkFrame(bytes int) error {
	c.mu.Lock()
	room := c.frameRoom
	c.mu.Unlock()
	if bytes <= room {
		return nil
	}
	return tooLarge(bytes, room)
}
