// Conversations of the generated Go client with a real broker, whose address and token are in the environment.

package conversation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"example.com/shop/queues"
	"example.com/shop/queues/qwerq"
	shopv1 "example.com/shop/queues/shop/v1"
)

var ctx = context.Background()

func dial(t *testing.T, options ...qwerq.DialOption) *queues.Queues {
	t.Helper()
	options = append([]qwerq.DialOption{qwerq.WithToken(os.Getenv("QWERQ_AUTH_TOKEN"))}, options...)
	c, err := queues.Dial(ctx, os.Getenv("QWERQ_BROKER"), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// one takes the next message of a subscription.
func one(t *testing.T, s *qwerq.TypedSubscription[*shopv1.Order]) *qwerq.Message[*shopv1.Order] {
	t.Helper()
	m, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func subscribe(t *testing.T, queue *qwerq.Queue[*shopv1.Order], options ...qwerq.ConsumeOption) *qwerq.TypedSubscription[*shopv1.Order] {
	t.Helper()
	s, err := queue.Subscribe(ctx, options...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAMessageArrivesAsItLeft(t *testing.T) {
	c := dial(t)
	gift := false
	sent := &shopv1.Order{
		Id: "grün", Least: math.MinInt64, Most: math.MaxUint64, Zigzag: math.MinInt32, Fixed: math.MaxUint64, Real: math.SmallestNonzeroFloat64,
		Raw: []byte{0, 255}, Tags: []string{"", "b"}, Counts: map[string]int32{"": -1, "x": 1}, Gift: &gift,
		Payment: &shopv1.Order_Invoice{Invoice: math.MaxUint32},
	}
	// A field that the schema does not know stays with the message.
	sent.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 100, protowire.VarintType), 7))
	id := qwerq.NewMessageID()
	receipt, err := c.Orders.Publish(ctx, sent, qwerq.AddHeader("trace", "1"), qwerq.OrderingKey("k"), qwerq.ID(id))
	if err != nil {
		t.Fatal(err)
	}
	if receipt.ID != id || receipt.SchemaVersion != 1 || receipt.ContractUnknown || receipt.Durability != qwerq.DurabilityFsync {
		t.Errorf("%+v", receipt)
	}
	for m, err := range c.Orders.Consume(ctx, qwerq.Group("billing")) {
		if err != nil {
			t.Fatal(err)
		}
		trace, _ := m.Headers.Get("trace")
		if !proto.Equal(m.Body, sent) || m.ID != id || m.Attempt != 1 || m.OrderingKey != "k" || trace != "1" || m.SchemaVersion != 1 {
			t.Errorf("%+v", m)
		}
		if err := m.AckConfirmed(ctx); err != nil {
			t.Error(err)
		}
		break
	}
}

func TestTheBrokerSaysWhatItRefuses(t *testing.T) {
	c := dial(t)
	_, err := c.Client().Publish(ctx, "orders", []byte{0x0a, 0x01, 0xff})
	var said *qwerq.Error
	if !errors.Is(err, qwerq.ErrSchemaViolation) || !errors.As(err, &said) || said.Path() != "id" {
		t.Error(err)
	}
	if _, err := c.Client().Publish(ctx, ".no", nil); !errors.Is(err, qwerq.ErrInvalidName) {
		t.Error(err)
	}
	results := c.Client().PublishBatch(ctx, "orders", []qwerq.Outgoing{{}, {Payload: []byte{0xff}}, {}})
	if results[0].Err != nil || !errors.Is(results[1].Err, qwerq.ErrSchemaViolation) || results[2].Err != nil {
		t.Errorf("%+v", results)
	}
	_, err = c.Client().PublishAtomic(ctx, "orders", []qwerq.Outgoing{{}, {Payload: []byte{0xff}}})
	if !errors.Is(err, qwerq.ErrSchemaViolation) {
		t.Error(err)
	}
	_, err = queues.Dial(ctx, os.Getenv("QWERQ_BROKER"), qwerq.WithToken("wrong"))
	if !errors.Is(err, qwerq.ErrUnauthorized) {
		t.Error(err)
	}
}

func TestAnIdempotencyKeyStoresOnce(t *testing.T) {
	c := dial(t)
	order := &shopv1.Order{Id: "once"}
	first, err := c.Dedup.Publish(ctx, order, qwerq.IdempotencyKey("k"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Dedup.Publish(ctx, order, qwerq.IdempotencyKey("k"))
	if err != nil || !second.Duplicate || first.Duplicate || second.ID != first.ID || second.Seq != first.Seq {
		t.Errorf("%+v %+v %v", first, second, err)
	}
}

func TestManyMessagesArriveInOrder(t *testing.T) {
	c := dial(t, qwerq.WithPublishWindow(100, 1<<20))
	const count = 5000
	s := subscribe(t, c.Many, qwerq.Prefetch(200))
	published := make(chan []qwerq.Result, 1)
	go func() {
		orders := make([]*shopv1.Order, count)
		for i := range orders {
			orders[i] = &shopv1.Order{Id: fmt.Sprint(i)}
		}
		published <- c.Many.PublishBatch(ctx, orders)
	}()
	for i := range count {
		m := one(t, s)
		if m.Body.Id != fmt.Sprint(i) {
			t.Fatalf("%s instead of %d", m.Body.Id, i)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	for _, result := range <-published {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if info, err := c.Client().QueueInfo(ctx, "many"); err != nil || info.Depth != 0 {
		t.Errorf("%+v %v", info, err)
	}
}

func TestSettlingDoesWhatItSays(t *testing.T) {
	c := dial(t)
	if _, err := c.Settled.Publish(ctx, &shopv1.Order{Id: "a"}); err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, c.Settled)
	if err := one(t, s).NackAfter(0, "again"); err != nil {
		t.Fatal(err)
	}
	m := one(t, s)
	if m.Attempt != 2 {
		t.Errorf("attempt %d after a nack", m.Attempt)
	}
	if err := m.Release(); err != nil {
		t.Fatal(err)
	}
	m = one(t, s)
	if m.Attempt != 2 {
		t.Errorf("attempt %d after a release", m.Attempt)
	}
	if err := m.Extend(ctx, time.Hour); err != nil {
		t.Error(err)
	}
	if err := m.RejectConfirmed(ctx, "hopeless"); err != nil {
		t.Fatal(err)
	}
	letters, err := c.Client().Fetch(ctx, "settled.dlq", 1, qwerq.Wait(time.Minute))
	if err != nil || len(letters) != 1 {
		t.Fatal(letters, err)
	}
	reason, _ := letters[0].Headers.Get("qwerq-reason")
	text, _ := letters[0].Headers.Get("qwerq-error")
	if reason != "rejected" || text != "hopeless" {
		t.Errorf("%v", letters[0].Headers)
	}
	if err := letters[0].AckConfirmed(ctx); err != nil {
		t.Error(err)
	}
	if err := m.Ack(); !errors.Is(err, qwerq.ErrStaleLease) {
		t.Error(err)
	}
}

func TestALeaseIsRenewedForAsLongAsTheWorkTakes(t *testing.T) {
	c := dial(t)
	if _, err := c.Renewed.Publish(ctx, &shopv1.Order{Id: "a"}); err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, c.Renewed, qwerq.VisibilityTimeout(300*time.Millisecond))
	m := one(t, s)
	// Longer than three leases nobody else gets it.
	others, err := c.Renewed.Fetch(ctx, 1, qwerq.Wait(time.Second))
	if err != nil || len(others) != 0 {
		t.Fatal(others, err)
	}
	if err := m.AckConfirmed(ctx); err != nil {
		t.Error(err)
	}
}

func TestFetchPullsAndWaits(t *testing.T) {
	c := dial(t)
	if none, err := c.Fetched.Fetch(ctx, 3, qwerq.Group("g")); err != nil || len(none) != 0 {
		t.Fatal(none, err)
	}
	got := make(chan error, 1)
	go func() {
		messages, err := c.Fetched.Fetch(ctx, 3, qwerq.Group("g"), qwerq.Wait(time.Minute), qwerq.Detached())
		if err == nil && (len(messages) != 1 || messages[0].Body.Id != "late") {
			err = fmt.Errorf("%v", messages)
		}
		if err == nil {
			err = errors.Join(c.Client().AckLeases(ctx, messages[0].LeaseID())...)
		}
		got <- err
	}()
	if _, err := c.Fetched.Publish(ctx, &shopv1.Order{Id: "late"}); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(ctx)
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Fetched.Fetch(stopped, 1, qwerq.Group("g"), qwerq.Wait(time.Hour))
		waiting <- err
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestStreamsKeepWhatWasRead(t *testing.T) {
	c := dial(t)
	for i := range 100 {
		if _, err := c.Log.Publish(ctx, &shopv1.Order{Id: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	// A reader of its own, with far less credit than there are messages.
	reader := subscribe(t, c.Log, qwerq.From(qwerq.Beginning()), qwerq.Prefetch(4))
	for i := range 100 {
		m := one(t, reader)
		if m.Seq != uint64(i) || m.Body.Id != fmt.Sprint(i) || m.LeaseID() != nil {
			t.Fatalf("%d: %+v", i, m)
		}
	}
	if err := reader.Close(ctx); err != nil {
		t.Error(err)
	}
	grouped := subscribe(t, c.Log, qwerq.Group("g"), qwerq.From(qwerq.Offset(10)))
	if m := one(t, grouped); m.Seq != 10 || m.Ack() != nil {
		t.Errorf("%+v", m)
	}
	if err := grouped.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Client().AckThrough(ctx, "log", "g", 50); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Log.Fetch(ctx, 1, qwerq.Group("g")); err != nil || len(m) != 1 || m[0].Seq != 51 || m[0].Ack() != nil {
		t.Error(m, err)
	}
	if err := c.Client().Seek(ctx, "log", "g", qwerq.Beginning()); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Log.Fetch(ctx, 1, qwerq.Group("g")); err != nil || len(m) != 1 || m[0].Seq != 0 || m[0].Ack() != nil {
		t.Error(m, err)
	}
}

type pricing struct{}

func (pricing) GetQuote(ctx context.Context, request *shopv1.QuoteRequest) (*shopv1.Quote, error) {
	switch request.Article {
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "none":
		return nil, qwerq.Fail(qwerq.ErrInvalidArgument, "no such article")
	default:
		return &shopv1.Quote{Cents: uint64(len(request.Article))}, nil
	}
}

func TestCallsAreAnsweredByWhoeverServes(t *testing.T) {
	caller, server := dial(t), dial(t)
	if _, err := caller.Pricing().GetQuote(ctx, &shopv1.QuoteRequest{}); !errors.Is(err, qwerq.ErrNoResponders) {
		t.Fatal(err)
	}
	stop, cancel := context.WithCancel(ctx)
	serving := make(chan error, 1)
	go func() { serving <- server.ServePricing(stop, pricing{}) }()
	// Until the responder has arrived the broker says at once that nobody serves.
	quote, err := caller.Pricing().GetQuote(ctx, &shopv1.QuoteRequest{Article: "book"})
	for errors.Is(err, qwerq.ErrNoResponders) {
		quote, err = caller.Pricing().GetQuote(ctx, &shopv1.QuoteRequest{Article: "book"})
	}
	if err != nil || quote.Cents != 4 {
		t.Fatal(quote, err)
	}
	if _, err := caller.Pricing().GetQuote(ctx, &shopv1.QuoteRequest{Article: "none"}); !errors.Is(err, qwerq.ErrInvalidArgument) ||
		!strings.Contains(err.Error(), "no such article") {
		t.Error(err)
	}
	short, done := context.WithTimeout(ctx, 50*time.Millisecond)
	defer done()
	if _, err := caller.Pricing().GetQuote(short, &shopv1.QuoteRequest{Article: "slow"}); !errors.Is(err, qwerq.ErrTimeout) {
		t.Error(err)
	}
	if _, err := caller.Client().Call(ctx, "pricing.get_quote", []byte{0xff}); !errors.Is(err, qwerq.ErrSchemaViolation) {
		t.Error(err)
	}
	cancel()
	if err := <-serving; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestHandlersShareTheWork(t *testing.T) {
	c := dial(t)
	const count = 50
	seen := make(chan string, count)
	stop, cancel := context.WithCancel(ctx)
	handling := make(chan error, 1)
	go func() {
		handling <- c.Handled.Handle(stop, func(_ context.Context, m *qwerq.Message[*shopv1.Order]) error {
			if m.Attempt == 1 && m.Body.Id == "0" {
				return errors.New("not at once")
			}
			seen <- m.Body.Id
			return nil
		}, qwerq.Concurrency(8))
	}()
	for i := range count {
		if _, err := c.Handled.Publish(ctx, &shopv1.Order{Id: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	distinct := map[string]bool{}
	for range count {
		distinct[<-seen] = true
	}
	if len(distinct) != count {
		t.Errorf("%d of %d", len(distinct), count)
	}
	cancel()
	if err := <-handling; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
