// The types that generated code puts on queues. Everything is the untyped client's; here payloads become messages.

package qwerq

import (
	"context"
	"encoding/hex"
	"errors"
	"iter"

	"google.golang.org/protobuf/proto"
)

// Contract is what a queue's contract was when the code was generated.
type Contract struct {
	// Queue is the queue's name.
	Queue string
	// MessageType is the full protobuf name of its messages.
	MessageType string
	// ReplyType is that of its replies; empty where it answers no calls.
	ReplyType string
	// Version is the contract's version; 0: no broker had numbered it.
	Version uint32
	// Fingerprint is the contract's content address in hexadecimal; empty: the broker's active version judges.
	Fingerprint string
}

func (k *Contract) fingerprint() []byte {
	fingerprint, err := hex.DecodeString(k.Fingerprint)
	if err != nil {
		panic("qwerq: the fingerprint of queue " + k.Queue + " is not hexadecimal; generate again")
	}
	return fingerprint
}

// Queue is a queue that carries messages of type M.
type Queue[M proto.Message] struct {
	client   *Client
	contract *Contract
	to       destination
}

// NewQueue is for generated code.
func NewQueue[M proto.Message](client *Client, contract *Contract) *Queue[M] {
	return &Queue[M]{client, contract, destination{contract.Queue, string(contract.fingerprint())}}
}

// Contract is the contract that the code was generated for.
func (q *Queue[M]) Contract() Contract { return *q.contract }

// Name is the queue's name.
func (q *Queue[M]) Name() string { return q.contract.Queue }

// Publish publishes one message and waits until it is durable. See Client.Publish.
func (q *Queue[M]) Publish(ctx context.Context, message M, options ...PublishOption) (Published, error) {
	receipt, err := q.Submit(ctx, message, options...)
	if err != nil {
		return Published{}, err
	}
	return receipt.Wait(ctx)
}

// Submit hands one message in; the receipt may be waited for later. See Client.Submit.
func (q *Queue[M]) Submit(ctx context.Context, message M, options ...PublishOption) (*Receipt, error) {
	payload, err := encode(message)
	if err != nil {
		return nil, err
	}
	return q.client.submit(ctx, q.to, Outgoing{payload, options})
}

// PublishBatch publishes many, with the same options: one result each, in their order. For options of their own see Submit.
func (q *Queue[M]) PublishBatch(ctx context.Context, messages []M, options ...PublishOption) []Result {
	results := make([]Result, len(messages))
	receipts := make([]*Receipt, len(messages))
	for i, message := range messages {
		receipts[i], results[i].Err = q.Submit(ctx, message, options...)
	}
	for i, receipt := range receipts {
		if receipt != nil {
			results[i].Published, results[i].Err = receipt.Wait(ctx)
		}
	}
	return results
}

// PublishAtomic publishes all or none, in one frame.
func (q *Queue[M]) PublishAtomic(ctx context.Context, messages []M, options ...PublishOption) ([]Published, error) {
	outgoing := make([]Outgoing, len(messages))
	for i, message := range messages {
		payload, err := encode(message)
		if err != nil {
			return nil, err
		}
		outgoing[i] = Outgoing{payload, options}
	}
	return q.client.publishAtomic(ctx, q.to, outgoing)
}

// Consume yields the messages of the queue until ctx ends, the loop is left or the subscription ends: with the error that ended it, once.
// Settle each. An error beside a message that is not nil is a *DecodeError: the message is leased, its Body is empty; reject it, and the
// loop goes on. Leaving the loop ends the subscription; what was handed out may still be settled, the rest goes back uncounted.
func (q *Queue[M]) Consume(ctx context.Context, options ...ConsumeOption) iter.Seq2[*Message[M], error] {
	return func(yield func(*Message[M], error) bool) {
		s, err := q.Subscribe(ctx, options...)
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.leave()
		for {
			m, err := s.Next(ctx)
			if errors.Is(err, ErrEnded) {
				return
			}
			if !yield(m, err) || m == nil {
				return
			}
		}
	}
}

// Subscribe opens a subscription, for goroutines that share one. Close it.
func (q *Queue[M]) Subscribe(ctx context.Context, options ...ConsumeOption) (*TypedSubscription[M], error) {
	s, err := q.client.Subscribe(ctx, q.contract.Queue, q.declare(options)...)
	if err != nil {
		return nil, err
	}
	return &TypedSubscription[M]{s, q.contract.MessageType}, nil
}

