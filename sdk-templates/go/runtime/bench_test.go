package qwerq

import (
	"os"
	"testing"
)

// benchmark gives a client of the broker that QWERQ_BROKER names, and a queue that is empty:
//
//	QWERQ_BROKER=localhost:9876 go test -bench . -run '^$'
func benchmark(b *testing.B) (*Client, string) {
	b.Helper()
	address := os.Getenv("QWERQ_BROKER")
	if address == "" {
		b.Skip("QWERQ_BROKER names no broker")
	}
	c, err := Dial(ctx, address, WithToken(os.Getenv("QWERQ_AUTH_TOKEN")))
	if err != nil {
		b.Fatal(err)
	}
	queue := "go-bench-" + NewMessageID().String()
	b.Cleanup(func() {
		if err := c.DeleteQueue(ctx, queue); err != nil {
			b.Error(err)
		}
		if err := c.Close(ctx); err != nil {
			b.Error(err)
		}
	})
	return c, queue
}

func submit(b *testing.B, c *Client, queue string, count int) {
	payload := make([]byte, 256)
	receipts := make(chan *Receipt, 4096)
	go func() {
		defer close(receipts)
		for range count {
			receipt, err := c.Submit(ctx, queue, payload)
			if err != nil {
				b.Error(err)
				return
			}
			receipts <- receipt
		}
	}()
	for receipt := range receipts {
		if _, err := receipt.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// Messages of 256 bytes, 1,024 unacknowledged at most, each acknowledged by the broker.
func BenchmarkPublish(b *testing.B) {
	c, queue := benchmark(b)
	b.ResetTimer()
	submit(b, c, queue, b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// The same messages taken and acknowledged one by one.
func BenchmarkConsume(b *testing.B) {
	c, queue := benchmark(b)
	submit(b, c, queue, b.N)
	b.ResetTimer()
	left := b.N
	for d, err := range c.Consume(ctx, queue, Prefetch(1024)) {
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Ack(); err != nil {
			b.Fatal(err)
		}
		if left--; left == 0 {
			break
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// One message after the other.
func BenchmarkRoundTrip(b *testing.B) {
	c, queue := benchmark(b)
	for b.Loop() {
		if _, err := c.Publish(ctx, queue, nil); err != nil {
			b.Fatal(err)
		}
	}
}
