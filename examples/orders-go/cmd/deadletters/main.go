// Repairs the dead letters of orders until Ctrl-C: go run ./cmd/deadletters.
//
// An order that was rejected because the shop cannot ship so much at once becomes as many orders as it takes.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"example.com/orders/queues"
	"example.com/orders/queues/qwerq"
	shopv1 "example.com/orders/queues/shop/v1"
)

// piecesMax is how many pieces of an article fit into one parcel.
const piecesMax = 4

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	fmt.Println("stopped")
}

func run(ctx context.Context) (err error) {
	c, err := queues.Dial(ctx, cmp.Or(os.Getenv("QWERQ_BROKER"), "localhost:9876"))
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(c.Close(context.WithoutCancel(ctx)), err) }()
	letters, err := subscribe(ctx, c.Client())
	if err != nil {
		return err
	}
	for {
		letter, err := letters.Next(ctx)
		if letter == nil {
			return err
		}
		// What has begun is finished, also after Ctrl-C. The lease of a letter may have ended meanwhile; it comes again then.
		if err := split(context.WithoutCancel(ctx), c, letter); err != nil && !errors.Is(err, qwerq.ErrStaleLease) {
			return err
		}
	}
}

// subscribe waits for the dead letter queue, which appears with its first letter.
func subscribe(ctx context.Context, c *qwerq.Client) (*qwerq.Subscription, error) {
	for {
		letters, err := c.Subscribe(ctx, "orders.dlq", qwerq.Group("splitter"))
		if !errors.Is(err, qwerq.ErrQueueNotFound) {
			return letters, err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// split publishes the order of a letter in parts, then settles the letter. Who does that twice, because the connection broke in between,
// publishes nothing twice: the parts have idempotency keys.
func split(ctx context.Context, c *queues.Queues, letter *qwerq.Delivery) error {
	order := &shopv1.Order{}
	if err := proto.Unmarshal(letter.Payload, order); err != nil {
		// Not made by this shop; it waits for somebody who looks at it.
		return letter.NackAfter(time.Hour, err.Error())
	}
	parts := partsOf(order)
	for _, part := range parts {
		if _, err := c.Orders.Publish(ctx, part, qwerq.IdempotencyKey(part.Id)); err != nil {
			return err
		}
	}
	if err := letter.AckConfirmed(ctx); err != nil {
		return err
	}
	reason, _ := letter.Headers.Get("qwerq-error")
	fmt.Printf("split %s (%s) into %d orders\n", order.Id, reason, len(parts))
	return nil
}

// partsOf gives orders of one line each, none with more pieces than fit into a parcel. The first one carries the price.
func partsOf(order *shopv1.Order) []*shopv1.Order {
	var parts []*shopv1.Order
	for _, line := range order.Lines {
		for left := line.Quantity; left > 0; left -= min(left, piecesMax) {
			parts = append(parts, &shopv1.Order{
				Id:       fmt.Sprintf("%s.%d", order.Id, len(parts)+1),
				Customer: order.Customer,
				Lines:    []*shopv1.Line{{Article: line.Article, Quantity: min(left, piecesMax)}},
			})
		}
	}
	if len(parts) > 0 {
		parts[0].TotalCents = order.TotalCents
	}
	return parts
}
