// Frames: how bytes on a connection fall into messages. Nothing is allocated for a length that was not compared with the limit.

package qwerq

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	headerBytes    = 6
	flagCorrelated = 1

	protocolVersion = 1

	// What a frame's length may be before HELLO_ACK, and after it when the broker names no limit.
	maxFrameBytesBeforeHello = 4096
	maxFrameBytesDefault     = 16 << 20

	// What a frame needs beside payload and headers of a message: see max_message_bytes in docs/protocol.md.
	frameOverheadBytes = 64 << 10
)

type opcode uint8

func (op opcode) String() string {
	if name, ok := opcodeNames[op]; ok {
		return name
	}
	return fmt.Sprintf("opcode 0x%02x", uint8(op))
}

type frame struct {
	op         opcode
	correlated bool
	id         uint32
	payload    []byte
}

// frameError is a header that must not be believed; its code names the page under docs/errors/.
type frameError struct {
	code Code
	text string
}

func (e *frameError) Error() string { return e.code.String() + ": " + e.text }

// checkHeader reads the six header bytes and refuses what no limit or feature of this connection allows.
func checkHeader(header []byte, limit uint32) (op opcode, correlated bool, length uint32, err error) {
	op, flags := opcode(header[0]), header[1]
	length = binary.BigEndian.Uint32(header[2:6])
	correlated = flags&flagCorrelated != 0
	switch {
	case flags&^flagCorrelated != 0:
		err = &frameError{ErrUnnegotiatedFlag, fmt.Sprintf("flags 0x%02x of %s", flags, op)}
	case length > limit:
		err = &frameError{ErrFrameTooLarge, fmt.Sprintf("%s of %d bytes, the limit is %d", op, length, limit)}
	case correlated && length < 4:
		err = &frameError{ErrMalformedFrame, fmt.Sprintf("%s of %d bytes has no room for a request id", op, length)}
	}
	return op, correlated, length, err
}

// readFrame reads one frame. Its payload is a slice of its own, so that what refers to it may live on.
func readFrame(r *bufio.Reader, limit uint32) (frame, error) {
	header, err := r.Peek(headerBytes)
	if err != nil {
		if err == io.EOF && len(header) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	op, correlated, length, err := checkHeader(header, limit)
	if err != nil {
		return frame{}, err
	}
	if _, err := r.Discard(headerBytes); err != nil {
		return frame{}, err
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	f := frame{op: op, correlated: correlated, payload: body}
	if correlated {
		f.id = binary.BigEndian.Uint32(body)
		f.payload = body[4:]
	}
	return f, nil
}

// appendFrame appends a frame whose request id is sent if it is not zero: this client counts from 1.
func appendFrame(buf []byte, op opcode, id uint32, payload []byte) []byte {
	buf = appendHeader(buf, op, id, len(payload))
	return append(buf, payload...)
}

func appendHeader(buf []byte, op opcode, id uint32, payloadBytes int) []byte {
	flags := byte(0)
	if id != 0 {
		flags, payloadBytes = flagCorrelated, payloadBytes+4
	}
	buf = append(buf, byte(op), flags)
	buf = binary.BigEndian.AppendUint32(buf, uint32(payloadBytes))
	if id != 0 {
		buf = binary.BigEndian.AppendUint32(buf, id)
	}
	return buf
}
