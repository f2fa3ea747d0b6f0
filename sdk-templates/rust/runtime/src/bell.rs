//! Wakes the connection's task when somebody left work for it. Ringing a bell that rings already is one atomic load, so that a burst of
//! publishes costs one wake-up.
//!
//! The rule that makes this safe: leave the work (under its lock) first, ring second; the task hears the bell first and looks for work
//! second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use crate::lock::Lock;

#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    waker: Lock<Option<Waker>>,
}

impl Bell {
    /// Says that there is work.
    pub(crate) fn ring(&self) {
        if self.rung.load(Ordering::Acquire) || self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the bell rang since the last time; if not, the task of `cx` is woken when it does.
    pub(crate) fn heard(&self, cx: &Context<'_>) -> bool {
        {
            let mut waker = self.waker.lock();
            if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
        }
        self.rung.swap(false, Ordering::AcqRel)
    }
}
