package qwerq

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestAPublishCarriesItsOptionsAndGivesTheReceipt(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial()
	id := NewMessageID()
	var receipt Published
	done := in(func() (err error) {
		receipt, err = c.Publish(ctx, "orders", []byte("x"), AddHeader("a", "1"), AddHeader("b", "2"), OrderingKey("k"), IdempotencyKey("i"),
			Delay(0), TTL(90*time.Second), ID(id))
		return err
	})
	var publish wirePublish
	request := p.expect(opPublish, &publish)
	item := publish.Items[0]
	if publish.Queue != "orders" || string(item.Payload) != "x" || item.OrderingKey != "k" || item.IdempotencyKey != "i" ||
		*item.DelayMS != 0 || item.DeliverAtMS != nil || *item.TtlMS != 90_000 || string(item.ID) != string(id[:]) ||
		fmt.Sprint(fromWireHeaders(item.Headers)) != "[{a 1} {b 2}]" {
		t.Errorf("%+v", item)
	}
	seq := uint64(7)
	p.send(opPublishAck, request, &wirePublishAck{
		Durability: 4, ContractUnknown: true,
		Results: []*wirePublishResult{{ID: id[:], Seq: &seq, SchemaVersion: 3, Duplicate: true}},
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want := Published{ID: id, Seq: 7, SchemaVersion: 3, Duplicate: true, ContractUnknown: true, Durability: DurabilityQuorum}
	if receipt != want {
		t.Errorf("%+v", receipt)
	}
}

func TestAnIDPrintsAsAULID(t *testing.T) {
	id := MessageID{0x01, 0x93, 0x80, 0x1f, 0x8a, 0x4c, 0x7d, 0x2e, 0x9f, 0x3b, 0x5a, 0x6c, 0x7d, 0x8e, 0x9f, 0x00}
	if id.String() != "01JE01Z2JCFMQ9YETTDHYRX7R0" {
		t.Error(id)
	}
}

func TestOneBadMessageDoesNotFailItsNeighbours(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial()
	var results []Result
	done := in(func() error {
		results = c.PublishBatch(ctx, "orders", []Outgoing{{Payload: []byte("a")}, {Payload: []byte("b")}, {Payload: []byte("c")}})
		return nil
	})
	for left := 3; left > 0; {
		var publish wirePublish
		id := p.expect(opPublish, &publish)
		left -= len(publish.Items)
		ack := wirePublishAck{}
		for _, item := range publish.Items {
			result := &wirePublishResult{ID: make([]byte, 16)}
			if string(item.Payload) == "b" {
				result = &wirePublishResult{Error: &wireError{
					Code: 1101, Name: "schema-violation", Message: "no", Details: map[string]string{"path": "lines[3].price", "offset": "17"},
				}}
			}
			ack.Results = append(ack.Results, result)
		}
		p.send(opPublishAck, id, &ack)
	}
	<-done
	if results[0].Err != nil || results[2].Err != nil || !results[0].Published.Delayed {
		t.Errorf("%+v", results)
	}
	var said *Error
	if !errors.As(results[1].Err, &said) || !errors.Is(results[1].Err, ErrSchemaViolation) || errors.Is(results[1].Err, ErrQueueFull) ||
		said.Path() != "lines[3].price" {
		t.Error(results[1].Err)
	}
	if offset, ok := said.Offset(); !ok || offset != 17 {
		t.Error(offset, ok)
	}
}

func TestAnAtomicPublishIsOneFrameAndBlamesTheRightMessage(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial(WithPublishWindow(2, 10))
	publishing := func() <-chan error {
		return in(func() error {
			_, err := c.PublishAtomic(ctx, "orders", []Outgoing{{Payload: []byte("a")}, {Payload: []byte("b")}, {Payload: []byte("c")}})
			return err
		})
	}
	done := publishing()
	var publish wirePublish
	id := p.expect(opPublish, &publish)
	if !publish.Atomic || len(publish.Items) != 3 {
		t.Errorf("%+v", publish)
	}
	other := &wirePublishResult{Error: ErrAtomicRefused.toWire("another")}
	p.send(opPublishAck, id, &wirePublishAck{Results: []*wirePublishResult{other, {Error: ErrQueueFull.toWire("full")}, other}})
	if err := <-done; !errors.Is(err, ErrQueueFull) {
		t.Error(err)
	}
	// What the batch took from the window is back.
	done = publishing()
	publish = wirePublish{}
	p.acceptPublish(p.expect(opPublish, &publish), &publish, 1)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTheWindowHoldsPublishersBackAndContextsLetThemGo(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial(WithPublishWindow(2, 1000))
	first, err := c.Submit(ctx, "orders", []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(ctx, "orders", []byte("b")); err != nil {
		t.Fatal(err)
	}
	impatient, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := c.Submit(impatient, "orders", []byte("c")); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	waiting := in(func() error { _, err := c.Publish(ctx, "orders", []byte("d")); return err })
	seen := ""
	for len(seen) < 3 {
		var publish wirePublish
		id := p.expect(opPublish, &publish)
		for _, item := range publish.Items {
			seen += string(item.Payload)
		}
		p.acceptPublish(id, &publish, 1)
	}
	if seen != "abd" {
		t.Error(seen)
	}
	if _, err := first.Wait(ctx); err != nil {
		t.Error(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

func TestTheBrokersWindowIsKept(t *testing.T) {
	b := newScripted(t)
	b.ack.PublishWindowRequests = 1
	c, p := b.dial()
	submit := func(payload string) {
		if _, err := c.Submit(ctx, "orders", []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	submit("a")
	var publish wirePublish
	first := p.expect(opPublish, &publish)
	submit("b")
	submit("c")
	asking := in(func() error { _, err := c.QueueInfo(ctx, "orders"); return err })
	// Behind the first PUBLISH comes the question, not the second one.
	p.send(opQueueInfoResponse, p.expect(opQueueInfo, &wireQueueName{}), &wireQueueInfo{})
	if err := <-asking; err != nil {
		t.Fatal(err)
	}
	count := len(publish.Items)
	p.acceptPublish(first, &publish, 1)
	for count < 3 {
		publish = wirePublish{}
		id := p.expect(opPublish, &publish)
		count += len(publish.Items)
		p.acceptPublish(id, &publish, 1)
	}
}

func TestOverloadedIsTriedAgain(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial()
	done := in(func() error { _, err := c.Publish(ctx, "orders", []byte("a")); return err })
	var publish wirePublish
	id := p.expect(opPublish, &publish)
	overloaded := ErrOverloaded.toWire("too much")
	overloaded.RetryAfterMS = 1
	p.send(opError, id, overloaded)
	id = p.expect(opPublish, &publish)
	p.send(opPublishAck, id, &wirePublishAck{Results: []*wirePublishResult{{Error: overloaded}}})
	publish = wirePublish{}
	p.acceptPublish(p.expect(opPublish, &publish), &publish, 1)
	if err := <-done; err != nil {
		t.Error(err)
	}
	done = in(func() error { _, err := c.Publish(ctx, "orders", []byte("a")); return err })
	for range overloadedRetriesMax + 1 {
		p.send(opError, p.expect(opPublish, &wirePublish{}), overloaded)
	}
	if err := <-done; !errors.Is(err, ErrOverloaded) || !IsRetryable(err) {
		t.Error(err)
	}
}

func TestAfterALossOnlyWhatHasAKeyIsSentAgain(t *testing.T) {
	b := newScripted(t)
	c, p := b.dial()
	plain := in(func() error { _, err := c.Publish(ctx, "orders", []byte("plain")); return err })
	p.expect(opPublish, &wirePublish{})
	keyed := in(func() error { _, err := c.Publish(ctx, "orders", []byte("keyed"), IdempotencyKey("k")); return err })
	p.expect(opPublish, &wirePublish{})
	p.conn.Close()
	p = b.accept()
	var publish wirePublish
	id := p.expect(opPublish, &publish)
	if len(publish.Items) != 1 || string(publish.Items[0].Payload) != "keyed" {
		t.Errorf("%+v", publish)
	}
	p.acceptPublish(id, &publish, 1)
	if err := <-keyed; err != nil {
		t.Error(err)
	}
	var lost *DisconnectedError
	if err := <-plain; !errors.As(err, &lost) || !lost.MaybeStored || !IsRetryable(err) {
		t.Error(err)
	}
}

func TestWhatNoFrameCarriesIsRefusedHere(t *testing.T) {
	b := newScripted(t)
	b.ack.MaxFrameBytes = 128 << 10
	c, _ := b.dial()
	if _, err := c.Publish(ctx, "orders", make([]byte, 70<<10)); !errors.Is(err, ErrMessageTooLarge) {
		t.Error(err)
	}
	if _, err := c.Call(ctx, "orders", make([]byte, 70<<10)); !errors.Is(err, ErrMessageTooLarge) {
		t.Error(err)
	}
}
