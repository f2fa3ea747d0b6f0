// What a publisher can say about a message beside its payload, and what it gets back.

package qwerq

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// PublishOption says something about a message beside its payload.
type PublishOption func(*publishOptions)

type publishOptions struct {
	headers        Headers
	orderingKey    string
	idempotencyKey string
	delay          *time.Duration
	deliverAt      time.Time
	ttl            *time.Duration
	id             *MessageID
}

// Header is one of a message's headers.
type Header struct {
	// Name is unique within the message; names that start with qwerq- are the broker's.
	Name string
	// Value is any text.
	Value string
}

// Headers are a message's headers, in order: at most 64, 32 KiB together.
type Headers []Header

// Get gives the value of the header of that name.
func (h Headers) Get(name string) (string, bool) {
	for _, header := range h {
		if header.Name == name {
			return header.Value, true
		}
	}
	return "", false
}

// AddHeader adds a header.
func AddHeader(name, value string) PublishOption {
	return func(o *publishOptions) {
		o.headers = append(o.headers[:len(o.headers):len(o.headers)], Header{name, value})
	}
}

// OrderingKey: messages of one key are delivered one at a time and in order, within a group.
func OrderingKey(key string) PublishOption { return func(o *publishOptions) { o.orderingKey = key } }

// IdempotencyKey: a second publish with the same key within the queue's dedup window stores nothing. It also makes the publish safe
// to repeat, so that the client does so by itself after a lost connection.
func IdempotencyKey(key string) PublishOption {
	return func(o *publishOptions) { o.idempotencyKey = key }
}

// Delay: deliver no sooner than so long from now.
func Delay(delay time.Duration) PublishOption {
	return func(o *publishOptions) { o.delay = &delay }
}

// DeliverAt: deliver no sooner than then.
func DeliverAt(at time.Time) PublishOption { return func(o *publishOptions) { o.deliverAt = at } }

// TTL: expire so long after falling due.
func TTL(ttl time.Duration) PublishOption { return func(o *publishOptions) { o.ttl = &ttl } }

// ID sets the publisher's own id; without one the broker makes a ULID.
func ID(id MessageID) PublishOption { return func(o *publishOptions) { o.id = &id } }

// MessageID is a message's id: 16 bytes, a ULID when the broker made it.
type MessageID [16]byte

// NewMessageID makes a random id.
func NewMessageID() (id MessageID) {
	rand.Read(id[:])
	return id
}

var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// String is the id as a ULID: 26 letters and digits.
func (id MessageID) String() string {
	// 128 bits in 26 digits of 5 bits leave 2 bits at the front.
	var padded [20]byte
	copy(padded[4:], id[:])
	return crockford.EncodeToString(padded[:])[6:]
}

// Hex is the id in hexadecimal.
func (id MessageID) Hex() string { return hex.EncodeToString(id[:]) }

// Durability says what "accepted" means.
type Durability int32

const (
	// DurabilityFsync: written and synced; survives a power loss.
	DurabilityFsync Durability = 1
	// DurabilityInterval: written, synced within the broker's interval; survives a killed process.
	DurabilityInterval Durability = 2
	// DurabilityNone: written, synced when the kernel likes; survives a killed process.
	DurabilityNone Durability = 3
	// DurabilityQuorum: synced on a majority of the cluster's nodes.
	DurabilityQuorum Durability = 4
)

// Published is the broker's receipt for one message.
type Published struct {
	// ID is the message's id; for a duplicate, the first one's.
	ID MessageID
	// Seq is its position in the queue; meaningless while Delayed.
	Seq uint64
	// Delayed: it gets its position when it falls due.
	Delayed bool
	// SchemaVersion is the contract version that accepted it; 0 on a queue without one.
	SchemaVersion uint32
	// Duplicate: the idempotency key was known, and nothing was stored.
	Duplicate bool
	// ContractUnknown: the broker does not know the contract that this publisher was generated from; the active version judged instead.
	ContractUnknown bool
	// Durability is what the acknowledgement promises.
	Durability Durability
	// DeadLettered is set when the message breaks the contract and the queue sends such ones to its dead letter queue: the violation.
	DeadLettered error
}

// Fields of PublishItem.
const (
	itemPayload protowire.Number = iota + 1
	itemHeaders
	itemOrderingKey
	itemIdempotencyKey
	itemDelay
	itemDeliverAt
	itemTTL
	itemID
)

// appendItem appends a PublishItem. Publishing is the hot path, so it does not go through codec.go.
func appendItem(buf, payload []byte, o *publishOptions) []byte {
	if len(payload) > 0 {
		buf = appendBytes(buf, itemPayload, payload)
	}
	for _, header := range o.headers {
		entry := appendString(nil, 1, header.Name)
		buf = appendBytes(buf, itemHeaders, appendString(entry, 2, header.Value))
	}
	buf = appendString(buf, itemOrderingKey, o.orderingKey)
	buf = appendString(buf, itemIdempotencyKey, o.idempotencyKey)
	if o.delay != nil {
		buf = appendVarint(buf, itemDelay, milliseconds(*o.delay))
	}
	if !o.deliverAt.IsZero() {
		buf = appendVarint(buf, itemDeliverAt, epochMilliseconds(o.deliverAt))
	}
	if o.ttl != nil {
		buf = appendVarint(buf, itemTTL, milliseconds(*o.ttl))
	}
	if o.id != nil {
		buf = appendBytes(buf, itemID, o.id[:])
	}
	return buf
}

func appendString(buf []byte, number protowire.Number, value string) []byte {
	if value == "" {
		return buf
	}
	return protowire.AppendString(protowire.AppendTag(buf, number, protowire.BytesType), value)
}

func appendBytes(buf []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(buf, number, protowire.BytesType), value)
}

func appendVarint(buf []byte, number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(buf, number, protowire.VarintType), value)
}

func epochMilliseconds(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 0)) }

func (r *wirePublishResult) published(ack *wirePublishAck) (Published, error) {
	if r.Error != nil && !r.DeadLettered {
		return Published{}, r.Error.fromWire()
	}
	p := Published{
		Delayed: r.Seq == nil, SchemaVersion: r.SchemaVersion, Duplicate: r.Duplicate,
		ContractUnknown: ack.ContractUnknown, Durability: Durability(ack.Durability), DeadLettered: r.Error.fromWire(),
	}
	copy(p.ID[:], r.ID)
	if r.Seq != nil {
		p.Seq = *r.Seq
	}
	return p, nil
}
