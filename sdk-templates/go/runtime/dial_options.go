// How to connect: identity, windows, patience. The connection itself lives in client.go and session.go.

package qwerq

import (
	"context"
	"log/slog"
	"net"
	"time"
)

// Version is what this client says of itself to the broker.
const Version = "0.1.0"

// DialOption changes how Dial connects.
type DialOption func(*settings)

type settings struct {
	addresses      []string
	token          string
	name           string
	windowMessages int
	windowBytes    int
	heartbeat      time.Duration
	connectTimeout time.Duration
	maxLease       time.Duration
	reconnect      Reconnect
	dial           func(ctx context.Context, address string) (net.Conn, error)
	log            *slog.Logger
}

func newSettings(address string, options []DialOption) settings {
	s := settings{
		addresses:      addressesOf(address),
		name:           "qwerq-go",
		windowMessages: 1024,
		windowBytes:    16 << 20,
		connectTimeout: 5 * time.Second,
		maxLease:       12 * time.Hour,
		reconnect:      Reconnect{First: 100 * time.Millisecond, Max: 10 * time.Second},
		log:            slog.New(slog.DiscardHandler),
	}
	s.dial = func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	for _, option := range options {
		option(&s)
	}
	return s
}

// Reconnect says what to do when the connection is lost: exponential waits with full jitter, so that many clients do not come back at
// once.
type Reconnect struct {
	// First: the first wait is between 0 and this.
	First time.Duration
	// Max: later waits are between 0 and at most this.
	Max time.Duration
	// Attempts is how many may fail in a row before the client closes; 0: never, -1: a lost connection closes the client.
	Attempts int
}

// WithToken gives the broker's auth token.
func WithToken(token string) DialOption { return func(s *settings) { s.token = token } }

// WithName sets the name that the broker shows for this client. Default: qwerq-go.
func WithName(name string) DialOption { return func(s *settings) { s.name = name } }

// WithAddress adds nodes of the cluster, one or several with commas in between: any one that answers leads to the one that serves.
func WithAddress(address string) DialOption {
	return func(s *settings) { s.addresses = append(s.addresses, addressesOf(address)...) }
}

// WithPublishWindow bounds what may be published and not yet acknowledged; beyond it publishers wait. Default: 1,024 messages, 16 MiB
// of payloads.
func WithPublishWindow(messages, bytes int) DialOption {
	return func(s *settings) { s.windowMessages, s.windowBytes = max(messages, 1), max(bytes, 1) }
}

// WithHeartbeat says how often this side says something at least. Default, and at most: what the broker says.
func WithHeartbeat(interval time.Duration) DialOption {
	return func(s *settings) { s.heartbeat = interval }
}

// WithConnectTimeout bounds one attempt to connect, HELLO included. Default: 5 s.
func WithConnectTimeout(timeout time.Duration) DialOption {
	return func(s *settings) { s.connectTimeout = timeout }
}

// WithMaxLease bounds how long a lease is renewed, from its delivery; then the message goes back to the queue. Default: 12 h.
func WithMaxLease(limit time.Duration) DialOption { return func(s *settings) { s.maxLease = limit } }

// WithReconnect says what to do when the connection is lost. Default: come back for ever, first within 100 ms, later within 10 s.
func WithReconnect(policy Reconnect) DialOption { return func(s *settings) { s.reconnect = policy } }

// WithDialer opens connections otherwise than by TCP: through a proxy, over TLS, or to a broker in the same process.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) DialOption {
	return func(s *settings) { s.dial = dial }
}

// WithLogger gets told of lost connections and of frames that make no sense. Default: nobody is.
func WithLogger(log *slog.Logger) DialOption { return func(s *settings) { s.log = log } }
