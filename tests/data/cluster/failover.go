// Publishes numbered messages to a stream and consumes them in a group of its own, whatever becomes of the nodes meanwhile. Says on stdout
// what was acknowledged, and ends when all of its messages were acknowledged and consumed.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"

	"example.com/failover/qwerq"
)

func main() {
	stream := os.Args[1]
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	client, err := qwerq.Dial(ctx, os.Getenv("QWERQ_BROKER"))
	if err != nil {
		log.Fatal(err)
	}
	subscription, err := client.Subscribe(ctx, stream, qwerq.Group("go"))
	if err != nil {
		log.Fatal(err)
	}
	var consuming sync.WaitGroup
	consuming.Add(1)
	go func() {
		defer consuming.Done()
		missing := map[string]bool{}
		for at := range count {
			missing[fmt.Sprintf("go-%d", at)] = true
		}
		for len(missing) > 0 {
			delivery, err := subscription.Next(ctx)
			if err != nil {
				log.Fatal(err)
			}
			delete(missing, string(delivery.Payload))
			// A lease that ended with its leader is stale; the message comes again.
			_ = delivery.Ack()
		}
	}()
	for at := 0; at < count; at += 10 {
		var publishing sync.WaitGroup
		for next := range 10 {
			publishing.Add(1)
			go func() {
				defer publishing.Done()
				text := fmt.Sprintf("go-%d", at+next)
				published, err := client.Publish(ctx, stream, []byte(text))
				if err != nil {
					log.Fatal(text, ": ", err)
				}
				fmt.Printf("acked %s %d %v\n", text, published.Durability, published.Duplicate)
			}()
		}
		publishing.Wait()
	}
	consuming.Wait()
	fmt.Println("done")
	if err := client.Close(ctx); err != nil {
		log.Fatal(err)
	}
}
