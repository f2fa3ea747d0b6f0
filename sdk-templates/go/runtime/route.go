// Which address to dial next: the leader that was named, then the seeds in random order, each once. Knows no connection and no time.

package qwerq

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Redirects that are followed in one round at most: nodes that name each other must not keep a client busy.
const hopsMax = 3

// route is one round through the addresses.
type route struct {
	waiting []string
	dialled []string
	hops    int
}

// newRoute begins with the leader, if there is one.
func newRoute(leader string, seeds []string) *route {
	seeds = slices.Clone(seeds)
	rand.Shuffle(len(seeds), func(i, j int) { seeds[i], seeds[j] = seeds[j], seeds[i] })
	if leader != "" {
		seeds = append([]string{leader}, seeds...)
	}
	r := &route{}
	for _, address := range seeds {
		if !slices.Contains(r.waiting, address) {
			r.waiting = append(r.waiting, address)
		}
	}
	return r
}

func (r *route) next() (address string, ok bool) {
	if len(r.waiting) == 0 {
		return "", false
	}
	address, r.waiting = r.waiting[0], r.waiting[1:]
	r.dialled = append(r.dialled, address)
	return address, true
}

// redirect: a node named the leader. It is next, unless it was dialled before or there were too many such hops.
func (r *route) redirect(leader string) {
	if r.hops >= hopsMax || slices.Contains(r.dialled, leader) {
		return
	}
	r.hops++
	others := slices.DeleteFunc(r.waiting, func(address string) bool { return address == leader })
	r.waiting = append([]string{leader}, others...)
}

// addressesOf is what a list such as a:9876,b:9876 has.
func addressesOf(list string) []string {
	var addresses []string
	for _, address := range strings.Split(list, ",") {
		if address = strings.TrimSpace(address); address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
