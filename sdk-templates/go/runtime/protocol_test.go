package qwerq

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type block struct {
	attributes map[string]string
	body       string
}

func blocks(page, kind string) []block {
	var found []block
	for _, text := range strings.Split(page, "```"+kind+" ")[1:] {
		first, rest, _ := strings.Cut(text, "\n")
		body, _, _ := strings.Cut(rest, "```")
		attributes := map[string]string{}
		for _, pair := range strings.Fields(first) {
			name, value, _ := strings.Cut(pair, "=")
			attributes[name] = value
		}
		found = append(found, block{attributes, body})
	}
	return found
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	decoded, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func TestEveryVectorOfTheProtocolIsWhatThisClientSpeaks(t *testing.T) {
	vectors := blocks(page(t), "vector")
	if len(vectors) < len(opcodeNames) {
		t.Fatalf("%d vectors for %d opcodes", len(vectors), len(opcodeNames))
	}
	seen := map[string]bool{}
	for _, vector := range vectors {
		t.Run(vector.attributes["name"], func(t *testing.T) {
			stated, hexadecimal, _ := strings.Cut(vector.body, "\n\n")
			want := unhex(t, hexadecimal)
			got, err := readFrame(bufio.NewReader(bytes.NewReader(want)), maxFrameBytesDefault)
			if err != nil {
				t.Fatal(err)
			}
			name := vector.attributes["opcode"]
			seen[name] = true
			id, correlated := vector.attributes["correlated"]
			if got.op.String() != name || got.correlated != correlated || correlated && strconv.Itoa(int(got.id)) != id {
				t.Fatalf("read %v", got)
			}
			message := reflect.New(reflect.TypeOf(messageOf[name]))
			if err := unmarshal(got.payload, message.Interface()); err != nil {
				t.Fatal(err)
			}
			if again := appendFrame(nil, got.op, got.id, marshal(message.Interface())); !bytes.Equal(again, want) {
				t.Errorf("encoded again\n%x, want\n%x", again, want)
			}
			decoder := json.NewDecoder(strings.NewReader(stated))
			decoder.UseNumber()
			var fields any
			if err := decoder.Decode(&fields); err != nil {
				t.Fatal(err)
			}
			fromJSON := reflect.New(message.Type().Elem())
			fill(t, fromJSON.Elem(), fields)
			if got := marshal(fromJSON.Interface()); !bytes.Equal(got, marshal(message.Interface())) {
				t.Errorf("the JSON gives %x", got)
			}
		})
	}
	for _, name := range opcodeNames {
		if !seen[name] {
			t.Errorf("no vector for %s", name)
		}
	}
}

// fill sets a message from protobuf's JSON form.
func fill(t *testing.T, v reflect.Value, from any) {
	t.Helper()
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), from)
	case v.Kind() == reflect.Struct:
		left := map[string]any{}
		for name, value := range from.(map[string]any) {
			left[name] = value
		}
		for _, field := range planOf(v.Type()) {
			if value, ok := left[field.name]; ok {
				fill(t, v.Field(field.index), value)
				delete(left, field.name)
			}
		}
		if len(left) > 0 {
			t.Fatalf("%s has no %v", v.Type(), left)
		}
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for name, value := range from.(map[string]any) {
			v.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(value))
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		decoded, err := base64.StdEncoding.DecodeString(from.(string))
		if err != nil {
			t.Fatal(err)
		}
		v.SetBytes(decoded)
	case v.Kind() == reflect.Slice:
		for _, value := range from.([]any) {
			element := reflect.New(v.Type().Elem()).Elem()
			fill(t, element, value)
			v.Set(reflect.Append(v, element))
		}
	case v.Kind() == reflect.String:
		v.SetString(from.(string))
	case v.Kind() == reflect.Bool:
		v.SetBool(from.(bool))
	case v.Kind() == reflect.Int32:
		number, ok := enumValues[from.(string)]
		if !ok {
			t.Fatalf("no enum value %v", from)
		}
		v.SetInt(number)
	default:
		number, err := strconv.ParseUint(fmt.Sprint(from), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		v.SetUint(number)
	}
}

