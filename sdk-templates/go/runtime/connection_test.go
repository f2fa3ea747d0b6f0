package qwerq

import (
	"context"
	"errors"
	"testing"
	"time"
)

var ctx = context.Background()

func TestDialSaysWhoItIsAndWhatItMayDo(t *testing.T) {
	b := newScripted(t)
	done := in(func() error {
		c, err := Dial(ctx, b.address(), WithToken("secret"), WithName("billing"))
		if err == nil {
			c.kill()
		}
		return err
	})
	p := b.acceptBare()
	var hello wireHello
	p.expect(opHello, &hello)
	if hello.MinProtocol != 1 || hello.MaxProtocol != 1 || hello.Token != "secret" || hello.ClientName != "billing" {
		t.Errorf("%+v", hello)
	}
	p.send(opHelloAck, 0, &b.ack)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDialFailsWithTheReason(t *testing.T) {
	b := newScripted(t)
	for _, c := range []struct {
		name   string
		answer func(*peer)
		is     error
	}{
		{"unauthorized", func(p *peer) { p.send(opError, 0, ErrUnauthorized.toWire("no token")) }, ErrUnauthorized},
		{"version", func(p *peer) { p.send(opError, 0, ErrVersionUnsupported.toWire("too old")) }, ErrVersionUnsupported},
		{"protocol", func(p *peer) { p.send(opError, 0, ErrVersionUnsupported.toWire("too old")) }, ErrProtocol},
		{"draining", func(p *peer) { p.send(opError, 0, ErrDraining.toWire("going down")) }, ErrConnect},
		{"closed", func(p *peer) {}, ErrConnect},
		{"not a broker", func(p *peer) { p.conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, ErrProtocol},
	} {
		done := in(func() error { _, err := Dial(ctx, b.address()); return err })
		p := b.acceptBare()
		p.expect(opHello, &wireHello{})
		c.answer(p)
		p.conn.Close()
		if err := <-done; !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Dial(ended, b.address()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestEveryAddressIsTried(t *testing.T) {
	b, gone := newScripted(t), newScripted(t)
	gone.listener.Close()
	done := in(func() error {
		c, err := Dial(ctx, gone.address(), WithAddress(b.address()))
		if err == nil {
			c.kill()
		}
		return err
	})
	b.accept()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCloseConfirmsWhatWasSaidAndLeaves(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial()
	opening := make(chan *Subscription, 1)
	done := in(func() error {
		s, err := c.Subscribe(ctx, "orders")
		opening <- s
		return err
	})
	consume := p.opens("default")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s := <-opening
	p.deliver(consume.Subscription, 60_000, 1)
	d, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Ack(); err != nil {
		t.Fatal(err)
	}
	closing := in(func() error { return c.Close(ctx) })
	var settle wireSettle
	if id := p.expect(opAck, &settle); id != 0 || settle.Confirm || len(settle.LeaseIDs) != 1 {
		t.Errorf("ack: %d %+v", id, settle)
	}
	settle = wireSettle{}
	id := p.expect(opAck, &settle)
	if !settle.Confirm || len(settle.LeaseIDs) != 0 {
		t.Errorf("confirmation: %+v", settle)
	}
	p.send(opSettled, id, &wireSettled{})
	var unsubscribe wireUnsubscribe
	id = p.expect(opUnsubscribe, &unsubscribe)
	p.send(opSubscriptionEnded, id, &wireSubscriptionEnded{Subscription: unsubscribe.Subscription})
	p.expectGone()
	if err := <-closing; err != nil {
		t.Error(err)
	}
	if _, err := c.Publish(ctx, "orders", nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Next(ctx); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	if err := c.Close(ctx); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestCloseWithoutTimeCutsTheConnection(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial()
	publishing := in(func() error { _, err := c.Publish(ctx, "orders", nil); return err })
	p.expect(opPublish, &wirePublish{})
	hurried, cancel := context.WithCancel(ctx)
	closing := in(func() error { return c.Close(hurried) })
	cancel()
	if err := <-closing; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-publishing; !errors.Is(err, ErrDisconnected) {
		t.Error(err)
	}
}

func TestARequestThatMayHaveBeenCarriedOutIsToldAndOneThatRepeatsIsSentAgain(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial()
	deleting := in(func() error { return c.DeleteQueue(ctx, "orders") })
	p.expect(opQueueDelete, &wireQueueName{})
	asking := in(func() error { _, err := c.QueueInfo(ctx, "orders"); return err })
	p.expect(opQueueInfo, &wireQueueName{})
	p.conn.Close()
	p = b.accept()
	id := p.expect(opQueueInfo, &wireQueueName{})
	p.send(opQueueInfoResponse, id, &wireQueueInfo{Name: "orders"})
	if err := <-asking; err != nil {
		t.Error(err)
	}
	var lost *DisconnectedError
	if err := <-deleting; !errors.As(err, &lost) || !lost.MaybeStored {
		t.Error(err)
	}
}

func TestSilenceEndsTheConnectionAndHeartbeatsKeepIt(t *testing.T) {
	b := newScripted(t)
	b.ack.HeartbeatMS = 20
	_, p := b.dial()
	f, err := readFrame(p.reader, maxFrameBytesDefault)
	if err != nil || f.op != opHeartbeat {
		t.Errorf("%v %v", f.op, err)
	}
	// This broker says nothing, so the client comes again.
	b.accept()
}

func TestGoAwaySettlesAndGoesToTheLeader(t *testing.T) {
	b, leader := newScripted(t), newScripted(t)
	c, p := b.dial()
	opening := in(func() error { _, err := c.Subscribe(ctx, "orders", Group("billing")); return err })
	consume := p.opens("billing")
	if err := <-opening; err != nil {
		t.Fatal(err)
	}
	p.send(opGoAway, 0, &wireGoAway{Reason: "draining", Leader: leader.address()})
	p.expectGone()
	p = leader.accept()
	if again := p.opens("billing"); again.Subscription != consume.Subscription || again.Group != "billing" {
		t.Errorf("%+v", again)
	}
}

func TestATokenThatIsRefusedLaterEndsTheClient(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial()
	p.conn.Close()
	p = b.acceptBare()
	p.expect(opHello, &wireHello{})
	p.send(opError, 0, ErrUnauthorized.toWire("the token has changed"))
	<-c.Done()
	if !errors.Is(c.Err(), ErrUnauthorized) || c.Connected() {
		t.Error(c.Err())
	}
	if _, err := c.Publish(ctx, "orders", nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestPatienceEnds(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial(WithReconnect(Reconnect{Attempts: 2}))
	b.listener.Close()
	p.conn.Close()
	<-c.Done()
	if !errors.Is(c.Err(), ErrConnect) {
		t.Error(c.Err())
	}
	c, p = newScripted(t).dial(WithReconnect(Reconnect{Attempts: -1}))
	p.conn.Close()
	<-c.Done()
	if !errors.Is(c.Err(), ErrDisconnected) {
		t.Error(c.Err())
	}
}

func TestTheWaitsDoubleUpToTheLimitAndStartAgainAfterAGoodConnection(t *testing.T) {
	b := &backoff{policy: Reconnect{First: 100 * time.Millisecond, Max: 10 * time.Second}}
	for _, longest := range []int{100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000} {
		if got := b.longest(); got != time.Duration(longest)*time.Millisecond {
			t.Errorf("%v instead of %d ms", got, longest)
		}
		if pause, ok := b.next(); !ok || pause > b.longest() {
			t.Errorf("%v %v", pause, ok)
		}
	}
	b.connected()
	b.connectedFor(time.Second)
	if b.longest() != 10*time.Second {
		t.Error("a connection that did not last is no good one")
	}
	b.connectedFor(6 * time.Second)
	if b.longest() != 100*time.Millisecond {
		t.Error(b.longest())
	}
}
