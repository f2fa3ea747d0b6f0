// Getting a connection: dialling, HELLO and what it settles, and coming back after a loss.

package qwerq

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

const (
	heartbeatDefault = 10 * time.Second
	// How long the first connection waits for a cluster that has no leader.
	electionPatience = 10 * time.Second
	// How long to wait when a node that knows no leader does not say.
	electionPause = 250 * time.Millisecond
	// The longest wait between two rounds through a cluster that is there and has no leader.
	electionPauseMax = 2 * time.Second
	// What this client would like of the broker: to know whether it is a node of a cluster.
	featureCluster = "cluster"
)

// link is a connection on which HELLO has been said and answered.
type link struct {
	address string
	conn    net.Conn
	reader  *bufio.Reader
	agreed  agreed
}

// agreed is what HELLO_ACK settled.
type agreed struct {
	maxFrameBytes  uint32
	windowRequests int
	windowBytes    int
	heartbeat      time.Duration // after so long without a word this side sends one
	silence        time.Duration // after so long without a word from the broker it counts as dead
	cluster        bool          // the broker is a node of a cluster, so that another one may take over
}

// refusedHello is the broker's answer no, which another attempt would not change.
type refusedHello struct{ error }

func (r refusedHello) Unwrap() error { return r.error }

// connectPatiently is the first connection: while a cluster has no leader, it goes on asking for a while.
func (c *Client) connectPatiently(ctx context.Context) (*link, error) {
	until := time.Now().Add(electionPatience)
	for {
		link, err := c.connect(ctx, "")
		pause, electing := electingFor(err)
		if err == nil || !electing {
			return link, err
		}
		pause += rand.N(pause + 1)
		if time.Now().Add(pause).After(until) {
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// electingFor says that a node of a cluster answered and nobody who leads was found, so that another round makes sense, not before that.
func electingFor(err error) (time.Duration, bool) {
	var failed *ConnectError
	if !errors.As(err, &failed) || failed.electing == 0 {
		return 0, false
	}
	return failed.electing, true
}

// connect tries the leader, if one is known, and then every address once, and goes where nodes say that the leader is.
func (c *Client) connect(ctx context.Context, leader string) (*link, error) {
	round := newRoute(leader, c.settings.addresses)
	failed := &ConnectError{}
	for {
		address, more := round.next()
		if !more {
			return nil, failed
		}
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
		if said := notLeader(err); said != nil {
			failed.electing = max(failed.electing, cmp.Or(said.RetryAfter, electionPause))
			if leader := said.Details["leader"]; leader != "" {
				round.redirect(leader)
			}
		}
	}
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
	l, err := c.hello(address, conn)
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

func (c *Client) hello(address string, conn net.Conn) (*link, error) {
	hello := wireHello{
		MinProtocol: protocolVersion, MaxProtocol: protocolVersion, ClientName: c.settings.name, ClientVersion: Version, Token: c.settings.token,
		Features: []string{featureCluster},
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
		return &link{address, conn, reader, agree(&ack, c.settings.heartbeat)}, nil
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
		heartbeat: heartbeat, silence: 2 * heartbeat, cluster: slices.Contains(ack.Features, featureCluster),
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
		if electing, ok := electingFor(last); ok {
			// The cluster is there, and an election takes a moment only.
			pause = max(electing, min(pause, electionPauseMax)) + rand.N(electing+1)
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
