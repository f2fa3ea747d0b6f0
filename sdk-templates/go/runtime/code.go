// The broker's error codes. Each is an error value of its own, so that `errors.Is(err, qwerq.ErrQueueFull)` works.

package qwerq

import "strconv"

// Code is the stable number of an error; its page is docs/errors/<name>.md. The thousands are its class.
type Code uint32

// Error makes a code the target of errors.Is.
func (c Code) Error() string { return c.String() }

// String is the stable name in kebab case, or the number of a code that is newer than this client.
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "code " + strconv.FormatUint(uint64(c), 10)
}

func (c Code) rejection() bool   { return c/1000 == 1 }
func (c Code) unavailable() bool { return c/1000 == 2 }
func (c Code) protocol() bool    { return c/1000 == 3 }
