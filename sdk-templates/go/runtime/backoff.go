// How long to wait before connecting again: exponential with full jitter. Knows no connection and no clock.

package qwerq

import (
	"math/rand/v2"
	"time"
)

// A connection that lasted so long was a good one; the waits start small again after it.
const goodConnection = 5 * time.Second

type backoff struct {
	policy    Reconnect
	doublings int
	failures  int
}

// next is the wait before the next attempt; false when there have been enough.
func (b *backoff) next() (time.Duration, bool) {
	if b.policy.Attempts < 0 || b.policy.Attempts > 0 && b.failures >= b.policy.Attempts {
		return 0, false
	}
	b.failures++
	longest := b.longest()
	b.doublings++
	return rand.N(longest + 1), true
}

// connected: an attempt succeeded. The waits stay long until the connection has proved good.
func (b *backoff) connected() { b.failures = 0 }

// connectedFor: a connection ended after so long.
func (b *backoff) connectedFor(lasted time.Duration) {
	if lasted >= goodConnection {
		b.doublings = 0
	}
}

func (b *backoff) longest() time.Duration {
	longest := max(b.policy.First, 0)
	for range b.doublings {
		if longest >= b.policy.Max {
			break
		}
		longest *= 2
	}
	return max(min(longest, b.policy.Max), 0)
}
