// The Go part of the conversation: `conversation ROLE LIMIT`. It says what it saw in lines of text.
//
// cases builds every case of cases.json by hand, so that the types of the generated code are what is tested.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"example.com/conversation/queues"
	conversationv1 "example.com/conversation/queues/conversation/v1"
	"example.com/conversation/queues/qwerq"
)

type everything = conversationv1.Everything

const text = "\x00\u00e9e\u0301\ufffd\U0001f600\U0010ffff"

var negativeZero = math.Copysign(0, -1)

func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

func least() *conversationv1.Scalars {
	return &conversationv1.Scalars{
		FDouble:   -math.MaxFloat64,
		FFloat:    -math.MaxFloat32,
		FInt32:    math.MinInt32,
		FInt64:    math.MinInt64,
		FUint32:   1,
		FUint64:   1,
		FSint32:   math.MinInt32,
		FSint64:   math.MinInt64,
		FFixed32:  1,
		FFixed64:  1,
		FSfixed32: math.MinInt32,
		FSfixed64: math.MinInt64,
		FBool:     true,
		FString:   text,
		FBytes:    allBytes(),
		FColor:    conversationv1.Color_COLOR_FIRST,
	}
}

func most() *conversationv1.Scalars {
	return &conversationv1.Scalars{
		FDouble:   math.MaxFloat64,
		FFloat:    math.MaxFloat32,
		FInt32:    math.MaxInt32,
		FInt64:    math.MaxInt64,
		FUint32:   math.MaxUint32,
		FUint64:   math.MaxUint64,
		FSint32:   math.MaxInt32,
		FSint64:   math.MaxInt64,
		FFixed32:  math.MaxUint32,
		FFixed64:  math.MaxUint64,
		FSfixed32: math.MaxInt32,
		FSfixed64: math.MaxInt64,
		FBool:     true,
		FString:   text,
		FBytes:    allBytes(),
		FColor:    conversationv1.Color_COLOR_LAST,
	}
}

func optional(of *conversationv1.Scalars) *conversationv1.Optionals {
	raw := of.FBytes
	if raw == nil {
		raw = []byte{}
	}
	return &conversationv1.Optionals{
		FDouble:   &of.FDouble,
		FFloat:    &of.FFloat,
		FInt32:    &of.FInt32,
		FInt64:    &of.FInt64,
		FUint32:   &of.FUint32,
		FUint64:   &of.FUint64,
		FSint32:   &of.FSint32,
		FSint64:   &of.FSint64,
		FFixed32:  &of.FFixed32,
		FFixed64:  &of.FFixed64,
		FSfixed32: &of.FSfixed32,
		FSfixed64: &of.FSfixed64,
		FBool:     &of.FBool,
		FString:   &of.FString,
		FBytes:    raw,
		FColor:    &of.FColor,
	}
}

func lists() *conversationv1.Lists {
	infinity, nan := math.Inf(1), math.NaN()
	return &conversationv1.Lists{
		FDouble:   []float64{nan, infinity, -infinity, negativeZero, math.SmallestNonzeroFloat64, 0},
		FFloat:    []float32{float32(nan), float32(infinity), float32(-infinity), float32(negativeZero), math.SmallestNonzeroFloat32, 0},
		FInt32:    []int32{math.MinInt32, -1, 0, math.MaxInt32},
		FInt64:    []int64{math.MinInt64, -1, 0, math.MaxInt64},
		FUint32:   []uint32{0, math.MaxUint32},
		FUint64:   []uint64{0, math.MaxUint64},
		FSint32:   []int32{math.MinInt32, -1, 0, math.MaxInt32},
		FSint64:   []int64{math.MinInt64, -1, 0, math.MaxInt64},
		FFixed32:  []uint32{0, math.MaxUint32},
		FFixed64:  []uint64{0, math.MaxUint64},
		FSfixed32: []int32{math.MinInt32, -1, 0, math.MaxInt32},
		FSfixed64: []int64{math.MinInt64, -1, 0, math.MaxInt64},
		FBool:     []bool{true, false},
		FString:   []string{"", text},
		FBytes:    [][]byte{{}, allBytes()},
		FColor:    []conversationv1.Color{conversationv1.Color_COLOR_UNSPECIFIED, conversationv1.Color_COLOR_RED, 77, -1},
		Unpacked:  []int32{math.MinInt32, 0, math.MaxInt32},
		Nothings:  []*conversationv1.Nothing{{}, {}},
	}
}