// Handle gives each message to a function, at most Concurrency (1) at once, and settles it: nil acknowledges, an error made by Reject
// rejects, another nacks. What does not decode is rejected. See Client.Handle.
func (q *Queue[M]) Handle(ctx context.Context, handler func(context.Context, *Message[M]) error, options ...ConsumeOption) error {
	untyped := func(ctx context.Context, d *Delivery) error {
		m, err := typed[M](d, q.contract.MessageType)
		if err != nil {
			return Reject(err)
		}
		return handler(ctx, m)
	}
	return q.client.Handle(ctx, q.contract.Queue, untyped, q.declare(options)...)
}

// Fetch pulls up to limit messages; with Wait it waits for the first one. See Client.Fetch. The error may be a *DecodeError for those
// messages whose Body is nil; they are among the result.
func (q *Queue[M]) Fetch(ctx context.Context, limit int, options ...ConsumeOption) ([]*Message[M], error) {
	deliveries, err := q.client.Fetch(ctx, q.contract.Queue, limit, q.declare(options)...)
	if err != nil {
		return nil, err
	}
	messages := make([]*Message[M], len(deliveries))
	var broken []error
	for i, d := range deliveries {
		messages[i], err = typed[M](d, q.contract.MessageType)
		if err != nil {
			broken = append(broken, err)
		}
	}
	return messages, errors.Join(broken...)
}

func (q *Queue[M]) declare(options []ConsumeOption) []ConsumeOption {
	return append(options[:len(options):len(options)], withContract([]byte(q.to.contract)))
}

// Message is a message on loan: its body, and the delivery that it came in. Settle it.
type Message[M proto.Message] struct {
	*Delivery
	// Body is the message.
	Body M
}

func typed[M proto.Message](d *Delivery, messageType string) (*Message[M], error) {
	body, err := decode[M](d.Payload)
	if err != nil {
		return &Message[M]{Delivery: d}, &DecodeError{Queue: d.Queue, Seq: d.Seq, MessageType: messageType, cause: err}
	}
	return &Message[M]{d, body}, nil
}

// TypedSubscription is an open subscription that yields messages of type M.
type TypedSubscription[M proto.Message] struct {
	*Subscription
	messageType string
}

// Next waits for the next message. See Subscription.Next and, for an error beside a message, Queue.Consume.
func (s *TypedSubscription[M]) Next(ctx context.Context) (*Message[M], error) {
	d, err := s.Subscription.Next(ctx)
	if err != nil {
		return nil, err
	}
	return typed[M](d, s.messageType)
}

// Service is a queue that is called with Req and replies with Rep.
type Service[Req, Rep proto.Message] struct {
	client   *Client
	contract *Contract
	to       destination
}

// NewService is for generated code.
func NewService[Req, Rep proto.Message](client *Client, contract *Contract) *Service[Req, Rep] {
	return &Service[Req, Rep]{client, contract, destination{contract.Queue, string(contract.fingerprint())}}
}

// Contract is the contract that the code was generated for.
func (s *Service[Req, Rep]) Contract() Contract { return *s.contract }

// Name is the queue's name.
func (s *Service[Req, Rep]) Name() string { return s.contract.Queue }

// Call asks and waits for the reply until ctx ends, 30 s if it has no deadline. See Client.Call.
func (s *Service[Req, Rep]) Call(ctx context.Context, request Req, options ...PublishOption) (Rep, error) {
	var none Rep
	payload, err := encode(request)
	if err != nil {
		return none, err
	}
	reply, err := s.client.call(ctx, s.to, payload, options)
	if err != nil {
		return none, err
	}
	body, err := decode[Rep](reply.Payload)
	if err != nil {
		return none, &DecodeError{Queue: s.contract.Queue, MessageType: s.contract.ReplyType, cause: err}
	}
	return body, nil
}

// Serve answers calls until ctx ends. See Client.Serve; a request that does not decode never reaches the handler.
func (s *Service[Req, Rep]) Serve(ctx context.Context, handler func(context.Context, Req) (Rep, error), options ...ConsumeOption) error {
	untyped := func(ctx context.Context, request *Request) (Reply, error) {
		body, err := decode[Req](request.Payload)
		if err != nil {
			broken := &DecodeError{Queue: s.contract.Queue, MessageType: s.contract.MessageType, cause: err}
			return Reply{}, Fail(ErrSchemaViolation, broken.Error())
		}
		reply, err := handler(ctx, body)
		if err != nil {
			return Reply{}, err
		}
		payload, err := encode(reply)
		return Reply{Payload: payload}, err
	}
	options = append(options[:len(options):len(options)], withContract([]byte(s.to.contract)))
	return s.client.Serve(ctx, s.contract.Queue, untyped, options...)
}

func encode(message proto.Message) ([]byte, error) { return proto.Marshal(message) }

func decode[M proto.Message](payload []byte) (M, error) {
	var none M
	// A nil pointer of a generated type knows its type.
	message := none.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(payload, message); err != nil {
		return none, err
	}
	return message, nil
}
