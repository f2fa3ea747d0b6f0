// What can go wrong, sorted by who must act: the caller changes the request (a rejection), the caller tries again (unavailable,
// disconnected), or somebody repairs something (fault, protocol, connect). Codes are the broker's; read on in code.go.

package qwerq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrClosed says that the client was closed, by Close or because it gave up on reconnecting.
	ErrClosed = errors.New("qwerq: the client is closed; dial a new one")
	// ErrDisconnected says that the connection was lost before the reply came. The client reconnects by itself; only this request is
	// lost. A *DisconnectedError says whether it may have been carried out.
	ErrDisconnected = errors.New("qwerq: disconnected")
	// ErrConnect says that no broker could be reached. A *ConnectError says what was tried.
	ErrConnect = errors.New("qwerq: no broker reached")
	// ErrProtocol says that client and broker do not understand each other; the connection was closed.
	ErrProtocol = errors.New("qwerq: protocol error")
	// ErrEnded says that a subscription was closed, by Close or together with its client.
	ErrEnded = errors.New("qwerq: the subscription has ended; subscribe again")
)

// Error is what the broker, or the responder of a call, said about a request that it did not carry out. errors.Is finds its code.
type Error struct {
	// Code is the stable number.
	Code Code
	// Name is the stable name in kebab case, also of a code that is newer than this client.
	Name string
	// Message is one sentence for people, naming the thing and the next step.
	Message string
	// Details are facts for programs: path, offset, type, version, limit, queue and others.
	Details map[string]string
	// RetryAfter says when trying again makes sense, from now; zero: it does not say.
	RetryAfter time.Duration
	cause      error
}

// Fail is an error with a code, for handlers of calls: the caller gets it as it is.
func Fail(code Code, message string) error {
	return &Error{Code: code, Name: code.String(), Message: message}
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d): %s", e.Name, uint32(e.Code), e.Message) }

// Is makes errors.Is(err, qwerq.ErrQueueFull) work.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// Unwrap gives the error on this side that led to it, such as context.DeadlineExceeded.
func (e *Error) Unwrap() error { return e.cause }

// Path is the path of the field that breaks the contract, such as lines[3].price.units.
func (e *Error) Path() string { return e.Details["path"] }

// Offset is where in the payload the contract breaks, in bytes from its start.
func (e *Error) Offset() (uint64, bool) {
	offset, err := strconv.ParseUint(e.Details["offset"], 10, 64)
	return offset, err == nil
}

// DisconnectedError says that the connection was lost before the reply came.
type DisconnectedError struct {
	// MaybeStored says that the request had been written, so that the broker may have carried it out.
	MaybeStored bool
}

func (e *DisconnectedError) Error() string {
	if e.MaybeStored {
		return "qwerq: the connection was lost before the broker replied; the request may have been carried out " +
			"(publish with an idempotency key and the client repeats it by itself)"
	}
	return "qwerq: the connection was lost before the request was sent; send it again"
}

// Is makes errors.Is(err, qwerq.ErrDisconnected) work.
func (e *DisconnectedError) Is(target error) bool { return target == ErrDisconnected }

// ConnectError says that no broker could be reached.
type ConnectError struct {
	// Tried has each attempt: the address and what happened there.
	Tried []string
	last  error
	// A node of a cluster answered, and nobody who leads was found: how long to wait before the next round; 0: none did.
	electing time.Duration
}

func (e *ConnectError) Error() string {
	return "qwerq: cannot reach a broker (tried " + strings.Join(e.Tried, ", ") + "); is it running, and is the address right?"
}

// Is makes errors.Is(err, qwerq.ErrConnect) work.
func (e *ConnectError) Is(target error) bool { return target == ErrConnect }

// Unwrap gives what the last attempt failed with.
func (e *ConnectError) Unwrap() error { return e.last }

// DecodeError says that a payload is not the message that the contract says.
type DecodeError struct {
	// Queue is where it came from.
	Queue string
	// Seq is its position in the queue; 0 for a call.
	Seq uint64
	// MessageType is the full protobuf name that was expected.
	MessageType string
	cause       error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("qwerq: the payload (queue %s, seq %d) is not a %s: %v; reject it to dead-letter it", e.Queue, e.Seq, e.MessageType, e.cause)
}

// Unwrap gives what the protobuf library says.
func (e *DecodeError) Unwrap() error { return e.cause }

// IsRetryable reports whether the same request may succeed later. A publish without an idempotency key that was lost with its connection
// counts as retryable: it may then be stored twice.
func IsRetryable(err error) bool {
	var said *Error
	if errors.As(err, &said) {
		return said.Code.unavailable()
	}
	return errors.Is(err, ErrDisconnected) || errors.Is(err, ErrConnect)
}

func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

func staleLease() error {
	return Fail(ErrStaleLease, "the lease ended with its connection, its subscription or its time, or was settled before; "+
		"a message that was not settled is delivered again, settle that delivery")
}

// fromWire makes an error of what a frame says.
func (e *wireError) fromWire() error {
	if e == nil {
		return nil
	}
	said := &Error{
		Code: Code(e.Code), Name: e.Name, Message: e.Message, Details: e.Details,
		RetryAfter: duration(e.RetryAfterMS),
	}
	if said.Code.protocol() {
		return fmt.Errorf("%w: %w", ErrProtocol, said)
	}
	return said
}

func toWireError(err error) *wireError {
	var said *Error
	if errors.As(err, &said) {
		return &wireError{Code: uint32(said.Code), Name: said.Name, Message: said.Message, Details: said.Details, RetryAfterMS: milliseconds(said.RetryAfter)}
	}
	code := ErrInternal
	if errors.Is(err, context.DeadlineExceeded) {
		code = ErrTimeout
	}
	return &wireError{Code: uint32(code), Name: code.String(), Message: err.Error()}
}

// notLeader is what a node said that does not lead; nil: it said something else.
func notLeader(err error) *Error {
	var said *Error
	if errors.As(err, &said) && said.Code == ErrNotLeader {
		return said
	}
	return nil
}

// callLost: the leader is gone with a call, and nobody knows what became of it.
func callLost() error {
	return Fail(ErrResponderLost,
		"the leader changed, or the connection to it was lost, while the call was under way; whether it ran is not known")
}

func isOverloaded(err error) bool { return errors.Is(err, ErrOverloaded) }

func retryAfter(err error) time.Duration {
	var said *Error
	if errors.As(err, &said) {
		return said.RetryAfter
	}
	return 0
}

// duration reads the wire's milliseconds; what no Duration holds becomes the longest one.
func duration(ms uint64) time.Duration {
	const longest = uint64(1<<63-1) / uint64(time.Millisecond)
	return time.Duration(min(ms, longest)) * time.Millisecond
}

// milliseconds rounds up, so that a short wait does not become none.
func milliseconds(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((d + time.Millisecond - 1) / time.Millisecond)
}
