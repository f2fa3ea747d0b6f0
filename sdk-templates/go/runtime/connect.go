// Getting a connection: dialling, HELLO and what it settles, and coming back after a loss.

package qwerq

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"
)

const heartbeatDefault = 10 * time.Second

// link is a connection on which HELLO has been said and answered.
type link struct {
	conn   net.Conn
	reader *bufio.Reader
	agreed agreed
}

// agreed is what HELLO_ACK settled.
type agreed struct {
	maxFrameBytes  uint32
	windowRequests int
	windowBytes    int
	heartbeat      time.Duration // after so long without a word this side sends one
	silence        time.Duration // after so long without a word from the broker it counts as dead
}

// refusedHello is the broker's answer no, which another attempt would not change.
type refusedHello struct{ error }

func (r refusedHello) Unwrap() error { return r.error }

// connect tries the leader, if one is known, and then every address once.
func (c *Client) connect(ctx context.Context, leader string) (*link, error) {
	addresses := c.settings.addresses
	if leader != "" {
		addresses = append([]string{leader}, addresses...)
	}
	failed := &ConnectError{}
	for _, address := range addresses {
		link, err := c.connectTo(ctx, address)
		if err == nil {
			return link, nil
		}
		var refused refusedHello
		if errors.As(err, &refused) {
			return nil, refused.error
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failed.Tried = append(failed.Tried, fmt.Sprintf("%s: %v", address, err))
		failed.last = err
	}
	return nil, failed
}

func (c *Client) connectTo(ctx context.Context, address string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, c.settings.connectTimeout)
	defer cancel()
	conn, err := c.settings.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	// The context ends reads and writes by closing the connection under them.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	l, err := c.hello(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %v", c.settings.connectTimeout)
		}
		return nil, err
	}
	return l, nil
}

func (c *Client) hello(conn net.Conn) (*link, error) {
	hello := wireHello{
		MinProtocol: protocolVersion, MaxProtocol: protocolVersion, ClientName: c.settings.name, ClientVersion: Version, Token: c.settings.token,
	}
	if _, err := conn.Write(appendFrame(nil, opHello, 0, marshal(&hello))); err != nil {
		return nil, err
	}
	reader := bufio.NewReaderSize(conn, 64<<10)
	f, err := readFrame(reader, maxFrameBytesBeforeHello)
	if err != nil {
		var broken *frameError
		if errors.As(err, &broken) {
			return nil, notABroker(err)
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("closed before HELLO_ACK")
		}
		return nil, err
	}
	switch f.op {
	case opHelloAck:
		var ack wireHelloAck
		if err := unmarshal(f.payload, &ack); err != nil {
			return nil, notABroker(err)
		}
		if ack.Protocol != protocolVersion {
			return nil, refusedHello{protocolError("the broker chose protocol %d, this client speaks %d", ack.Protocol, protocolVersion)}
		}
		return &link{conn, reader, agree(&ack, c.settings.heartbeat)}, nil
	case opError:
		var said wireError
		if err := unmarshal(f.payload, &said); err != nil {
			return nil, notABroker(err)
		}
		code := Code(said.Code)
		if code.rejection() || code.protocol() {
			return nil, refusedHello{said.fromWire()}
		}
		// A broker that is going down is as good as one that is not there.
		return nil, said.fromWire()
	default:
		return nil, notABroker(fmt.Errorf("%s instead of HELLO_ACK", f.op))
	}
}

func notABroker(what error) error {
	return refusedHello{protocolError("what answered is not a QWER-Q broker: %v", what)}
}

func agree(ack *wireHelloAck, wanted time.Duration) agreed {
	orMax := func(limit uint32) int {
		if limit == 0 {
			return math.MaxInt
		}
		return int(limit)
	}
	heartbeat := heartbeatDefault
	if ack.HeartbeatMS > 0 {
		heartbeat = duration(uint64(ack.HeartbeatMS))
	}
	a := agreed{
		maxFrameBytes: ack.MaxFrameBytes, windowRequests: orMax(ack.PublishWindowRequests), windowBytes: orMax(ack.PublishWindowBytes),
		heartbeat: heartbeat, silence: 2 * heartbeat,
	}
	if a.maxFrameBytes == 0 {
		a.maxFrameBytes = maxFrameBytesDefault
	}
	if wanted > 0 && wanted < heartbeat {
		a.heartbeat = wanted
	}
	return a
}

// reconnect comes back, or says why not: the client is closed, or its patience is over.
func (c *Client) reconnect(patience *backoff, leader string) (*link, error) {
	var last error = &DisconnectedError{}
	for {
		pause, ok := patience.next()
		if !ok {
			return nil, last
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.closingContext.Done():
			timer.Stop()
			return nil, ErrClosed
		}
		link, err := c.connect(c.closingContext, leader)
		switch {
		case err == nil && c.closingContext.Err() != nil:
			link.conn.Close()
			return nil, ErrClosed
		case err == nil:
			patience.connected()
			return link, nil
		case c.closingContext.Err() != nil:
			return nil, ErrClosed
		}
		c.settings.log.Info("qwerq: could not connect", "error", err)
		if !errors.Is(err, ErrConnect) {
			// Trying again would not change the broker's mind.
			return nil, err
		}
		last = err
	}
}
