// What a session does with the frames that arrive, and with what is unanswered when none will arrive any more. All of it happens under
// the client's lock.

package qwerq

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

// receive takes a frame in. An error says that the connection cannot be trusted any further.
func (s *session) receive(f frame, now time.Time) error {
	s.heardAt = now
	if _, known := opcodeNames[f.op]; !known {
		return nil // a newer broker's
	}
	switch f.op {
	case opMessage:
		return s.onMessage(f, now)
	case opCall:
		return s.onCall(f, now)
	case opHeartbeat, opSchemaChanged:
		return nil
	case opGoAway:
		return s.onGoAway(f, now)
	case opError:
		var said wireError
		if err := f.decode(opError, &said); err != nil {
			return err
		}
		if err := said.fromWire(); notLeader(err) != nil && said.Subscription == nil {
			return s.depose(err)
		}
		if f.correlated {
			return s.onError(f.id, said.fromWire(), now)
		}
		return s.onStatement(&said)
	case opSubscriptionEnded:
		if !f.correlated {
			return s.onEnded(f)
		}
	}
	if !f.correlated {
		return protocolError("%s without a request id", f.op)
	}
	return s.onReply(f, now)
}

// depose: the broker does not lead any more. Whatever it had been asked may be done or not, as on a lost connection, and another one is to
// be asked.
func (s *session) depose(said error) error {
	s.leader = notLeader(said).Details["leader"]
	return said
}

func (s *session) forget(id uint32) *request {
	r := s.sent[id]
	if r == nil {
		return nil
	}
	delete(s.sent, id)
	if r.kind == kindPublish {
		s.publishing--
		s.publishingBytes -= len(r.batch.items)
	}
	s.client.ring() // for what waited for this
	return r
}

func (s *session) onReply(f frame, now time.Time) error {
	r := s.forget(f.id)
	if r == nil {
		return s.onOrphan(f, now)
	}
	switch r.kind {
	case kindPublish:
		return s.onPublishAck(r, f, now)
	case kindConsume:
		return s.onConsumeAck(r.subscription, f)
	case kindUnsubscribe:
		delete(s.client.subscriptions, r.subscription.number)
		r.answer(answer{})
	case kindNote:
		return s.onSettled(r.note, f)
	default:
		r.answer(answer{frame: f, session: s})
	}
	return nil
}

// onOrphan: a reply to a cancelled request has crossed its cancellation; a late FETCHED gives its leases back.
func (s *session) onOrphan(f frame, now time.Time) error {
	if f.op != opFetched {
		return nil
	}
	var fetched wireFetched
	if err := f.decode(opFetched, &fetched); err != nil {
		return err
	}
	for _, d := range fetched.Messages {
		if len(d.LeaseID) > 0 {
			s.client.release(s.hold(d.LeaseID, 0, duration(d.LeaseMS), false, now))
		}
	}
	return nil
}

func (s *session) onPublishAck(r *request, f frame, now time.Time) error {
	var ack wirePublishAck
	err := f.decode(opPublishAck, &ack)
	if err == nil && len(ack.Results) != len(r.batch.entries) {
		err = protocolError("PUBLISH_ACK has %d results for %d messages", len(ack.Results), len(r.batch.entries))
	}
	if err != nil {
		s.client.resolveAll(r.batch, &DisconnectedError{MaybeStored: true})
		return err
	}
	for _, result := range ack.Results {
		if said := result.Error.fromWire(); notLeader(said) != nil {
			s.sent[r.id] = r // no answer at all
			return s.depose(said)
		}
	}
	pause := time.Duration(0)
	again := func(position int, _ *entry) bool {
		e := ack.Results[position].Error
		return e != nil && Code(e.Code) == ErrOverloaded && r.batch.refused < overloadedRetriesMax && !r.batch.atomic
	}
	retried := r.batch.part(again)
	if retried == nil {
		s.client.resolve(r.batch, func(position int) (Published, error) { return ack.Results[position].published(&ack) })
		return nil
	}
	var results []*wirePublishResult
	for position, result := range ack.Results {
		if again(position, nil) {
			pause = max(pause, duration(result.Error.RetryAfterMS))
		} else {
			results = append(results, result)
		}
	}
	s.publishLater(r.lane, retried, pause, now)
	if rest := r.batch.part(func(position int, e *entry) bool { return !again(position, e) }); rest != nil {
		s.client.resolve(rest, func(position int) (Published, error) { return results[position].published(&ack) })
	}
	return nil
}

