package qwerq

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// What a client does when brokers are nodes of a cluster: it finds the leader, follows it, and what it publishes is stored once.

// newNode is a scripted node of a cluster.
func newNode(t *testing.T) *scripted {
	t.Helper()
	b := newScripted(t)
	b.ack.Features = []string{featureCluster}
	return b
}

func notLeading(leader *scripted) *wireError {
	said := ErrNotLeader.toWire("this node does not lead")
	if leader == nil {
		said.RetryAfterMS = 1
	} else {
		said.Details = map[string]string{"leader": leader.address()}
	}
	return said
}

// redirect takes a connection and says that this node does not lead.
func (b *scripted) redirect(leader *scripted) {
	b.t.Helper()
	p := b.acceptBare()
	p.expect(opHello, &wireHello{})
	p.send(opError, 0, notLeading(leader))
	p.conn.Close()
}

type dialled struct {
	client *Client
	err    error
}

// dialling dials beside the test; the client ends with it.
func dialling(t *testing.T, address string, options ...DialOption) <-chan dialled {
	done := make(chan dialled, 1)
	go func() {
		c, err := Dial(ctx, address, append([]DialOption{WithReconnect(Reconnect{Max: 1})}, options...)...)
		if err == nil {
			t.Cleanup(c.kill)
		}
		done <- dialled{c, err}
	}()
	return done
}

func (b *scripted) leads(done <-chan dialled) (*Client, *peer) {
	b.t.Helper()
	p := b.accept()
	d := <-done
	if d.err != nil {
		b.t.Fatal(d.err)
	}
	return d.client, p
}

func keysOf(publish *wirePublish) []string {
	var keys []string
	for _, item := range publish.Items {
		keys = append(keys, item.IdempotencyKey)
	}
	return keys
}

func TestANodeThatDoesNotLeadSendsTheClientToTheOneThatDoes(t *testing.T) {
	follower, leader := newNode(t), newNode(t)
	done := dialling(t, follower.address())
	follower.redirect(leader)
	p := leader.acceptBare()
	var hello wireHello
	p.expect(opHello, &hello)
	if !slices.Equal(hello.Features, []string{"cluster"}) {
		t.Errorf("features %q", hello.Features)
	}
	p.send(opHelloAck, 0, &leader.ack)
	if d := <-done; d.err != nil {
		t.Fatal(d.err)
	}
}

func TestALeaderThatIsGoneDoesNotKeepTheClientFromTheOtherNodes(t *testing.T) {
	one, other, gone := newNode(t), newNode(t), newNode(t)
	gone.listener.Close()
	done := dialling(t, one.address()+", "+other.address())
	// Both still believe in it, and then one of them leads, whichever is asked first.
	led := make(chan struct{}, 2)
	for _, b := range []*scripted{one, other} {
		go func() {
			b.redirect(gone)
			if conn, err := b.listener.Accept(); err == nil {
				p := &peer{b.t, conn, bufio.NewReader(conn)}
				defer conn.Close()
				p.expect(opHello, &wireHello{})
				p.send(opHelloAck, 0, &b.ack)
			}
			led <- struct{}{}
		}()
	}
	if d := <-done; d.err != nil {
		t.Fatal(d.err)
	}
	one.listener.Close()
	other.listener.Close()
	<-led
	<-led
}

func TestAClientThatIsToldOfNoLeaderAsksAgain(t *testing.T) {
	node := newNode(t)
	done := dialling(t, node.address())
	node.redirect(nil)
	node.redirect(nil)
	node.leads(done)
}

func TestAfterALostConnectionTheLastLeaderIsAskedFirst(t *testing.T) {
	seed, last, next := newNode(t), newNode(t), newNode(t)
	done := dialling(t, seed.address())
	seed.redirect(last)
	_, p := last.leads(done)
	seed.listener.Close()
	p.conn.Close()
	last.redirect(next)
	next.accept()
}

