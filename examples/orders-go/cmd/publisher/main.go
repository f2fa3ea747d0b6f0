// Publishes orders: go run ./cmd/publisher [HOW_MANY].
//
// In the end it sends one payload that is no order, to show what the broker says to that.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"

	"example.com/orders/queues"
	"example.com/orders/queues/qwerq"
	shopv1 "example.com/orders/queues/shop/v1"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	howMany := 10
	if len(os.Args) > 1 {
		var err error
		if howMany, err = strconv.Atoi(os.Args[1]); err != nil {
			return err
		}
	}
	c, err := queues.Dial(ctx, cmp.Or(os.Getenv("QWERQ_BROKER"), "localhost:9876"))
	if err != nil {
		return err
	}
	for number := range howMany {
		order := newOrder(number + 1)
		// Returns when the order is durable. For speed keep many in flight: see Submit and PublishBatch.
		published, err := c.Orders.Publish(ctx, order)
		if err != nil {
			return err
		}
		fmt.Printf("published %s as %s\n", order.Id, published.ID)
	}

	// Generated code cannot send this; whoever sends bytes by hand can. The broker keeps it from the consumers.
	_, err = c.Client().Publish(ctx, "orders", []byte{8, 1})
	if !errors.Is(err, qwerq.ErrSchemaViolation) {
		return fmt.Errorf("the broker was to refuse a bad payload: %v", err)
	}
	fmt.Println("refused:", err)
	return c.Close(ctx)
}

func newOrder(number int) *shopv1.Order {
	return &shopv1.Order{
		Id:         fmt.Sprintf("o-%d", number),
		Customer:   "ada",
		Lines:      []*shopv1.Line{{Article: "tea", Quantity: uint32(number)}},
		TotalCents: int64(495 * number),
	}
}