func (s *session) publishLater(l *lane, b *batch, pause time.Duration, now time.Time) {
	if pause <= 0 {
		pause = overloadedPause
	}
	b.refused++
	s.laterPublishes(l, b, now.Add(pause))
}

func (s *session) laterPublishes(l *lane, b *batch, due time.Time) {
	s.later = append(s.later, later{due, func() { s.client.putBack(l, b) }})
	s.client.ring()
}

func (s *session) onConsumeAck(sub *Subscription, f frame) error {
	var ack wireConsumeAck
	if err := f.decode(opConsumeAck, &ack); err != nil {
		return err
	}
	if sub.agreed {
		return nil
	}
	sub.agreed, sub.group, sub.existed = true, ack.Group, ack.GroupExisted
	sub.opened <- nil
	return nil
}

func (s *session) onSettled(n *note, f frame) error {
	expected := opSettled
	if n.op == opExtendVisibility {
		expected = opExtendVisibilityAck
	}
	var settled wireSettled
	if err := f.decode(expected, &settled); err != nil {
		n.fail(&DisconnectedError{MaybeStored: true})
		return err
	}
	refused := map[uint32]error{}
	for _, lease := range settled.Refused {
		refused[lease.Index] = lease.Error.fromWire()
		if lease.Error == nil {
			refused[lease.Index] = staleLease()
		}
	}
	for i, waiter := range n.waiters {
		waiter <- refused[uint32(i)]
	}
	return nil
}

func (s *session) onError(id uint32, said error, now time.Time) error {
	r := s.forget(id)
	if r == nil {
		return nil
	}
	switch r.kind {
	case kindPublish:
		if isOverloaded(said) && r.batch.refused < overloadedRetriesMax {
			s.publishLater(r.lane, r.batch, retryAfter(said), now)
		} else {
			s.client.resolveAll(r.batch, said)
		}
	case kindConsume:
		s.onConsumeRefused(r.subscription, said, now)
	case kindUnsubscribe:
		delete(s.client.subscriptions, r.subscription.number)
		if errors.Is(said, ErrUnknownSubscription) {
			said = nil
		}
		r.answer(answer{err: said})
	case kindNote:
		r.note.fail(said)
	default:
		if isOverloaded(said) && !r.mayWait() && r.refused < overloadedRetriesMax {
			r.refused++
			pause := cmp.Or(retryAfter(said), overloadedPause)
			s.later = append(s.later, later{now.Add(pause), func() { s.client.out = append(s.client.out, r) }})
		} else {
			r.answer(answer{err: said})
		}
	}
	return nil
}

// onConsumeRefused: whoever opens a subscription is told; one that was open before tries again what the broker cannot do just now, and
// else ends.
func (s *session) onConsumeRefused(sub *Subscription, said error, now time.Time) {
	if sub.agreed && IsRetryable(said) && !sub.ending {
		pause := cmp.Or(retryAfter(said), resubscribePause)
		s.later = append(s.later, later{now.Add(pause), func() {
			if s.client.subscriptions[sub.number] == sub && !sub.ending {
				s.client.sendConsume(sub)
			}
		}})
		return
	}
	if !sub.ending {
		delete(s.client.subscriptions, sub.number)
	}
	sub.end(said)
}

// onStatement: an ERROR that answers no request is about a subscription, about the connection, which the broker then closes, or about a
// frame that wants no answer.
func (s *session) onStatement(said *wireError) error {
	err := said.fromWire()
	switch {
	case said.Subscription != nil:
		s.endSubscription(*said.Subscription, err)
	case Code(said.Code).protocol():
		return err
	default:
		s.client.settings.log.Warn("qwerq: the broker refused a frame that wants no answer", "error", err)
	}
	return nil
}

func (s *session) onEnded(f frame) error {
	var ended wireSubscriptionEnded
	if err := f.decode(opSubscriptionEnded, &ended); err != nil {
		return err
	}
	s.endSubscription(ended.Subscription, ended.Reason.fromWire())
	return nil
}

func (s *session) endSubscription(number uint32, reason error) {
	s.lose(number)
	if sub := s.client.subscriptions[number]; sub != nil {
		delete(s.client.subscriptions, number)
		sub.end(reason)
	}
}

