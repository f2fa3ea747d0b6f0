package qwerq

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

func (b *scripted) subscribe(options ...ConsumeOption) (*Client, *peer, *Subscription, uint32) {
	b.t.Helper()
	c, p := b.dial()
	var s *Subscription
	opening := in(func() (err error) { s, err = c.Subscribe(ctx, "orders", options...); return err })
	consume := p.opens("billing")
	if err := <-opening; err != nil {
		b.t.Fatal(err)
	}
	return c, p, s, consume.Subscription
}

func take(t *testing.T, s *Subscription) *Delivery {
	t.Helper()
	d, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAConsumeCarriesItsOptions(t *testing.T) {
	c, p := newScripted(t).dial()
	opening := in(func() error {
		_, err := c.Subscribe(ctx, "orders", Group("g"), Prefetch(7), PrefetchBytes(9), Concurrency(3), VisibilityTimeout(time.Second), From(Offset(5)))
		return err
	})
	var consume wireConsume
	id := p.expect(opConsume, &consume)
	if consume.Queue != "orders" || consume.Group != "g" || consume.Prefetch != 7 || consume.PrefetchBytes != 9 || consume.Concurrency != 3 ||
		consume.VisibilityTimeoutMS != 1000 || *consume.StartAt.Offset != 5 || consume.Role != 0 {
		t.Errorf("%+v", consume)
	}
	p.send(opError, id, ErrGroupRequired.toWire("say which"))
	if err := <-opening; !errors.Is(err, ErrGroupRequired) {
		t.Error(err)
	}
	impatient, cancel := context.WithCancel(ctx)
	opening = in(func() error { _, err := c.Subscribe(impatient, "orders", Tail()); return err })
	consume = wireConsume{}
	p.expect(opConsume, &consume)
	cancel()
	if err := <-opening; !errors.Is(err, context.Canceled) || consume.Role != roleTail {
		t.Error(err)
	}
	var unsubscribe wireUnsubscribe
	if p.expect(opUnsubscribe, &unsubscribe); unsubscribe.Subscription != consume.Subscription {
		t.Errorf("%+v", unsubscribe)
	}
}

func TestEverySettlementIsAFrameOfItsKindAndEqualOnesShareOne(t *testing.T) {
	_, p, s, number := newScripted(t).subscribe()
	p.deliver(number, 60_000, 1, 2, 3, 4, 5, 6)
	for _, settle := range []func(*Delivery) error{
		(*Delivery).Ack,
		func(d *Delivery) error { return d.Nack("later") },
		func(d *Delivery) error { return d.NackAfter(0, "now") },
		func(d *Delivery) error { return d.Reject("bad") },
		(*Delivery).Release,
	} {
		if err := settle(take(t, s)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct {
		op     opcode
		delay  bool
		reason string
		lease  byte
	}{{opAck, false, "", 1}, {opNack, false, "later", 2}, {opNack, true, "now", 3}, {opReject, false, "bad", 4}, {opRelease, false, "", 5}} {
		var settle wireSettle
		id := p.expect(want.op, &settle)
		if id != 0 || settle.Confirm || (settle.DelayMS != nil) != want.delay || settle.Reason != want.reason || settle.LeaseIDs[0][0] != want.lease {
			t.Errorf("%s: %+v", want.op, settle)
		}
	}
	d := take(t, s)
	acking := in(func() error { return d.AckConfirmed(ctx) })
	var settle wireSettle
	id := p.expect(opAck, &settle)
	if !settle.Confirm {
		t.Errorf("%+v", settle)
	}
	p.send(opSettled, id, &wireSettled{Refused: []*wireRefusedLease{{Error: ErrStaleLease.toWire("too late")}}})
	if err := <-acking; !errors.Is(err, ErrStaleLease) {
		t.Error(err)
	}
	if err := d.Ack(); !errors.Is(err, ErrStaleLease) || !d.Stale() {
		t.Errorf("settled twice: %v", err)
	}
}

func TestAcksOfOneMomentShareAFrame(t *testing.T) {
	c, p, s, number := newScripted(t).subscribe()
	p.deliver(number, 60_000, 1, 2, 3)
	deliveries := []*Delivery{take(t, s), take(t, s), take(t, s)}
	c.mu.Lock() // The session cannot look in between.
	for _, d := range deliveries {
		d.lease.session.write(say{op: opAck}, d.lease.id, false)
	}
	c.ring()
	c.mu.Unlock()
	var settle wireSettle
	if p.expect(opAck, &settle); len(settle.LeaseIDs) != 3 {
		t.Errorf("%d leases", len(settle.LeaseIDs))
	}
}

func TestLeasesAreRenewedInBatchesWhileAnybodyHoldsThem(t *testing.T) {
	_, p, s, number := newScripted(t).subscribe()
	p.deliver(number, 120, 1, 2, 3)
	working := take(t, s)
	if err := take(t, s).Ack(); err != nil {
		t.Fatal(err)
	}
	p.expect(opAck, &wireSettle{})
	// One is being worked on, one waits, one is settled.
	for range 3 {
		var extend wireSettle
		p.expect(opExtendVisibility, &extend)
		ids := map[byte]bool{}
		for _, id := range extend.LeaseIDs {
			ids[id[0]] = true
		}
		if len(ids) != 2 || !ids[1] || !ids[3] || extend.VisibilityTimeoutMS != 120 || extend.Confirm {
			t.Errorf("%+v", extend)
		}
	}
	extending := in(func() error { return working.Extend(ctx, time.Hour) })
	for {
		var extend wireSettle
		if id := p.expect(opExtendVisibility, &extend); id != 0 {
			if extend.VisibilityTimeoutMS != 3_600_000 || extend.LeaseIDs[0][0] != 1 {
				t.Errorf("%+v", extend)
			}
			p.send(opExtendVisibilityAck, id, &wireSettled{Settled: 1})
			break
		}
	}
	if err := <-extending; err != nil {
		t.Error(err)
	}
}

func TestAForgottenDeliveryIsNoLongerRenewed(t *testing.T) {
	c, p, s, number := newScripted(t).subscribe()
	p.deliver(number, 60_000, 1)
	func() { take(t, s) }()
	for left := 1; left > 0; {
		runtime.GC()
		runtime.Gosched()
		c.mu.Lock()
		left = len(c.session.leases)
		c.mu.Unlock()
	}
}

func TestRenewalsEndAtTheLongestLease(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial(WithMaxLease(0))
	opening := in(func() error { _, err := c.Subscribe(ctx, "orders"); return err })
	consume := p.opens("billing")
	if err := <-opening; err != nil {
		t.Fatal(err)
	}
	p.deliver(consume.Subscription, 6, 1)
	asking := in(func() error { _, err := c.QueueInfo(ctx, "orders"); return err })
	id := p.expect(opQueueInfo, &wireQueueName{})
	for {
		c.mu.Lock()
		swept := c.session.sweepDue.IsZero() && len(c.session.leases) == 1
		c.mu.Unlock()
		if swept {
			break
		}
		runtime.Gosched()
	}
	p.send(opQueueInfoResponse, id, &wireQueueInfo{})
	if err := <-asking; err != nil {
		t.Error(err)
	}
	stopping := in(func() error { _, err := c.QueueInfo(ctx, "orders"); return err })
	if f := p.next(); f.op != opQueueInfo {
		t.Errorf("%s", f.op)
	} else {
		p.send(opQueueInfoResponse, f.id, &wireQueueInfo{})
	}
	<-stopping
}

func TestASubscriptionComesBackAndItsOldLeasesDoNot(t *testing.T) {
	b := newScripted(t)
	_, p, s, number := b.subscribe(Group("billing"))
	p.deliver(number, 60_000, 1, 2)
	old := take(t, s)
	p.conn.Close()
	p = b.accept()
	if again := p.opens("billing"); again.Subscription != number || again.Group != "billing" {
		t.Errorf("%+v", again)
	}
	p.deliver(number, 60_000, 3)
	if d := take(t, s); d.Seq != 3 {
		t.Errorf("%d was not taken before its lease ended, so it comes again", d.Seq)
	}
	if err := old.Ack(); !errors.Is(err, ErrStaleLease) {
		t.Error(err)
	}
}

func TestASubscriptionThatTheBrokerEndsSaysWhyOnce(t *testing.T) {
	_, p, s, number := newScripted(t).subscribe()
	p.deliver(number, 60_000, 1)
	d := take(t, s)
	p.send(opSubscriptionEnded, 0, &wireSubscriptionEnded{Subscription: number, Reason: ErrQueueNotFound.toWire("deleted")})
	if _, err := s.Next(ctx); !errors.Is(err, ErrQueueNotFound) {
		t.Error(err)
	}
	if _, err := s.Next(ctx); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	if err := d.Ack(); !errors.Is(err, ErrStaleLease) {
		t.Error(err)
	}
}

func TestASubscriptionTriesAgainWhatTheBrokerCannotDoJustThen(t *testing.T) {
	b := newScripted(t)
	_, p, s, number := b.subscribe()
	p.conn.Close()
	p = b.accept()
	refusal := ErrStorageFull.toWire("soon")
	refusal.RetryAfterMS = 1
	p.send(opError, p.expect(opConsume, &wireConsume{}), refusal)
	p.opens("billing")
	p.deliver(number, 60_000, 9)
	if d := take(t, s); d.Seq != 9 {
		t.Error(d.Seq)
	}
	p.conn.Close()
	p = b.accept()
	p.send(opError, p.expect(opConsume, &wireConsume{}), ErrQueueNotFound.toWire("gone"))
	if _, err := s.Next(ctx); !errors.Is(err, ErrQueueNotFound) {
		t.Error(err)
	}
}

func TestLeavingTheLoopGivesBackWhatWasNotHandedOut(t *testing.T) {
	c, p := newScripted(t).dial()
	kept := make(chan *Delivery, 1)
	looping := in(func() error {
		for d, err := range c.Consume(ctx, "orders", Group("billing")) {
			if err != nil {
				return err
			}
			kept <- d
			break
		}
		return nil
	})
	consume := p.opens("billing")
	p.deliver(consume.Subscription, 60_000, 1, 2, 3)
	if err := <-looping; err != nil {
		t.Fatal(err)
	}
	var release wireSettle
	if p.expect(opRelease, &release); len(release.LeaseIDs) != 2 || release.LeaseIDs[0][0] != 2 {
		t.Errorf("%+v", release)
	}
	var unsubscribe wireUnsubscribe
	id := p.expect(opUnsubscribe, &unsubscribe)
	if !unsubscribe.KeepLeases {
		t.Error("what was handed out is lost")
	}
	// What crosses the UNSUBSCRIBE goes back as well.
	p.deliver(consume.Subscription, 60_000, 4)
	p.send(opSubscriptionEnded, id, &wireSubscriptionEnded{Subscription: consume.Subscription})
	release = wireSettle{}
	if p.expect(opRelease, &release); release.LeaseIDs[0][0] != 4 {
		t.Errorf("%+v", release)
	}
	if err := (<-kept).Ack(); err != nil {
		t.Error(err)
	}
	p.expect(opAck, &wireSettle{})
}

func TestACancelledLoopSaysSoAndAClosedOneEnds(t *testing.T) {
	c, p := newScripted(t).dial()
	stop, cancel := context.WithCancel(ctx)
	started := make(chan struct{}, 2)
	consume := func(ctx context.Context) error {
		for _, err := range c.Consume(ctx, "orders") {
			if err != nil {
				return err
			}
			started <- struct{}{}
		}
		return nil
	}
	first, second := in(func() error { return consume(stop) }), in(func() error { return consume(ctx) })
	for n := range byte(2) {
		p.deliver(p.opens("default").Subscription, 60_000, n+1)
	}
	<-started
	<-started
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.expect(opUnsubscribe, &wireUnsubscribe{})
	closing := in(func() error { hurried, cancel := context.WithCancel(ctx); cancel(); return c.Close(hurried) })
	if err := <-second; err != nil {
		t.Error(err)
	}
	<-closing
}

func TestClosingASubscriptionReleasesEverything(t *testing.T) {
	_, p, s, number := newScripted(t).subscribe()
	p.deliver(number, 60_000, 1)
	d := take(t, s)
	closing := in(func() error { return s.Close(ctx) })
	var unsubscribe wireUnsubscribe
	id := p.expect(opUnsubscribe, &unsubscribe)
	if unsubscribe.KeepLeases {
		t.Error("the leases stay")
	}
	p.send(opSubscriptionEnded, id, &wireSubscriptionEnded{Subscription: number})
	if err := <-closing; err != nil {
		t.Error(err)
	}
	if err := d.Ack(); !errors.Is(err, ErrStaleLease) {
		t.Error(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestAReaderWithoutLeasesGrantsWhatItHasTaken(t *testing.T) {
	b := newScripted(t)
	_, p, s, number := b.subscribe(Tail(), Prefetch(4))
	send := func(seq uint64) {
		p.send(opMessage, 0, &wireDeliver{Subscription: number, Messages: []*wireDelivered{{Seq: seq, Payload: []byte("x")}}})
	}
	for seq := range uint64(4) {
		send(seq)
	}
	if d := take(t, s); d.LeaseID() != nil || d.Ack() != nil || d.Stale() {
		t.Error("a delivery without a lease settles without a word")
	}
	take(t, s)
	var credit wireCredit
	p.expect(opCredit, &credit)
	if credit != (wireCredit{number, 4, prefetchBytesDefault}) {
		t.Errorf("%+v", credit)
	}
	take(t, s)
	// It keeps its own position, also of what nobody has taken yet.
	p.conn.Close()
	p = b.accept()
	if again := p.opens(""); *again.StartAt.Offset != 4 || again.Role != roleTail {
		t.Errorf("%+v", again)
	}
	if d := take(t, s); d.Seq != 3 {
		t.Error(d.Seq)
	}
}

func TestAPausedSubscriptionStaysPaused(t *testing.T) {
	b := newScripted(t)
	_, p, s, number := b.subscribe()
	if err := s.SetPrefetch(0, 0); err != nil {
		t.Fatal(err)
	}
	p.expect(opCredit, &wireCredit{})
	p.conn.Close()
	p = b.accept()
	p.opens("billing")
	var credit wireCredit
	if p.expect(opCredit, &credit); credit.Subscription != number || credit.Prefetch != 0 {
		t.Errorf("%+v", credit)
	}
}

func TestAFetchIsUnderLeasesAndACancelledOneGivesThemBack(t *testing.T) {
	c, p := newScripted(t).dial()
	var got []*Delivery
	fetching := in(func() (err error) {
		got, err = c.Fetch(ctx, "orders", 2, Group("g"), Wait(time.Second), Detached())
		return err
	})
	var fetch wireFetch
	id := p.expect(opFetch, &fetch)
	if fetch.Queue != "orders" || fetch.Group != "g" || fetch.Max != 2 || fetch.WaitMS != 1000 || !fetch.Detached {
		t.Errorf("%+v", fetch)
	}
	p.send(opFetched, id, &wireFetched{Messages: []*wireDelivered{{LeaseID: leaseID(1), Seq: 1, LeaseMS: 1000}}})
	if err := <-fetching; err != nil || len(got) != 1 || got[0].LeaseID()[0] != 1 {
		t.Fatal(err)
	}
	if err := got[0].Ack(); err != nil {
		t.Fatal(err)
	}
	p.expect(opAck, &wireSettle{})

	impatient, cancel := context.WithCancel(ctx)
	fetching = in(func() error { _, err := c.Fetch(impatient, "orders", 1, Wait(time.Hour)); return err })
	id = p.expect(opFetch, &wireFetch{})
	cancel()
	if err := <-fetching; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var cancelled wireCancel
	if p.expect(opCancel, &cancelled); cancelled.RequestID != id {
		t.Errorf("%+v", cancelled)
	}
	p.send(opFetched, id, &wireFetched{Messages: []*wireDelivered{{LeaseID: leaseID(2), Seq: 2, LeaseMS: 1000}}})
	var release wireSettle
	if p.expect(opRelease, &release); release.LeaseIDs[0][0] != 2 {
		t.Errorf("%+v", release)
	}

	settling := in(func() error { return errors.Join(c.AckLeases(ctx, leaseID(7), leaseID(8))...) })
	var settle wireSettle
	id = p.expect(opAck, &settle)
	p.send(opSettled, id, &wireSettled{Settled: 1, Refused: []*wireRefusedLease{{Index: 1, Error: ErrStaleLease.toWire("old")}}})
	if err := <-settling; !errors.Is(err, ErrStaleLease) || len(settle.LeaseIDs) != 2 {
		t.Error(err)
	}
}

func TestHandleSettlesWhatItsFunctionReturns(t *testing.T) {
	c, p := newScripted(t).dial()
	stop, cancel := context.WithCancel(ctx)
	working := make(chan struct{})
	handling := in(func() error {
		return c.Handle(stop, "orders", func(ctx context.Context, d *Delivery) error {
			switch d.Seq {
			case 4:
				close(working)
				<-ctx.Done()
				return ctx.Err()
			case 1:
				return nil
			case 2:
				return errors.New("not today")
			default:
				return Reject(errors.New("never"))
			}
		}, Concurrency(2))
	})
	consume := p.opens("default")
	if consume.Concurrency != 2 {
		t.Errorf("%+v", consume)
	}
	p.deliver(consume.Subscription, 60_000, 1)
	p.expect(opAck, &wireSettle{})
	var settle wireSettle
	p.deliver(consume.Subscription, 60_000, 2)
	if p.expect(opNack, &settle); settle.Reason != "not today" {
		t.Errorf("%+v", settle)
	}
	settle = wireSettle{}
	p.deliver(consume.Subscription, 60_000, 3)
	if p.expect(opReject, &settle); settle.Reason != "never" {
		t.Errorf("%+v", settle)
	}
	p.deliver(consume.Subscription, 60_000, 4)
	<-working
	cancel()
	if err := <-handling; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	settle = wireSettle{}
	if p.expect(opRelease, &settle); settle.LeaseIDs[0][0] != 4 {
		t.Errorf("%+v", settle)
	}
}

func TestATypedLoopGoesOnAfterAMessageThatDoesNotDecode(t *testing.T) {
	c, p := newScripted(t).dial()
	queue := NewQueue[*wrapperspb.StringValue](c, &Contract{Queue: "names", MessageType: "google.protobuf.StringValue", Fingerprint: strings.Repeat("ab", 32)})
	publishing := in(func() error { _, err := queue.Publish(ctx, wrapperspb.String("Ada")); return err })
	var publish wirePublish
	id := p.expect(opPublish, &publish)
	if publish.Queue != "names" || string(publish.Items[0].Payload) != "\n\x03Ada" || len(publish.Contract) != 32 || publish.Contract[0] != 0xab {
		t.Errorf("%+v", publish)
	}
	p.acceptPublish(id, &publish, 1)
	if err := <-publishing; err != nil {
		t.Fatal(err)
	}
	looping := in(func() error {
		for m, err := range queue.Consume(ctx) {
			var broken *DecodeError
			if errors.As(err, &broken) {
				if broken.Seq != 1 || m.Body != nil {
					t.Errorf("%+v", broken)
				}
				m.Reject(err.Error())
				continue
			}
			if m.Body.Value != "Ada" {
				t.Errorf("%+v", m.Body)
			}
			return m.Ack()
		}
		return nil
	})
	consume := p.opens("default")
	if len(consume.Contract) != 32 {
		t.Errorf("%+v", consume)
	}
	p.send(opMessage, 0, &wireDeliver{Subscription: consume.Subscription, Messages: []*wireDelivered{
		{LeaseID: leaseID(1), Seq: 1, LeaseMS: 60_000, Payload: []byte{0xff}},
		{LeaseID: leaseID(2), Seq: 2, LeaseMS: 60_000, Payload: []byte("\n\x03Ada")},
	}})
	if err := <-looping; err != nil {
		t.Error(err)
	}
}
