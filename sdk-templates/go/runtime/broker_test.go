package qwerq

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a broker that says what a test tells it to say.
type scripted struct {
	t        *testing.T
	listener net.Listener
	ack      wireHelloAck
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return &scripted{t: t, listener: listener, ack: wireHelloAck{
		Protocol: 1, MaxFrameBytes: 16 << 20, MaxMessageBytes: 1 << 20, PublishWindowRequests: 64, PublishWindowBytes: 16 << 20, HeartbeatMS: 60_000,
	}}
}

func (b *scripted) address() string { return b.listener.Addr().String() }

// peer is one connection as the broker sees it.
type peer struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func (b *scripted) acceptBare() *peer {
	b.t.Helper()
	conn, err := b.listener.Accept()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return &peer{b.t, conn, bufio.NewReader(conn)}
}

// accept takes a connection and says HELLO_ACK.
func (b *scripted) accept() *peer {
	b.t.Helper()
	p := b.acceptBare()
	p.expect(opHello, &wireHello{})
	p.send(opHelloAck, 0, &b.ack)
	return p
}

// dial connects a client, with waits that a test has time for. The test closes it, or the end of the test cuts it.
func (b *scripted) dial(options ...DialOption) (*Client, *peer) {
	b.t.Helper()
	accepted := make(chan *peer, 1)
	go func() { accepted <- b.accept() }()
	options = append([]DialOption{WithReconnect(Reconnect{Max: 1})}, options...)
	client, err := Dial(context.Background(), b.address(), options...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(client.kill)
	return client, <-accepted
}

func (c *Client) kill() {
	c.cut()
	<-c.ended
}

// next reads the next frame that is no heartbeat.
func (p *peer) next() frame {
	p.t.Helper()
	for {
		f, err := readFrame(p.reader, maxFrameBytesDefault)
		if err != nil {
			p.t.Fatalf("the client is gone: %v", err)
		}
		if f.op != opHeartbeat {
			return f
		}
	}
}

// expect reads a frame of that opcode and gives its request id, 0 if it has none.
func (p *peer) expect(op opcode, into any) uint32 {
	p.t.Helper()
	f := p.next()
	if err := f.decode(op, into); err != nil {
		p.t.Fatal(err)
	}
	return f.id
}

func (p *peer) send(op opcode, id uint32, message any) {
	p.t.Helper()
	if _, err := p.conn.Write(appendFrame(nil, op, id, marshal(message))); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) expectGone() {
	p.t.Helper()
	if f, err := readFrame(p.reader, maxFrameBytesDefault); err == nil {
		p.t.Fatalf("%s instead of the end", f.op)
	}
}

// acceptAll acknowledges a PUBLISH, giving its messages the positions from seq on.
func (p *peer) acceptPublish(id uint32, publish *wirePublish, seq uint64) {
	ack := wirePublishAck{Durability: 1}
	for range publish.Items {
		ack.Results = append(ack.Results, &wirePublishResult{ID: make([]byte, 16), Seq: &seq})
	}
	p.send(opPublishAck, id, &ack)
}

// opens answers a CONSUME and gives its number.
func (p *peer) opens(group string) wireConsume {
	p.t.Helper()
	var consume wireConsume
	id := p.expect(opConsume, &consume)
	p.send(opConsumeAck, id, &wireConsumeAck{Subscription: consume.Subscription, Group: group})
	return consume
}

func leaseID(n byte) []byte { return bytes.Repeat([]byte{n}, 24) }

// deliver sends messages whose lease id, seq and payload are the given numbers.
func (p *peer) deliver(subscription uint32, leaseMS uint64, numbers ...byte) {
	deliver := wireDeliver{Subscription: subscription}
	for _, n := range numbers {
		deliver.Messages = append(deliver.Messages, &wireDelivered{
			LeaseID: leaseID(n), Seq: uint64(n), Attempt: 1, LeaseMS: leaseMS, ID: make([]byte, 16), Payload: []byte{n},
		})
	}
	p.send(opMessage, 0, &deliver)
}

func (c Code) toWire(message string) *wireError {
	return &wireError{Code: uint32(c), Name: c.String(), Message: message}
}

// in runs f beside the test and gives its error.
func in(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}
