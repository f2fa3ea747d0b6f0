//! What the code of the attribute macros calls and nobody else should: it changes without notice. What the macros check with it is said in
//! docs/rust.md.

use std::fmt::Display;
use std::marker::PhantomData;

use crate::contract::{Contract, ContractInfo};
use crate::worker::failure::{Failure, IntoFailure};

/// How an error becomes a failure: by [`IntoFailure`] if it has it, else by its text. A call of `failure_kind` on a reference picks the
/// first trait that fits, since a method on `&E` is found before one on `&&E`.
pub trait BySaying {
    /// The first choice.
    fn failure_kind(&self) -> Saying {
        Saying
    }
}

impl<E: IntoFailure> BySaying for E {}

/// The second choice; see [`BySaying`].
pub trait ByText {
    /// The second choice.
    fn failure_kind(&self) -> Text {
        Text
    }
}

impl<E: Display> ByText for &E {}

/// The error says what it means.
#[derive(Debug)]
pub struct Saying;

impl Saying {
    /// What it says.
    pub fn failure<E: IntoFailure>(self, error: E) -> Failure {
        error.into_failure()
    }
}

/// The error has only a text.
#[derive(Debug)]
pub struct Text;

impl Text {
    /// The text, with the causes where the error's alternate form has them.
    pub fn failure<E: Display>(self, error: E) -> Failure {
        Failure::retry(format!("{error:#}"))
    }
}

/// Finds a type's contract, if it has one: the constant of the type is found before that of [`NotBound`], where the bound holds.
#[derive(Debug)]
pub struct Bound<T>(PhantomData<T>);

impl<T: Contract> Bound<T> {
    /// The contract that the type is bound to.
    pub const CONTRACT: Option<ContractInfo> = Some(ContractInfo::of::<T>());
}

/// Every type without a contract; see [`Bound`].
pub trait NotBound {
    /// None.
    const CONTRACT: Option<ContractInfo> = None;
}

impl<T> NotBound for Bound<T> {}

/// What a consumer's function returns.
#[diagnostic::on_unimplemented(
    message = "a consumer cannot return `{Self}`",
    label = "not a `Result<(), E>`",
    note = "return `Ok(())` to acknowledge the message and an error to have it delivered again"
)]
pub trait Returned {
    /// The error.
    type Error;

    /// As a result.
    ///
    /// # Errors
    /// When it is one.
    fn into_result(self) -> Result<(), Self::Error>;
}

impl<E> Returned for Result<(), E> {
    type Error = E;

    fn into_result(self) -> Result<(), E> {
        self
    }
}

/// How long parts are together, at compile time.
#[must_use]
pub const fn length(parts: &[&str]) -> usize {
    let (mut at, mut bytes) = (0, 0);
    while at < parts.len() {
        bytes += parts[at].len();
        at += 1;
    }
    bytes
}

/// The parts in a row, at compile time; `N` is their [`length`].
#[must_use]
pub const fn joined<const N: usize>(parts: &[&str]) -> [u8; N] {
    let mut bytes = [0; N];
    let (mut part, mut written) = (0, 0);
    while part < parts.len() {
        let text = parts[part].as_bytes();
        let mut at = 0;
        while at < text.len() {
            bytes[written] = text[at];
            at += 1;
            written += 1;
        }
        part += 1;
    }
    bytes
}

/// [`joined`] bytes as the text that they are.
#[must_use]
pub const fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "",
    }
}
