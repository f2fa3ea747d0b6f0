//! A type of the lock that an item is held to, and how errors speak of it.
//!
//! Chosen by a queue or by the type's own name; what the item has is not known here.

use syn::LitStr;

use crate::lock::schema::{Enum, Message};
use crate::lock::{Contract, Lock};
use crate::suggestion;

/// A message or an enum of a contract.
#[derive(Debug)]
pub(crate) struct Definition<'l, T> {
    pub(crate) lock: &'l Lock,
    pub(crate) contract: &'l Contract,
    pub(crate) of: &'l T,
    /// `shop.v1.Order v4`
    pub(crate) shown: String,
}

/// What messages and enums have in common here.
pub(crate) trait Named: PartialEq + Sized + 'static {
    /// What it is called in errors.
    const WHAT: &'static str;

    /// All of a contract.
    fn all<'l>(lock: &'l Lock, contract: &'l Contract) -> impl Iterator<Item = &'l Self> + Clone;

    /// Its full name.
    fn name(&self) -> &str;
}

impl Named for Message {
    const WHAT: &'static str = "message type";

    fn all<'l>(lock: &'l Lock, contract: &'l Contract) -> impl Iterator<Item = &'l Message> + Clone {
        lock.messages(contract)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Enum {
    const WHAT: &'static str = "enum";

    fn all<'l>(lock: &'l Lock, contract: &'l Contract) -> impl Iterator<Item = &'l Enum> + Clone {
        lock.enums(contract)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl<'l> Definition<'l, Message> {
    /// The message type that a queue carries. `message` is what the attribute says it is.
    ///
    /// # Errors
    /// On `message`: the queue carries another type.
    pub(crate) fn of_queue(lock: &'l Lock, contract: &'l Contract, message: Option<&LitStr>) -> syn::Result<Definition<'l, Message>> {
        let shown = contract.versioned(&contract.message_type);
        if let Some(message) = message
            && message.value() != contract.message_type
        {
            let what = format!("queue `{}` carries {shown}; the attribute says {}", contract.queue, message.value());
            return Err(syn::Error::new(message.span(), what));
        }
        match lock.message(contract, &contract.message_type) {
            Some(of) => Ok(Definition { lock, contract, of, shown }),
            None => {
                let what = format!("{} names {shown} and holds no such type; make it anew with `qwer-q gen`", lock.shown());
                Err(syn::Error::new(proc_macro2::Span::call_site(), what))
            }
        }
    }
}

impl<'l, T: Named> Definition<'l, T> {
    /// The type of that name, of the contract of `queue` if that is said, else of whichever contract has it.
    ///
    /// # Errors
    /// On the name: no contract has it, or two have it in different texts. On `queue`: there is no such contract.
    pub(crate) fn named(lock: &'l Lock, name: &LitStr, queue: Option<&LitStr>) -> syn::Result<Definition<'l, T>> {
        let full = name.value();
        let contracts: Vec<&Contract> = match queue {
            Some(queue) => vec![lock.contract(queue)?],
            None => lock.contracts().iter().collect(),
        };
        let all = contracts.iter().flat_map(|contract| T::all(lock, contract).map(move |of| (*contract, of)));
        let mut found: Vec<(&Contract, &T)> = Vec::new();
        for (contract, of) in all.clone().filter(|(_, of)| of.name() == full) {
            if !found.iter().any(|(_, other)| *other == of) {
                found.push((contract, of));
            }
        }
        match &*found {
            [(contract, of)] => {
                let shown = if queue.is_some() { contract.versioned(&full) } else { full };
                Ok(Definition { lock, contract, of, shown })
            }
            [] => {
                let names: Vec<&str> = all.map(|(_, of)| of.name()).collect();
                let hint = suggestion::hint(&full, names.iter().copied());
                Err(syn::Error::new(name.span(), format!("no {} `{full}` in {}; {hint}", T::WHAT, lock.shown())))
            }
            [(one, _), (other, _), ..] => {
                let what = format!("the contracts of `{}` and `{}` hold different texts of {full}", one.queue, other.queue);
                Err(syn::Error::new(name.span(), format!("{what}; say which is meant: `queue = \"{}\"`", one.queue)))
            }
        }
    }
}
