// One request, one reply: what waits for the connection, and what becomes of it when the connection is lost.

package qwerq

import "fmt"

type requestKind int

const (
	// kindRequest is answered by a message; whoever asked waits for it.
	kindRequest requestKind = iota
	kindPublish
	kindConsume
	kindUnsubscribe
	kindNote
	// kindPost is never answered and ends with its connection.
	kindPost
)

type request struct {
	id      uint32 // 0: wants no answer
	op      opcode
	kind    requestKind
	payload []byte
	repeats bool
	refused int // how often the broker has answered `overloaded`
	// Called once, under the client's lock; nil: nobody waits.
	done func(answer)
	// Where it ends in the stream of bytes: unless that much has been written, the broker cannot have acted on it.
	end uint64

	lane         *lane
	batch        *batch
	subscription *Subscription
	note         *note
}

type answer struct {
	frame   frame
	session *session
	err     error
}

// mayWait says that the reply depends on somebody other than the broker.
func (r *request) mayWait() bool { return r.op == opCall || r.op == opFetch }

func (r *request) answer(a answer) {
	if r.done != nil {
		r.done(a)
		r.done = nil
	}
}

// decode reads the message of a frame that must have that opcode.
func (f frame) decode(expected opcode, into any) error {
	if f.op != expected {
		return protocolError("the broker answered %s instead of %s", f.op, expected)
	}
	if err := unmarshal(f.payload, into); err != nil {
		return protocolError("%s does not decode: %v", f.op, err)
	}
	return nil
}

func tooLarge(bytes, room int) error {
	return Fail(ErrMessageTooLarge, fmt.Sprintf("%d bytes are more than the %d bytes that one frame carries; send less at once", bytes, room))
}