func TestAPublishWhoseLeaderIsLostIsSentAgainUnderTheSameKey(t *testing.T) {
	b := newNode(t)
	c, p := b.dial()
	plain, err := c.Submit(ctx, "q", []byte("plain"))
	if err != nil {
		t.Fatal(err)
	}
	var first wirePublish
	p.expect(opPublish, &first)
	keyed, err := c.Submit(ctx, "q", []byte("keyed"), IdempotencyKey("k"))
	if err != nil {
		t.Fatal(err)
	}
	var second wirePublish
	p.expect(opPublish, &second)
	if key := keysOf(&first)[0]; !strings.HasPrefix(key, retryMark) || !strings.HasSuffix(key, "1.0") || len(key) != 1+retryClientChars+3 {
		t.Errorf("key %q", key)
	}
	if !slices.Equal(keysOf(&second), []string{"k"}) {
		t.Errorf("keys %q", keysOf(&second))
	}
	p.conn.Close()
	p = b.accept()
	duplicate := true
	for i, want := range []*wirePublish{&first, &second} {
		var again wirePublish
		id := p.expect(opPublish, &again)
		if !reflect.DeepEqual(&again, want) {
			t.Errorf("%+v instead of %+v", again, want)
		}
		seq := uint64(4 + i)
		p.send(opPublishAck, id, &wirePublishAck{Results: []*wirePublishResult{{ID: make([]byte, 16), Seq: &seq, Duplicate: duplicate}}})
	}
	// The caller published it once; what its own key says is its own affair.
	if got, err := plain.Wait(ctx); err != nil || got.Seq != 4 || got.Duplicate {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := keyed.Wait(ctx); err != nil || got.Seq != 5 || !got.Duplicate {
		t.Errorf("%+v %v", got, err)
	}
}

func TestAClientThatGivesUpSaysOfWhatItHasSentThatItMayBeStored(t *testing.T) {
	b := newNode(t)
	c, p := b.dial(WithReconnect(Reconnect{Attempts: -1}))
	receipt, err := c.Submit(ctx, "q", []byte("m"))
	if err != nil {
		t.Fatal(err)
	}
	p.expect(opPublish, &wirePublish{})
	p.conn.Close()
	var lost *DisconnectedError
	if _, err := receipt.Wait(ctx); !errors.As(err, &lost) || !lost.MaybeStored {
		t.Error(err)
	}
}

func TestARefusalByANodeThatLeadsNoMoreIsNoAnswer(t *testing.T) {
	for _, byItem := range []bool{false, true} {
		b, next := newNode(t), newNode(t)
		c, p := b.dial()
		receipt, err := c.Submit(ctx, "q", []byte("m"))
		if err != nil {
			t.Fatal(err)
		}
		var first, again wirePublish
		id := p.expect(opPublish, &first)
		if byItem {
			p.send(opPublishAck, id, &wirePublishAck{Results: []*wirePublishResult{{Error: notLeading(next)}}})
		} else {
			p.send(opError, id, notLeading(next))
		}
		p.expectGone()
		p = next.accept()
		id = p.expect(opPublish, &again)
		if !reflect.DeepEqual(first, again) {
			t.Errorf("%+v instead of %+v", again, first)
		}
		p.acceptPublish(id, &again, 7)
		if got, err := receipt.Wait(ctx); err != nil || got.Seq != 7 {
			t.Errorf("%+v %v", got, err)
		}
	}
}

func TestAnAtomicBatchIsSentAgainAsAWhole(t *testing.T) {
	b := newNode(t)
	c, p := b.dial()
	done := in(func() error {
		_, err := c.PublishAtomic(ctx, "q", []Outgoing{{Payload: []byte("1")}, {Payload: []byte("2")}})
		return err
	})
	var first, again wirePublish
	p.expect(opPublish, &first)
	p.conn.Close()
	p = b.accept()
	id := p.expect(opPublish, &again)
	if keys := keysOf(&again); !reflect.DeepEqual(first, again) || !again.Atomic || keys[0] == keys[1] {
		t.Errorf("%+v instead of %+v", again, first)
	}
	p.acceptPublish(id, &again, 0)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWhatTheBrokerMayHaveForgottenIsNotSentAgain(t *testing.T) {
	c := &Client{cluster: true, retryKeys: newRetryKeys(), window: newWindow(10, 1000)}
	late, fresh := &batch{lostAt: time.Now().Add(-retryBudget - time.Second)}, &batch{lostAt: time.Now()}
	for _, b := range []*batch{late, fresh} {
		item, keyed, retry := c.withKey([]byte("m"), false)
		b.append(item, keyed, retry, 0, 0)
	}
	if c.inTime(fresh) != fresh || c.inTime(late) != nil {
		t.Error("the wrong one is late")
	}
	var lost *DisconnectedError
	if _, err := late.entries[0].receipt.Wait(ctx); !errors.As(err, &lost) || !lost.MaybeStored {
		t.Error(err)
	}
}

func TestABrokerThatRunsAloneIsSentNoKeysOfTheClientsOwn(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial()
	if _, err := c.Submit(ctx, "q", []byte("m")); err != nil {
		t.Fatal(err)
	}
	var publish wirePublish
	p.expect(opPublish, &publish)
	if !slices.Equal(keysOf(&publish), []string{""}) {
		t.Errorf("keys %q", keysOf(&publish))
	}
}

func TestACallWhoseLeaderIsLostSaysThatNobodyKnowsWhetherItRan(t *testing.T) {
	b, next := newNode(t), newNode(t)
	c, p := b.dial()
	done := in(func() error {
		_, err := c.Call(ctx, "q", []byte("m"))
		return err
	})
	p.expect(opCall, &wireCall{})
	p.send(opError, 0, notLeading(next))
	next.accept()
	if err := <-done; !errors.Is(err, ErrResponderLost) || !IsRetryable(err) || !strings.Contains(err.Error(), "whether it ran is not known") {
		t.Error(err)
	}
}

func TestSubscriptionsMoveToTheNewLeaderAndOldLeasesAreStale(t *testing.T) {
	b, next := newNode(t), newNode(t)
	c, p := b.dial()
	opened := make(chan *Subscription, 1)
	done := in(func() error {
		s, err := c.Subscribe(ctx, "q", Group("g"))
		opened <- s
		return err
	})
	consume := p.opens("g")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s := <-opened
	p.deliver(consume.Subscription, 60_000, 1)
	held, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.send(opError, 0, notLeading(next))
	p = next.accept()
	if again := p.opens("g"); !reflect.DeepEqual(again, consume) {
		t.Errorf("%+v instead of %+v", again, consume)
	}
	if err := held.Ack(); !errors.Is(err, ErrStaleLease) {
		t.Error(err)
	}
	p.deliver(consume.Subscription, 60_000, 1)
	if d, err := s.Next(ctx); err != nil || d.Seq != 1 {
		t.Errorf("%v %v", d, err)
	}
}

func TestARoundHasTheLeaderFirstEverySeedOnceAndFewHops(t *testing.T) {
	seeds := addressesOf("a:1, b:1,,c:1")
	r := newRoute("b:1", seeds)
	first, _ := r.next()
	seen := map[string]bool{first: true}
	for address, more := r.next(); more; address, more = r.next() {
		seen[address] = true
	}
	if first != "b:1" || !slices.Equal(slices.Sorted(maps.Keys(seen)), seeds) {
		t.Errorf("%s first, then %v", first, seen)
	}
	r = newRoute("0:1", nil)
	for hop, want := range []string{"0:1", "1:1", "2:1", "3:1", ""} {
		if address, _ := r.next(); address != want {
			t.Errorf("hop %d: %q instead of %q", hop, address, want)
		}
		r.redirect("0:1")
		r.redirect(string(rune('1'+hop)) + ":1")
	}
}

func TestAKeyNamesItsClientItsNumberAndHowFarBackTheOldestOpenOneIs(t *testing.T) {
	keys := newRetryKeys()
	expect := func(want string) {
		t.Helper()
		if _, key := keys.take(); key != retryMark+keys.client+want {
			t.Errorf("%q instead of %s", key, want)
		}
	}
	expect("1.0")
	expect("2.1")
	expect("3.2")
	keys.settle(2)
	expect("4.3")
	keys.settle(1)
	expect("5.2")
	keys.settle(3)
	keys.settle(5)
	keys.settle(4)
	expect("6.0")
	if newRetryKeys().client == keys.client {
		t.Error("two clients have one name")
	}
	many := newRetryKeys()
	for range retryNumbersKept {
		many.take()
	}
	kept := many.isKept(1)
	many.take()
	if !kept || many.isKept(1) || !many.isKept(2) {
		t.Error("the wrong numbers are kept")
	}
}

func TestTheFirstConnectionEndsWithItsContextWhileNobodyLeads(t *testing.T) {
	node := newNode(t)
	ended, cancel := context.WithCancel(ctx)
	done := in(func() error { _, err := Dial(ended, node.address()); return err })
	node.redirect(nil)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
