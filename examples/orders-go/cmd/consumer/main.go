// Bills orders until Ctrl-C: go run ./cmd/consumer.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"example.com/orders/queues"
	"example.com/orders/queues/qwerq"
	shopv1 "example.com/orders/queues/shop/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
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
	// Orders that wait here unstarted go back uncounted; acks that are under way are confirmed.
	defer func() { err = cmp.Or(c.Close(context.WithoutCancel(ctx)), err) }()
	orders, err := c.Orders.Subscribe(ctx, qwerq.Group("billing"))
	if err != nil {
		return err
	}
	fmt.Println("waiting for orders")
	for {
		order, err := orders.Next(ctx)
		switch {
		case order == nil:
			return err
		case err != nil:
			// Accepted under a contract that this consumer cannot read: another one may, so it goes back.
			log.Print(err)
			err = order.Nack(err.Error())
		default:
			err = handle(order)
		}
		// The lease of an order may have ended meanwhile; it comes again then.
		if err != nil && !errors.Is(err, qwerq.ErrStaleLease) {
			return err
		}
	}
}

// handle acknowledges an order when it is billed. When that fails, the order comes again after the queue's retry_backoff.
func handle(order *qwerq.Message[*shopv1.Order]) error {
	if err := bill(order.Body, order.Attempt); err != nil {
		fmt.Printf("cannot bill %s, attempt %d: %v\n", order.Body.Id, order.Attempt, err)
		return order.Nack(err.Error())
	}
	fmt.Printf("billed %s, attempt %d\n", order.Body.Id, order.Attempt)
	return order.Ack()
}

// bill stands for a real payment provider, which is slow to decide about large orders.
func bill(order *shopv1.Order, attempt uint32) error {
	if order.TotalCents > 1_000 && attempt == 1 {
		return errors.New("the payment provider wants more time")
	}
	return nil
}