func (s *session) onMessage(f frame, now time.Time) error {
	var deliver wireDeliver
	if err := f.decode(opMessage, &deliver); err != nil {
		return err
	}
	sub := s.client.subscriptions[deliver.Subscription]
	for _, d := range deliver.Messages {
		var l *lease
		if len(d.LeaseID) > 0 {
			l = s.hold(d.LeaseID, deliver.Subscription, duration(d.LeaseMS), true, now)
		}
		if sub == nil || sub.over || sub.ending || sub.serve {
			s.client.release(l) // it crossed an UNSUBSCRIBE
			continue
		}
		if l == nil {
			next := d.Seq + 1
			sub.position = &next
		}
		sub.items = append(sub.items, s.client.newDelivery(sub.queue, d, l))
	}
	if sub != nil {
		sub.ring()
	}
	s.client.ring() // for the renewals
	return nil
}

func (s *session) onCall(f frame, now time.Time) error {
	var call wireCall
	if err := f.decode(opCall, &call); err != nil {
		return err
	}
	incoming := &incomingCall{session: s, wire: &call, deadline: now.Add(duration(call.TimeoutMS))}
	sub := s.client.subscriptions[call.Subscription]
	if sub == nil || sub.over || sub.ending || !sub.serve {
		incoming.answer(s.client, &wireCallResponse{Error: toWireError(errResponderLeaves)})
		return nil
	}
	sub.calls = append(sub.calls, incoming)
	sub.ring()
	return nil
}

func (s *session) onGoAway(f frame, now time.Time) error {
	var away wireGoAway
	if err := f.decode(opGoAway, &away); err != nil {
		return err
	}
	s.client.settings.log.Info("qwerq: the broker says GOAWAY", "reason", away.Reason, "leader", away.Leader)
	if !s.draining {
		s.draining, s.drainUntil, s.leader = true, now.Add(drainLimit), away.Leader
	}
	s.client.ring()
	return nil
}

// lost: the connection is gone. Those who cannot be helped are told, the others wait for the next one.
func (s *session) lost() {
	c := s.client
	s.end()
	sent := slices.SortedFunc(maps.Values(s.sent), func(a, b *request) int { return cmp.Compare(a.end, b.end) })
	var again []*request
	var publishes []*request
	for _, r := range sent {
		maybeStored := r.end <= s.written
		switch r.kind {
		case kindPublish:
			if b := c.survivors(r.batch, maybeStored); b != nil {
				publishes = append(publishes, &request{lane: r.lane, batch: b})
			}
		case kindUnsubscribe:
			delete(c.subscriptions, r.subscription.number)
			r.answer(answer{})
		case kindNote:
			r.note.fail(&DisconnectedError{MaybeStored: maybeStored})
		case kindRequest:
			if !maybeStored || r.repeats {
				again = append(again, r)
			} else if r.op == opCall && s.agreed.cluster {
				r.answer(answer{err: callLost()})
			} else {
				r.answer(answer{err: &DisconnectedError{MaybeStored: true}})
			}
		}
	}
	for _, l := range s.later {
		l.work()
	}
	for _, r := range slices.Backward(publishes) {
		c.putBack(r.lane, r.batch)
	}
	for _, r := range c.out {
		// The others speak of things that ended with the connection.
		switch r.kind {
		case kindRequest:
			again = append(again, r)
		case kindUnsubscribe:
			delete(c.subscriptions, r.subscription.number)
			r.answer(answer{})
		}
	}
	c.out = again
	for _, sub := range c.subscriptions {
		sub.disconnected()
	}
	if len(sent) > 0 || s.unconfirmed {
		for _, closer := range c.closers {
			closer <- &DisconnectedError{MaybeStored: true}
		}
		c.closers = nil
	}
}

// closed ends a session whose client has closed, everything being confirmed.
func (s *session) closed() { s.end() }

// end: all leases have ended with the connection.
func (s *session) end() {
	s.over = true
	for l := range s.leases {
		s.drop(l)
	}
	for _, n := range s.notes {
		n.fail(staleLease())
	}
	s.notes = nil
}

func sortedNumbers(subscriptions map[uint32]*Subscription) []uint32 {
	return slices.Sorted(maps.Keys(subscriptions))
}
