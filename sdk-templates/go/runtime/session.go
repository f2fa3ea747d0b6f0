// One connection, from HELLO_ACK to its end: turns work into bytes and frames into results. Its goroutine writes and keeps the time,
// another one reads; both decide under the client's lock and wait without it. What outlives the connection stays with the client.

package qwerq

import (
	"bufio"
	"net"
	"time"
)

const (
	// Bytes that may wait for the socket before publishes are left in their lanes.
	outBytesMax = 1 << 20
	// How often a publish or request is sent again after `overloaded` before the caller gets to know.
	overloadedRetriesMax = 10
	// How long to wait after `overloaded` when the broker does not say.
	overloadedPause = 50 * time.Millisecond
	// How long a subscription waits before it tries again what the broker could not do just then.
	resubscribePause = time.Second
	// How long after GOAWAY what is in flight may take.
	drainLimit = 5 * time.Second
)

type session struct {
	client *Client
	// Where the broker was reached.
	address string
	conn    net.Conn
	reader  *bufio.Reader
	agreed  agreed
	began   time.Time
	// Why the reader has ended.
	broken chan error

	// From here on guarded by the client's lock.
	buf             []byte
	queued, written uint64 // bytes ever put into buf, and ever written
	sent            map[uint32]*request
	publishing      int // PUBLISH frames in sent, and their bytes
	publishingBytes int
	leases          map[*lease]struct{}
	notes           []*note
	sweepDue        time.Time // zero: nothing is to be renewed
	unconfirmed     bool      // leases were settled without asking for a confirmation since the last one
	later           []later
	heardAt, saidAt time.Time
	draining        bool // the broker said GOAWAY: nothing new, and away when all is answered or at that time
	drainUntil      time.Time
	leader          string
	unsubscribed    bool // closing: all has been said
	over            bool
}

// later is work that waits for a time.
type later struct {
	due  time.Time
	work func()
}

func (c *Client) newSession(l *link) *session {
	now := time.Now()
	s := &session{
		client: c, address: l.address, conn: l.conn, reader: l.reader, agreed: l.agreed, began: now, heardAt: now, saidAt: now,
		broken: make(chan error, 1), sent: map[uint32]*request{}, leases: map[*lease]struct{}{},
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frameRoom = max(int(l.agreed.maxFrameBytes)-frameOverheadBytes, 1024)
	c.cluster = l.agreed.cluster
	c.session = s
	waiting := c.out
	c.out = nil
	for _, number := range sortedNumbers(c.subscriptions) {
		c.sendConsume(c.subscriptions[number])
	}
	c.out = append(c.out, waiting...)
	return s
}

// run runs the connection to its end. closed: by this side, everything confirmed; else leader is whom the broker recommends, if anybody.
func (s *session) run() (leader string, closed bool) {
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		s.broken <- s.read()
	}()
	closed, err := s.transmit()
	s.conn.Close()
	<-reading
	if err != nil {
		s.client.settings.log.Warn("qwerq: the connection to the broker is lost", "error", err)
	}
	return s.leader, closed
}

func (s *session) lasted() time.Duration { return time.Since(s.began) }

