// Keys of a client's own, for publishes that may have to go out twice: in a cluster the leader may be gone with the answer on its way.
//
// The broker tells such keys from the users' and keeps them in another memory: a few for each client instead of one for each message.
// docs/protocol.md has their form. The caller's own idempotency keys are not this file's. All of it is guarded by the client's lock.

package qwerq

import (
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	// What such a key begins with.
	retryMark = "\x01"
	// Characters that name a client; as many are random.
	retryClientChars = 8
	// The broker keeps so many of a client's latest numbers at most; what is older may be stored twice.
	retryNumbersKept = 65_536
	// How long a publish whose connection was lost is retried. The broker remembers its key for longer.
	retryBudget = 2 * time.Minute
)

// retryKeys numbers a client's publishes.
type retryKeys struct {
	client  string
	first   uint64 // the first number that is not settled
	settled []bool // of each number from there on, whether it is
}

func newRetryKeys() *retryKeys {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	client := make([]byte, retryClientChars)
	for i := range client {
		client[i] = alphabet[rand.IntN(len(alphabet))]
	}
	return &retryKeys{client: string(client), first: 1}
}

// take is the next key and its number. The key says how far back the oldest publish is whose outcome is open, so that the broker can
// forget those before it.
func (k *retryKeys) take() (number uint64, key string) {
	back := uint64(len(k.settled))
	number = k.first + back
	k.settled = append(k.settled, false)
	return number, retryMark + k.client + strconv.FormatUint(number, 10) + "." + strconv.FormatUint(back, 10)
}

// settle: its outcome is known, it will never be sent again.
func (k *retryKeys) settle(number uint64) {
	k.settled[number-k.first] = true
	for len(k.settled) > 0 && k.settled[0] {
		k.settled = k.settled[1:]
		k.first++
	}
}

// isKept: whether the broker still knows that number, if it ever saw it.
func (k *retryKeys) isKept(number uint64) bool {
	return k.first+uint64(len(k.settled))-number <= retryNumbersKept
}
