package qwerq

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestACallCarriesItsDeadlineAndGivesTheReplyOrTheReason(t *testing.T) {
	c, p := newScripted(t).dial()
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, answer := range []struct {
		reply *wireCallResponse
		op    opcode
		is    error
	}{
		{&wireCallResponse{Payload: []byte("yes")}, opCallResponse, nil},
		{&wireCallResponse{Error: ErrInvalidArgument.toWire("no")}, opCallResponse, ErrInvalidArgument},
		{nil, opError, ErrNoResponders},
	} {
		var reply Reply
		calling := in(func() (err error) {
			reply, err = c.Call(limited, "pricing", []byte("?"), AddHeader("a", "b"))
			return err
		})
		var call wireCall
		id := p.expect(opCall, &call)
		if call.Queue != "pricing" || string(call.Payload) != "?" || call.TimeoutMS < 50_000 || call.TimeoutMS > 60_000 || call.Headers[0].Name != "a" {
			t.Errorf("%+v", call)
		}
		if answer.reply != nil {
			p.send(answer.op, id, answer.reply)
		} else {
			p.send(answer.op, id, ErrNoResponders.toWire("nobody"))
		}
		err := <-calling
		if answer.is == nil && (err != nil || string(reply.Payload) != "yes") || answer.is != nil && !errors.Is(err, answer.is) {
			t.Errorf("%v: %v", answer.is, err)
		}
	}
}

func TestACallPastItsDeadlineIsATimeoutAndIsCancelled(t *testing.T) {
	c, p := newScripted(t).dial()
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := c.Call(short, "pricing", nil)
	if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	stopped, cancel := context.WithCancel(ctx)
	calling := in(func() error { _, err := c.Call(stopped, "slow", nil); return err })
	var call wireCall
	var id uint32
	for call.Queue != "slow" {
		// The first may or may not have been written before its time was over.
		if f := p.next(); f.op == opCall {
			call, id = wireCall{}, f.id
			if err := f.decode(opCall, &call); err != nil {
				t.Fatal(err)
			}
			if call.TimeoutMS > 30_000 {
				t.Errorf("%+v", call)
			}
		}
	}
	cancel()
	if err := <-calling; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var cancelled wireCancel
	for cancelled.RequestID != id {
		p.expect(opCancel, &cancelled)
	}
}

func TestServeAnswersCallsBesideEachOther(t *testing.T) {
	c, p := newScripted(t).dial()
	service := NewService[*wrapperspb.Int32Value, *wrapperspb.StringValue](c, &Contract{Queue: "names"})
	stop, cancel := context.WithCancel(ctx)
	second := make(chan struct{})
	serving := in(func() error {
		return service.Serve(stop, func(ctx context.Context, n *wrapperspb.Int32Value) (*wrapperspb.StringValue, error) {
			switch n.Value {
			case 1:
				<-second // Only another handler can free this one.
				return wrapperspb.String("one"), nil
			case 2:
				close(second)
				return nil, Fail(ErrQueueFull, "two is too many")
			case 3:
				<-ctx.Done()
				return nil, ctx.Err()
			default:
				return nil, errors.New("no such number")
			}
		}, Concurrency(2))
	})
	var consume wireConsume
	id := p.expect(opConsume, &consume)
	if consume.Role != roleServe || consume.Prefetch != 2 || consume.Concurrency != 2 {
		t.Errorf("%+v", consume)
	}
	p.send(opConsumeAck, id, &wireConsumeAck{Subscription: consume.Subscription})
	call := func(n byte, timeout uint64) {
		p.send(opCall, 0, &wireCall{CallID: []byte{n}, Subscription: consume.Subscription, TimeoutMS: timeout, Payload: []byte{8, n}})
	}
	call(1, 60_000)
	call(2, 60_000)
	seen := map[byte]string{}
	answer := func() {
		var response wireCallResponse
		p.expect(opCallResponse, &response)
		text := string(response.Payload)
		if response.Error != nil {
			text = fmt.Sprint(response.Error.Code, " ", response.Error.Message)
		}
		seen[response.CallID[0]] = text
	}
	answer()
	answer()
	call(3, 1)
	answer()
	call(4, 60_000)
	answer()
	p.send(opCall, 0, &wireCall{CallID: []byte{5}, Subscription: consume.Subscription, TimeoutMS: 60_000, Payload: []byte{0xff}})
	answer()
	want := map[byte]string{
		1: "\n\x03one", 2: "1007 two is too many", 3: "2003 context deadline exceeded", 4: "4001 no such number", 5: seen[5],
	}
	if fmt.Sprint(seen) != fmt.Sprint(want) || seen[5][:4] != "1101" {
		t.Errorf("%q", seen)
	}
	cancel()
	if err := <-serving; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var unsubscribe wireUnsubscribe
	p.expect(opUnsubscribe, &unsubscribe)
	// A call that crosses the goodbye is answered, so that its caller need not wait.
	call(6, 60_000)
	answer()
	if seen[6][:4] != "2005" {
		t.Errorf("%q", seen[6])
	}
}

func TestATypedCallDecodesItsReply(t *testing.T) {
	c, p := newScripted(t).dial()
	service := NewService[*wrapperspb.Int32Value, *wrapperspb.StringValue](c, &Contract{Queue: "names", ReplyType: "google.protobuf.StringValue"})
	for payload, want := range map[string]string{"\n\x03Ada": "Ada", "\xff": ""} {
		var reply *wrapperspb.StringValue
		calling := in(func() (err error) { reply, err = service.Call(ctx, wrapperspb.Int32(1)); return err })
		p.send(opCallResponse, p.expect(opCall, &wireCall{}), &wireCallResponse{Payload: []byte(payload)})
		err := <-calling
		var broken *DecodeError
		if want != "" && (err != nil || reply.Value != want) || want == "" && !errors.As(err, &broken) {
			t.Errorf("%q: %v %v", payload, reply, err)
		}
	}
}
