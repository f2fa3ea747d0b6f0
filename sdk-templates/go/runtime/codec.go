// Protobuf for the protocol's own messages: structs with tags in, bytes out, and back. Fields are written in the order of their numbers;
// what a struct does not know is skipped, so that either side may be newer. Users' messages never pass through here.

package qwerq

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

type wireField struct {
	number protowire.Number
	name   string
	index  int
}

var plans sync.Map // reflect.Type -> []wireField, in the order of numbers

func planOf(t reflect.Type) []wireField {
	if plan, ok := plans.Load(t); ok {
		return plan.([]wireField)
	}
	plan := make([]wireField, t.NumField())
	for i := range plan {
		number, name, _ := strings.Cut(t.Field(i).Tag.Get("wire"), ",")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic("qwerq: field without a number: " + t.Field(i).Name)
		}
		plan[i] = wireField{number: protowire.Number(n), name: name, index: i}
	}
	sort.Slice(plan, func(i, j int) bool { return plan[i].number < plan[j].number })
	plans.Store(t, plan)
	return plan
}

// marshal gives the bytes of a message, which is a pointer to one of the structs of wire.go.
func marshal(message any) []byte {
	return appendMessage(nil, reflect.ValueOf(message).Elem())
}

func appendMessage(buf []byte, v reflect.Value) []byte {
	for _, field := range planOf(v.Type()) {
		buf = appendField(buf, field.number, v.Field(field.index))
	}
	return buf
}

// appendField leaves out what is zero, except behind a pointer: there presence counts.
func appendField(buf []byte, number protowire.Number, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return buf
		}
		return appendValue(buf, number, v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if v.Len() == 0 {
				return buf
			}
			return appendValue(buf, number, v)
		}
		for i := range v.Len() {
			element := v.Index(i)
			if element.Kind() == reflect.Pointer {
				element = element.Elem()
			}
			buf = appendValue(buf, number, element)
		}
		return buf
	case reflect.Map:
		for _, key := range sortedKeys(v.Interface().(map[string]string)) {
			entry := protowire.AppendTag(nil, 1, protowire.BytesType)
			entry = protowire.AppendString(entry, key)
			entry = protowire.AppendTag(entry, 2, protowire.BytesType)
			entry = protowire.AppendString(entry, v.Interface().(map[string]string)[key])
			buf = protowire.AppendTag(buf, number, protowire.BytesType)
			buf = protowire.AppendBytes(buf, entry)
		}
		return buf
	default:
		if v.IsZero() {
			return buf
		}
		return appendValue(buf, number, v)
	}
}

func appendValue(buf []byte, number protowire.Number, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		buf = protowire.AppendTag(buf, number, protowire.VarintType)
		return protowire.AppendVarint(buf, protowire.EncodeBool(v.Bool()))
	case reflect.Uint32, reflect.Uint64:
		buf = protowire.AppendTag(buf, number, protowire.VarintType)
		return protowire.AppendVarint(buf, v.Uint())
	case reflect.Int32:
		buf = protowire.AppendTag(buf, number, protowire.VarintType)
		return protowire.AppendVarint(buf, uint64(v.Int()))
	case reflect.String:
		buf = protowire.AppendTag(buf, number, protowire.BytesType)
		return protowire.AppendString(buf, v.String())
	case reflect.Slice:
		buf = protowire.AppendTag(buf, number, protowire.BytesType)
		return protowire.AppendBytes(buf, v.Bytes())
	case reflect.Struct:
		buf = protowire.AppendTag(buf, number, protowire.BytesType)
		return protowire.AppendBytes(buf, appendMessage(nil, v))
	default:
		panic("qwerq: no wire form for " + v.Type().String())
	}
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// unmarshal fills a message from bytes. Byte fields alias them.
func unmarshal(bytes []byte, message any) error {
	return readMessage(bytes, reflect.ValueOf(message).Elem())
}

func readMessage(bytes []byte, v reflect.Value) error {
	plan := planOf(v.Type())
	for len(bytes) > 0 {
		number, kind, n := protowire.ConsumeTag(bytes)
		if n < 0 {
			return protowire.ParseError(n)
		}
		bytes = bytes[n:]
		i := sort.Search(len(plan), func(i int) bool { return plan[i].number >= number })
		if i == len(plan) || plan[i].number != number {
			n = protowire.ConsumeFieldValue(number, kind, bytes)
			if n < 0 {
				return protowire.ParseError(n)
			}
			bytes = bytes[n:]
			continue
		}
		rest, err := readField(bytes, kind, v.Field(plan[i].index))
		if err != nil {
			return fmt.Errorf("%s: %w", plan[i].name, err)
		}
		bytes = rest
	}
	return nil
}

func readField(bytes []byte, kind protowire.Type, v reflect.Value) ([]byte, error) {
	switch kind {
	case protowire.VarintType:
		value, n := protowire.ConsumeVarint(bytes)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		return bytes[n:], setVarint(v, value)
	case protowire.BytesType:
		value, n := protowire.ConsumeBytes(bytes)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		return bytes[n:], setBytes(v, value)
	default:
		return nil, fmt.Errorf("wire type %d", kind)
	}
}

func setVarint(v reflect.Value, value uint64) error {
	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() != reflect.Struct {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(value != 0)
	case reflect.Uint32:
		v.SetUint(uint64(uint32(value)))
	case reflect.Uint64:
		v.SetUint(value)
	case reflect.Int32:
		v.SetInt(int64(int32(uint32(value))))
	default:
		return fmt.Errorf("a number where %s is expected", v.Type())
	}
	return nil
}

func setBytes(v reflect.Value, value []byte) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(value))
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.String {
			text := string(value)
			v.Set(reflect.ValueOf(&text))
			return nil
		}
		if v.Type().Elem().Kind() != reflect.Struct {
			return fmt.Errorf("bytes where %s is expected", v.Type())
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return readMessage(value, v.Elem())
	case reflect.Slice:
		return setRepeated(v, value)
	case reflect.Map:
		return setEntry(v, value)
	default:
		return fmt.Errorf("bytes where %s is expected", v.Type())
	}
	return nil
}

func setRepeated(v reflect.Value, value []byte) error {
	switch element := v.Type().Elem(); element.Kind() {
	case reflect.Uint8:
		v.SetBytes(value)
	case reflect.String:
		v.Set(reflect.Append(v, reflect.ValueOf(string(value))))
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.ValueOf(value)))
	case reflect.Pointer:
		message := reflect.New(element.Elem())
		if err := readMessage(value, message.Elem()); err != nil {
			return err
		}
		v.Set(reflect.Append(v, message))
	default:
		return fmt.Errorf("bytes where %s is expected", v.Type())
	}
	return nil
}

func setEntry(v reflect.Value, value []byte) error {
	var entry struct {
		Key   string `wire:"1,key"`
		Value string `wire:"2,value"`
	}
	if err := unmarshal(value, &entry); err != nil {
		return err
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	v.SetMapIndex(reflect.ValueOf(entry.Key), reflect.ValueOf(entry.Value))
	return nil
}