func (s *session) read() error {
	for {
		f, err := readFrame(s.reader, s.agreed.maxFrameBytes)
		if err != nil {
			return err
		}
		s.client.mu.Lock()
		err = s.receive(f, time.Now())
		s.client.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// transmit picks up work, writes it in few calls, and sleeps when there is none.
func (s *session) transmit() (closed bool, err error) {
	c := s.client
	timer := time.NewTimer(0)
	defer timer.Stop()
	var spare []byte
	for {
		now := time.Now()
		c.mu.Lock()
		err := s.tick(now)
		if err == nil {
			s.pump()
		}
		done := len(s.buf) == 0 && s.done(now)
		closed := c.closing && s.unsubscribed
		buf := s.buf
		s.buf = spare[:0]
		deadline := s.deadline()
		c.mu.Unlock()
		if err != nil || done {
			return closed && err == nil, err
		}
		if len(buf) > 0 {
			if err := s.writeAll(buf, now); err != nil {
				return false, err
			}
			spare = buf
			continue
		}
		timer.Reset(time.Until(deadline))
		select {
		case <-c.bell:
		case <-timer.C:
		case err := <-s.broken:
			return false, err
		case <-c.abortContext.Done():
			return false, ErrClosed
		}
	}
}

func (s *session) writeAll(buf []byte, now time.Time) error {
	s.conn.SetWriteDeadline(now.Add(s.agreed.silence))
	n, err := s.conn.Write(buf)
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	s.written += uint64(n)
	s.saidAt = time.Now()
	return err
}

// done reports whether the session has come to a good end.
func (s *session) done(now time.Time) bool {
	switch {
	case s.client.closing:
		return s.unsubscribed && len(s.sent) == 0
	case s.draining:
		return len(s.sent) == 0 && len(s.leases) == 0 || !now.Before(s.drainUntil)
	default:
		return false
	}
}

// deadline is when tick must be called next.
func (s *session) deadline() time.Time {
	deadline := earlier(s.saidAt.Add(s.agreed.heartbeat), s.heardAt.Add(s.agreed.silence))
	if !s.sweepDue.IsZero() {
		deadline = earlier(deadline, s.sweepDue)
	}
	if s.draining {
		deadline = earlier(deadline, s.drainUntil)
	}
	for _, l := range s.later {
		deadline = earlier(deadline, l.due)
	}
	return deadline
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// tick does what the time demands.
func (s *session) tick(now time.Time) error {
	if !now.Before(s.heardAt.Add(s.agreed.silence)) {
		return protocolError("the broker was silent for %v", s.agreed.silence)
	}
	s.sweep(now)
	waiting := s.later
	s.later = nil
	for _, l := range waiting {
		if now.Before(l.due) {
			s.later = append(s.later, l)
		} else {
			l.work()
		}
	}
	if !now.Before(s.saidAt.Add(s.agreed.heartbeat)) {
		s.put(opHeartbeat, 0, nil)
		s.saidAt = now
	}
	return nil
}

// pump turns what waits into bytes, as far as the connection takes it.
func (s *session) pump() {
	c := s.client
	s.sayNotes()
	waiting := c.out
	c.out = nil
	for _, r := range waiting {
		if s.draining && (r.kind == kindRequest || r.kind == kindConsume) {
			c.out = append(c.out, r)
		} else {
			s.send(r)
		}
	}
	s.publishLanes()
	if c.closing {
		s.finishClosing()
	}
}

func (s *session) sayNotes() {
	notes := s.notes
	s.notes = nil
	for _, n := range notes {
		s.sayNote(n)
	}
}

func (s *session) sayNote(n *note) {
	r := &request{op: n.op, kind: kindNote, payload: n.payload(), note: n}
	if n.waiters != nil {
		r.id = s.client.nextRequest()
		s.unconfirmed = false
	} else if n.op != opExtendVisibility {
		s.unconfirmed = true
	}
	s.send(r)
}

func (s *session) send(r *request) {
	if r.kind == kindRequest && r.done == nil {
		return
	}
	if len(r.payload)+4 > int(s.agreed.maxFrameBytes) {
		r.answer(answer{err: tooLarge(len(r.payload), int(s.agreed.maxFrameBytes)-4)})
		if r.batch != nil {
			s.client.resolveAll(r.batch, tooLarge(len(r.payload), int(s.agreed.maxFrameBytes)-4))
		}
		return
	}
	s.put(r.op, r.id, r.payload)
	if r.id == 0 {
		return
	}
	r.end = s.queued
	s.sent[r.id] = r
	if r.kind == kindPublish {
		s.publishing++
		s.publishingBytes += len(r.batch.items)
	}
}

func (s *session) put(op opcode, id uint32, payload []byte) {
	before := len(s.buf)
	s.buf = appendFrame(s.buf, op, id, payload)
	s.queued += uint64(len(s.buf) - before)
}

// publishLanes turns waiting batches into PUBLISH frames, lane after lane, as far as window and buffer allow.
func (s *session) publishLanes() {
	c := s.client
	for !s.draining && len(c.listed) > 0 && s.mayPublish() {
		l := c.listed[0]
		c.listed = c.listed[1:]
		if len(l.batches) == 0 {
			l.listed = false
			continue
		}
		b := l.batches[0]
		l.batches = l.batches[1:]
		b.open = false
		c.listed = append(c.listed, l)
		if b = c.inTime(b); b == nil {
			continue
		}
		s.send(&request{id: c.nextRequest(), op: opPublish, kind: kindPublish, payload: l.payload(b), lane: l, batch: b})
	}
}

func (s *session) mayPublish() bool {
	room := s.publishing < s.agreed.windowRequests && s.publishingBytes+batchBytesMax < s.agreed.windowBytes
	return len(s.buf) < outBytesMax && (s.publishing == 0 || room)
}

// finishClosing: when all that a closing client had to say is answered, its subscriptions end, which releases their leases.
func (s *session) finishClosing() {
	c := s.client
	if s.unsubscribed || len(s.sent) > 0 || len(s.later) > 0 || len(c.listed) > 0 || len(c.out) > 0 {
		return
	}
	if s.unconfirmed {
		// A confirmation of nothing confirms what was said before it.
		s.sayNote(&note{say: say{op: opAck}, waiters: []chan error{}})
		return
	}
	s.unsubscribed = true
	for _, number := range sortedNumbers(c.subscriptions) {
		c.unsubscribeLocked(c.subscriptions[number], false)
	}
	for _, r := range c.out {
		s.send(r)
	}
	c.out = nil
}

// cancelWaiting: what may wait for others is not waited for when the client closes.
func (s *session) cancelWaiting() {
	c := s.client
	kept := c.out[:0]
	for _, r := range c.out {
		if r.kind == kindRequest && r.mayWait() {
			r.answer(answer{err: ErrClosed})
		} else {
			kept = append(kept, r)
		}
	}
	c.out = kept
	for id, r := range s.sent {
		if r.kind == kindRequest && r.mayWait() {
			delete(s.sent, id)
			r.answer(answer{err: ErrClosed})
			c.postLocked(opCancel, &wireCancel{RequestID: id})
		}
	}
}
