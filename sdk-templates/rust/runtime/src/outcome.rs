//! The results of one frame's items, shared by those who wait for them. One allocation and one lock a frame instead of a channel a message.
//!
//! A place that nobody has touched costs nothing: places come into being when a result arrives or somebody waits.

use std::ops::Range;
use std::task::{Context, Poll, Waker};

use crate::error::Error;
use crate::lock::Lock;

#[derive(Debug)]
pub(crate) struct Outcome<T> {
    places: Lock<Vec<Place<T>>>,
}

#[derive(Debug)]
enum Place<T> {
    Waiting(Option<Waker>),
    Done(Result<T, Error>),
    Taken,
}

impl<T> Outcome<T> {
    pub(crate) fn new() -> Outcome<T> {
        Outcome { places: Lock::new(Vec::new()) }
    }

    /// Stores results under their places and wakes whoever waits for one of them.
    pub(crate) fn resolve(&self, results: impl Iterator<Item = (u32, Result<T, Error>)>) {
        let mut wakers: Vec<Waker> = Vec::new();
        let mut places = self.places.lock();
        let known = places.len();
        places.reserve(results.size_hint().0.saturating_sub(known));
        for (index, result) in results {
            let index = index as usize;
            grow(&mut places, index);
            if let Place::Waiting(Some(waker)) = std::mem::replace(&mut places[index], Place::Done(result)) {
                wakers.push(waker);
            }
        }
        drop(places);
        for waker in wakers {
            waker.wake();
        }
    }

    /// Takes the result at `index`.
    ///
    /// # Panics
    /// When it was taken before: a future polled after it was ready.
    pub(crate) fn poll(&self, index: u32, cx: &Context<'_>) -> Poll<Result<T, Error>> {
        let index = index as usize;
        let mut places = self.places.lock();
        grow(&mut places, index);
        take(&mut places[index], cx)
    }

    /// Takes the results of `range` in order as far as they are there, moving the range's start; ready when it is empty.
    pub(crate) fn poll_range(&self, range: &mut Range<u32>, into: &mut Vec<Result<T, Error>>, cx: &Context<'_>) -> Poll<()> {
        let mut places = self.places.lock();
        while range.start < range.end {
            let index = range.start as usize;
            grow(&mut places, index);
            match take(&mut places[index], cx) {
                Poll::Ready(result) => into.push(result),
                Poll::Pending => return Poll::Pending,
            }
            range.start += 1;
        }
        Poll::Ready(())
    }
}

fn grow<T>(places: &mut Vec<Place<T>>, index: usize) {
    if places.len() <= index {
        places.resize_with(index + 1, || Place::Waiting(None));
    }
}

fn take<T>(place: &mut Place<T>, cx: &Context<'_>) -> Poll<Result<T, Error>> {
    match place {
        Place::Waiting(waker) => {
            if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
            Poll::Pending
        }
        Place::Done(_) => match std::mem::replace(place, Place::Taken) {
            Place::Done(result) => Poll::Ready(result),
            Place::Waiting(_) | Place::Taken => unreachable!("the place was done a line ago"),
        },
        Place::Taken => panic!("a receipt was polled after it was ready"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_taken_once_and_in_any_order() {
        let cx = Context::from_waker(Waker::noop());
        let outcome = Outcome::<u32>::new();
        assert!(outcome.poll(2, &cx).is_pending());
        outcome.resolve([(0, Ok(10)), (2, Ok(12))].into_iter());
        assert!(matches!(outcome.poll(2, &cx), Poll::Ready(Ok(12))));

        let (mut range, mut got) = (0..2, Vec::new());
        assert!(outcome.poll_range(&mut range, &mut got, &cx).is_pending());
        assert_eq!((range.clone(), got.len()), (1..2, 1));
        outcome.resolve([(1, Err(Error::Closed))].into_iter());
        assert!(outcome.poll_range(&mut range, &mut got, &cx).is_ready());
        assert!(matches!(got[..], [Ok(10), Err(Error::Closed)]));
    }
}
