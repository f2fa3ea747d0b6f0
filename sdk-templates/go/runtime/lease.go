// The leases that one connection holds: when they must be renewed, and what is to be said about them. A lease ends with its connection.
// Settling is a note; the session turns notes into frames, many leases each. All of it is guarded by the client's lock.

package qwerq

import (
	"context"
	"time"
)

const (
	// Leases of one frame at most.
	noteLeasesMax = 4096
	// A lease is renewed when this part of its length has passed. Sweeps happen as often, so that no lease is older than twice that
	// part, a third, when it is renewed.
	renewPart = 6
)

type lease struct {
	session      *session
	id           []byte
	subscription uint32 // 0: it came by FETCH
	grantedAt    time.Time
	renewedAt    time.Time
	length       time.Duration
	renew        bool
	held         bool
}

// say is what is said about leases; the same thing said about several of them is one frame.
type say struct {
	op       opcode
	hasDelay bool
	delayMS  uint64
	lengthMS uint64
	reason   string
}

type note struct {
	say
	leases [][]byte
	// Who waits for each answer; nil: nothing is to be answered.
	waiters []chan error
}

func (n *note) payload() []byte {
	buf := make([]byte, 0, len(n.leases)*(2+24)+16)
	for _, id := range n.leases {
		buf = appendBytes(buf, 1, id)
	}
	rest := wireSettle{Confirm: n.waiters != nil, Reason: n.reason, VisibilityTimeoutMS: n.lengthMS}
	if n.hasDelay {
		rest.DelayMS = &n.delayMS
	}
	return append(buf, marshal(&rest)...)
}

func (n *note) fail(err error) {
	for _, waiter := range n.waiters {
		waiter <- err
	}
}

func part(length time.Duration) time.Duration { return max(length/renewPart, time.Millisecond) }

// hold takes down a lease that was just granted.
func (s *session) hold(id []byte, subscription uint32, length time.Duration, renew bool, now time.Time) *lease {
	l := &lease{
		session: s, id: id, subscription: subscription, grantedAt: now, renewedAt: now, length: length,
		renew: renew && length > 0, held: !s.over,
	}
	if !l.held {
		return l
	}
	s.leases[l] = struct{}{}
	if l.renew {
		s.sweepBy(now.Add(part(length)))
	}
	return l
}

func (s *session) sweepBy(due time.Time) {
	if s.sweepDue.IsZero() || due.Before(s.sweepDue) {
		s.sweepDue = due
	}
}

// sweep writes down the renewals that are due, and gives up those that are too old.
func (s *session) sweep(now time.Time) {
	if s.sweepDue.IsZero() || now.Before(s.sweepDue) {
		return
	}
	s.sweepDue = time.Time{}
	for l := range s.leases {
		l.renew = l.renew && now.Sub(l.grantedAt) < s.client.settings.maxLease
		if !l.renew {
			continue
		}
		if now.Sub(l.renewedAt) >= part(l.length) {
			l.renewedAt = now
			s.write(say{op: opExtendVisibility, lengthMS: milliseconds(l.length)}, l.id, false)
		}
		s.sweepBy(now.Add(part(l.length)))
	}
}

// write adds a lease to a note that says the same, or to a new one.
func (s *session) write(what say, id []byte, confirm bool) chan error {
	n := s.noteFor(what, confirm)
	n.leases = append(n.leases, id)
	if !confirm {
		return nil
	}
	waiter := make(chan error, 1)
	n.waiters = append(n.waiters, waiter)
	return waiter
}

// noteFor: a confirmation also says that what was said before it has been heard, so it never joins an earlier note.
func (s *session) noteFor(what say, confirm bool) *note {
	first := 0
	if confirm {
		first = max(len(s.notes)-1, 0)
	}
	for _, n := range s.notes[first:] {
		if n.say == what && (n.waiters != nil) == confirm && len(n.leases) < noteLeasesMax {
			return n
		}
	}
	n := &note{say: what}
	if confirm {
		n.waiters = []chan error{}
	}
	s.notes = append(s.notes, n)
	return n
}

// lose: the broker has taken back the leases of a subscription.
func (s *session) lose(subscription uint32) {
	for l := range s.leases {
		if l.subscription == subscription {
			s.drop(l)
		}
	}
}

func (s *session) drop(l *lease) {
	l.held = false
	delete(s.leases, l)
}

// settle ends a lease; what is said goes out with the next frame.
func (c *Client) settle(l *lease, what say, confirm bool) (chan error, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !l.held {
		return nil, staleLease()
	}
	l.session.drop(l)
	waiter := l.session.write(what, l.id, confirm)
	c.ring()
	return waiter, nil
}

// abandon: nobody will settle the lease any more, so it is no longer renewed and runs to its end.
func (c *Client) abandon(l *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.held {
		l.session.drop(l)
	}
}

func (c *Client) extend(ctx context.Context, l *lease, length time.Duration) error {
	c.mu.Lock()
	if !l.held {
		c.mu.Unlock()
		return staleLease()
	}
	l.length = length
	waiter := l.session.write(say{op: opExtendVisibility, lengthMS: milliseconds(length)}, l.id, true)
	l.session.sweepBy(l.renewedAt.Add(part(length)))
	c.ring()
	c.mu.Unlock()
	return await(ctx, waiter)
}

func await(ctx context.Context, waiter chan error) error {
	select {
	case err := <-waiter:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