func maps() *conversationv1.Maps {
	return &conversationv1.Maps{
		ByInt32:    map[int32]string{math.MinInt32: "", 0: text, math.MaxInt32: "x"},
		ByInt64:    map[int64][]byte{math.MinInt64: {}, 0: allBytes(), math.MaxInt64: {255}},
		ByUint32:   map[uint32]float64{0: 0.5, math.MaxUint32: -1.5},
		ByUint64:   map[uint64]int64{0: math.MinInt64, math.MaxUint64: math.MaxInt64},
		BySint32:   map[int32]bool{math.MinInt32: true, 0: false, math.MaxInt32: true},
		BySint64:   map[int64]conversationv1.Color{math.MinInt64: conversationv1.Color_COLOR_RED, 0: 77, math.MaxInt64: 0},
		ByFixed32:  map[uint32]*conversationv1.Nothing{0: {}, math.MaxUint32: {}},
		ByFixed64:  map[uint64]uint64{0: 0, math.MaxUint64: math.MaxUint64},
		BySfixed32: map[int32]float32{math.MinInt32: 0.5, 0: 0, math.MaxInt32: -0.5},
		BySfixed64: map[int64]int32{math.MinInt64: math.MinInt32, 0: 0, math.MaxInt64: math.MaxInt32},
		ByBool:     map[bool]uint64{false: 0, true: math.MaxUint64},
		ByString:   map[string]*conversationv1.Scalars{"": {}, text: most(), "constructor": least()},
	}
}

func wellKnown(at *timestamppb.Timestamp, span *durationpb.Duration, real float64, of *conversationv1.Scalars) *conversationv1.WellKnown {
	return &conversationv1.WellKnown{
		At:          at,
		Span:        span,
		Empty:       &emptypb.Empty{},
		DoubleValue: wrapperspb.Double(real),
		FloatValue:  wrapperspb.Float(float32(real)),
		Int64Value:  wrapperspb.Int64(of.FInt64),
		Uint64Value: wrapperspb.UInt64(of.FUint64),
		Int32Value:  wrapperspb.Int32(of.FInt32),
		Uint32Value: wrapperspb.UInt32(of.FUint32),
		BoolValue:   wrapperspb.Bool(of.FBool),
		StringValue: wrapperspb.String(of.FString),
		BytesValue:  wrapperspb.Bytes(of.FBytes),
	}
}

func deep() *everything {
	message := &everything{Name: "end"}
	for range 60 {
		message = &everything{Inner: message}
	}
	message.Name = "deep"
	return message
}

// Every case of cases.json.
func cases() []*everything {
	nan, infinity := math.NaN(), math.Inf(1)
	minusZero, minusZero32 := negativeZero, float32(negativeZero)
	return []*everything{
		{Name: "nothing set"},
		{Name: "least", Scalars: least()},
		{Name: "most", Scalars: most()},
		{Name: "not a number", Scalars: &conversationv1.Scalars{FDouble: nan, FFloat: float32(nan)}},
		{Name: "infinite", Scalars: &conversationv1.Scalars{FDouble: infinity, FFloat: float32(-infinity)}},
		{Name: "unknown color", Scalars: &conversationv1.Scalars{FColor: 77}},
		{Name: "optional zeros", Optionals: optional(&conversationv1.Scalars{})},
		{Name: "optional extremes", Optionals: optional(most())},
		{Name: "optional negative zeros", Optionals: &conversationv1.Optionals{FDouble: &minusZero, FFloat: &minusZero32}},
		{Name: "optionals absent", Optionals: &conversationv1.Optionals{}},
		{Name: "lists", Lists: lists()},
		{Name: "maps", Maps: maps()},
		{Name: "choice of empty text", Choice: &conversationv1.Everything_Text{}},
		{Name: "choice of zero", Choice: &conversationv1.Everything_Number{}},
		{Name: "choice of least", Choice: &conversationv1.Everything_Number{Number: math.MinInt64}},
		{Name: "choice of no color", Choice: &conversationv1.Everything_Color{}},
		{Name: "choice of unknown color", Choice: &conversationv1.Everything_Color{Color: -1}},
		{Name: "choice of no bytes", Choice: &conversationv1.Everything_Raw{Raw: []byte{}}},
		{Name: "choice of nothing", Choice: &conversationv1.Everything_Nothing{Nothing: &conversationv1.Nothing{}}},
		{Name: "choice of negative zero", Choice: &conversationv1.Everything_Real{Real: negativeZero}},
		{Name: "well-known zeros", WellKnown: wellKnown(&timestamppb.Timestamp{}, &durationpb.Duration{}, 0, &conversationv1.Scalars{})},
		{Name: "well-known least", WellKnown: wellKnown(
			&timestamppb.Timestamp{Seconds: -62_135_596_800},
			&durationpb.Duration{Seconds: -315_576_000_000, Nanos: -999_999_999}, -infinity, least())},
		{Name: "well-known most", WellKnown: wellKnown(
			&timestamppb.Timestamp{Seconds: 253_402_300_799, Nanos: 999_999_999},
			&durationpb.Duration{Seconds: 315_576_000_000, Nanos: 999_999_999}, nan, most())},
		deep(),
	}
}

// filled is a message of exactly so many bytes.
func filled(name string, size int) *everything {
	message := &everything{Name: name, Filling: bytes.Repeat([]byte{7}, size)}
	message.Filling = message.Filling[:size-(proto.Size(message)-size)]
	if proto.Size(message) != size {
		panic("another length than was asked for")
	}
	return message
}