func TestWhatTheHeaderForbidsIsRefusedFromTheHeaderAlone(t *testing.T) {
	refused := blocks(page(t), "refused")
	if len(refused) == 0 {
		t.Fatal("no refused vectors")
	}
	for _, vector := range refused {
		limit, err := strconv.ParseUint(vector.attributes["limit"], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = checkHeader(unhex(t, vector.body)[:headerBytes], uint32(limit))
		if err == nil || err.(*frameError).code.String() != vector.attributes["error"] {
			t.Errorf("%s: %v", vector.attributes["name"], err)
		}
	}
}

func TestTheOpcodesAreThoseOfThePage(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| (0x[0-9a-f]{2}) \\| (\\w+) \\| \\w+ \\| `(\\w+)` \\|").FindAllStringSubmatch(page(t), -1)
	if len(rows) != len(opcodeNames) {
		t.Errorf("%d opcodes on the page, %d here", len(rows), len(opcodeNames))
	}
	for _, row := range rows {
		number, _ := strconv.ParseUint(row[1], 0, 8)
		if opcodeNames[opcode(number)] != row[2] {
			t.Errorf("%s is %s here", row[2], opcode(number))
		}
		if got := reflect.TypeOf(messageOf[row[2]]); got == nil || got.Name() != "wire"+row[3] {
			t.Errorf("%s carries %s on the page, %v here", row[2], row[3], got)
		}
	}
}

func TestTheFieldsAreThoseOfThePage(t *testing.T) {
	page := page(t)
	checked := map[reflect.Type]bool{}
	var check func(reflect.Type)
	check = func(message reflect.Type) {
		if checked[message] {
			return
		}
		checked[message] = true
		_, section, ok := strings.Cut(page, "\n#### `"+strings.TrimPrefix(message.Name(), "wire")+"`\n")
		if !ok {
			t.Errorf("no section for %s", message.Name())
			return
		}
		section, _, _ = strings.Cut(section, "\n#")
		rows := regexp.MustCompile("(?m)^\\| (\\d+) \\| `(\\w+)` \\|").FindAllStringSubmatch(section, -1)
		var listed, known []string
		for _, row := range rows {
			listed = append(listed, row[1]+" "+row[2])
		}
		for _, field := range planOf(message) {
			known = append(known, fmt.Sprintf("%d %s", field.number, field.name))
			inner := message.Field(field.index).Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				check(inner)
			}
		}
		if !reflect.DeepEqual(listed, known) {
			t.Errorf("%s: %v on the page, %v here", message.Name(), listed, known)
		}
	}
	for _, message := range messageOf {
		check(reflect.TypeOf(message))
	}
}

func TestUnknownFieldsAreSkippedAndBrokenOnesRefused(t *testing.T) {
	for _, c := range []struct {
		hex string
		ok  bool
	}{
		{"0805", true},             // request_id
		{"0805f20103616263", true}, // and a field 30
		{"0a0161", false},          // request_id as bytes
		{"08", false},              // cut short
		{"f2010a61", false},        // an unknown field cut short
	} {
		var cancel wireCancel
		err := unmarshal(unhex(t, c.hex), &cancel)
		if (err == nil) != c.ok || c.ok && cancel.RequestID != 5 {
			t.Errorf("%s: %v, %v", c.hex, cancel, err)
		}
	}
}

func TestTheCodesAreThoseThatHaveAPage(t *testing.T) {
	pages, err := os.ReadDir("../../../docs/errors")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, name := range codeNames {
		known[name] = true
	}
	for _, page := range pages {
		if name := strings.TrimSuffix(page.Name(), ".md"); name != "README" && !known[name] {
			t.Errorf("no code for %s", name)
		}
	}
	if len(pages)-1 != len(codeNames) {
		t.Errorf("%d pages, %d codes", len(pages)-1, len(codeNames))
	}
}
