//! Where the connection leaves what arrived for a subscription, and where its holder waits for it. Credit bounds it: the broker sends no
//! more than the prefetch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::Error;
use crate::lock::Lock;

#[derive(Debug)]
pub(crate) struct Feed<T> {
    pub(crate) number: u32,
    pub(crate) queue: Arc<str>,
    state: Lock<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    waker: Option<Waker>,
    end: End,
    /// The position after the last item, for readers that keep their own.
    position: Option<u64>,
}

#[derive(Debug)]
enum End {
    Open,
    Failed(Error),
    Over,
}

impl<T> Feed<T> {
    pub(crate) fn new(number: u32, queue: Arc<str>) -> Feed<T> {
        let state = State { items: VecDeque::new(), waker: None, end: End::Open, position: None };
        Feed { number, queue, state: Lock::new(state) }
    }

    /// Adds what arrived; `position` is the one after the last item.
    pub(crate) fn push(&self, items: impl Iterator<Item = T>, position: Option<u64>) {
        let mut state = self.state.lock();
        if matches!(state.end, End::Open) {
            state.items.extend(items);
            state.position = position.or(state.position);
        }
        state.wake();
    }

    /// Ends the feed: after what is already there comes the error, if there is one, and then nothing.
    pub(crate) fn end(&self, error: Option<Error>) {
        let mut state = self.state.lock();
        if matches!(state.end, End::Open) {
            state.end = error.map_or(End::Over, End::Failed);
        }
        state.wake();
    }

    /// Removes what nobody has taken yet.
    pub(crate) fn clear(&self) -> VecDeque<T> {
        std::mem::take(&mut self.state.lock().items)
    }

    /// Keeps of what nobody has taken yet only what `keep` says.
    pub(crate) fn retain(&self, keep: impl Fn(&T) -> bool) {
        self.state.lock().items.retain(keep);
    }

    /// Where a reader that keeps its own position goes on.
    pub(crate) fn position(&self) -> Option<u64> {
        self.state.lock().position
    }

    /// Moves everything that has arrived behind `into`; ready with `None` when the feed is over, with an error once before that.
    pub(crate) fn poll_take(&self, into: &mut VecDeque<T>, cx: &Context<'_>) -> Poll<Option<Result<(), Error>>> {
        let mut state = self.state.lock();
        if !state.items.is_empty() {
            if into.is_empty() {
                std::mem::swap(into, &mut state.items);
            } else {
                into.append(&mut state.items);
            }
            return Poll::Ready(Some(Ok(())));
        }
        match std::mem::replace(&mut state.end, End::Over) {
            End::Over => Poll::Ready(None),
            End::Failed(error) => Poll::Ready(Some(Err(error))),
            End::Open => {
                state.end = End::Open;
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> State<T> {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