// same compares bit by bit; only the order of maps and unknown fields are nobody's business here.
func same(a, b *everything) bool {
	encoded := func(of *everything) []byte {
		known := proto.Clone(of).(*everything)
		known.ProtoReflect().SetUnknown(nil)
		if known.Scalars != nil {
			known.Scalars.ProtoReflect().SetUnknown(nil)
		}
		bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(known)
		check(err)
		return bytes
	}
	return bytes.Equal(oneNaN(encoded(a)), oneNaN(encoded(b)))
}

// oneNaN makes Go's NaN, which has a bit more, everybody's.
func oneNaN(encoded []byte) []byte {
	return bytes.ReplaceAll(encoded, []byte{1, 0, 0, 0, 0, 0, 0xf8, 0x7f}, []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f})
}

// A conversation knows what is to be expected and where the broker is.
type conversation struct {
	queues   *queues.Queues
	limit    int
	names    []string
	expected map[string]*everything
}

func (c *conversation) compare(from string, body *everything) string {
	if expected, ok := c.expected[body.Name]; ok && same(body, expected) {
		return fmt.Sprintf("same %s: %s", from, body.Name)
	}
	return fmt.Sprintf("differs %s: %s: %v", from, body.Name, body)
}

func code(err error) string {
	var said *qwerq.Error
	if errors.As(err, &said) {
		return said.Name
	}
	return fmt.Sprint(err)
}

// publish publishes every case, the largest message and a larger one.
func (c *conversation) publish(ctx context.Context) {
	for _, name := range c.names {
		_, err := c.queues.FromGo.Publish(ctx, c.expected[name])
		check(err)
	}
	fmt.Println("published", len(c.names))
	_, err := c.queues.FromGo.Publish(ctx, filled("larger", c.limit+1))
	fmt.Println("refused", code(err))
}

// consume reads what each language published, publishes it again, and reads what a newer contract has more.
func (c *conversation) consume(ctx context.Context) {
	c.consumeAll(ctx, "rust", c.queues.FromRust, len(c.names))
	c.consumeAll(ctx, "typescript", c.queues.FromTypescript, len(c.names))
	c.consumeAll(ctx, "go", c.queues.FromGo, len(c.names))
	c.consumeAll(ctx, "future", c.queues.FromFuture, 1)
}

func (c *conversation) consumeAll(ctx context.Context, from string, queue *qwerq.Queue[*everything], count int) {
	seen := map[string]bool{}
	for m, err := range queue.Consume(ctx, qwerq.Group("go")) {
		check(err)
		fmt.Println(c.compare(from, m.Body))
		seen[m.Body.Name] = true
		_, err := c.queues.AgainGo.Publish(ctx, m.Body)
		check(err)
		check(m.AckConfirmed(ctx))
		if len(seen) == count {
			break
		}
	}
}

// serve answers every call with its request until stdin ends.
func (c *conversation) serve(ctx context.Context) {
	stop, cancel := context.WithCancel(ctx)
	go func() {
		// Until the responder has arrived the broker says at once that nobody serves.
		for errors.Is(c.hello(stop), qwerq.ErrNoResponders) {
		}
		fmt.Println("serving")
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err := c.queues.AskGo.Serve(stop, func(_ context.Context, request *everything) (*everything, error) { return request, nil })
	if !errors.Is(err, context.Canceled) {
		check(err)
	}
}

func (c *conversation) hello(ctx context.Context) error {
	_, err := c.queues.AskGo.Call(ctx, &everything{})
	return err
}

// call calls whoever serves in each language, with every case, the largest message and a larger one.
func (c *conversation) call(ctx context.Context) {
	c.callAll(ctx, "rust", c.queues.AskRust)
	c.callAll(ctx, "typescript", c.queues.AskTypescript)
	c.callAll(ctx, "go", c.queues.AskGo)
}

func (c *conversation) callAll(ctx context.Context, to string, service *qwerq.Service[*everything, *everything]) {
	for _, name := range c.names {
		reply, err := service.Call(ctx, c.expected[name])
		check(err)
		line := c.compare(to, reply)
		if reply.Name != name {
			line += " with another's reply"
		}
		fmt.Println(line)
	}
	_, err := service.Call(ctx, filled("larger", c.limit+1))
	fmt.Printf("refused %s: %s\n", to, code(err))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	limit, err := strconv.Atoi(os.Args[2])
	check(err)
	ctx := context.Background()
	connected, err := queues.Dial(ctx, os.Getenv("QWERQ_BROKER"))
	check(err)
	c := &conversation{queues: connected, limit: limit, expected: map[string]*everything{}}
	for _, message := range append(cases(), filled("largest", limit)) {
		c.names = append(c.names, message.Name)
		c.expected[message.Name] = message
	}
	switch os.Args[1] {
	case "publish":
		c.publish(ctx)
	case "consume":
		c.consume(ctx)
	case "serve":
		c.serve(ctx)
	case "call":
		c.call(ctx)
	}
	check(connected.Close(ctx))
}
