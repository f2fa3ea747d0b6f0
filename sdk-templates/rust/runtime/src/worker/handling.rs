//! What ties a function to the worker that its attribute describes: the type of the future that it returns. So the function stays one that
//! can be called, and `App::worker` takes its name.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::worker::Worker;

/// The future of a function under `#[qwerq::consumer]`; await it as any other. `C` is the consumer that the attribute describes.
#[must_use = "futures do nothing unless you await them"]
pub struct Handling<C, T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    consumer: PhantomData<fn() -> C>,
}

impl<C, T> Handling<C, T> {
    #[doc(hidden)]
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Handling<C, T> {
        Handling { future: Box::pin(future), consumer: PhantomData }
    }
}

impl<C, T> Future for Handling<C, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.future.as_mut().poll(cx)
    }
}

impl<C, T> fmt::Debug for Handling<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handling").finish_non_exhaustive()
    }
}

/// What `#[qwerq::consumer]` says about a function.
pub trait Consumer: 'static {
    /// The worker that calls the function.
    fn worker() -> Worker;
}

/// A function under `#[qwerq::consumer]`, by its name. `Args` is found by the compiler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a consumer",
    label = "not a function under `#[qwerq::consumer]`",
    note = "write #[qwerq::consumer(\"queue\")] above the function"
)]
pub trait ConsumerFn<Args> {
    /// What its attribute says.
    type Consumer: Consumer;
}

macro_rules! consumer_functions {
    ($($arg:ident)*) => {
        impl<F, C: Consumer, T, $($arg),*> ConsumerFn<($($arg,)*)> for F
        where
            F: Fn($($arg),*) -> Handling<C, T>,
        {
            type Consumer = C;
        }
    };
}

consumer_functions!(A);
consumer_functions!(A B);
consumer_functions!(A B C1);
consumer_functions!(A B C1 D);
consumer_functions!(A B C1 D E);
consumer_functions!(A B C1 D E G);
consumer_functions!(A B C1 D E G H);
consumer_functions!(A B C1 D E G H I);
