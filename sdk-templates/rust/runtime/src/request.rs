//! One request, one reply: how a call on the client becomes a correlated frame, and what becomes of it when the connection is lost.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use qwerq_proto::Opcode;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::ledger::Ledger;

/// Whether a request that may have been carried out may be sent again on the next connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Twice is like once.
    Safe,
    /// Only if it was never written.
    Unsafe,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: u32,
    pub(crate) opcode: Opcode,
    pub(crate) payload: Vec<u8>,
    pub(crate) repeat: Repeat,
    /// How often the broker has answered `overloaded`.
    pub(crate) refused: u32,
    pub(crate) reply: oneshot::Sender<Result<Reply, Error>>,
}

impl Request {
    /// It may wait for somebody other than the broker.
    pub(crate) fn may_wait(&self) -> bool {
        matches!(self.opcode, Opcode::Call | Opcode::Fetch)
    }
}

/// The frame that answered, and the ledger of the connection that it came by.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) opcode: u8,
    pub(crate) payload: Bytes,
    pub(crate) ledger: Arc<Ledger>,
}

impl Reply {
    /// The payload of a frame of that opcode.
    pub(crate) fn expect(self, expected: Opcode) -> Result<Bytes, Error> {
        if self.opcode == expected as u8 {
            return Ok(self.payload);
        }
        let got = Opcode::from_u8(self.opcode).map_or("an unknown opcode", Opcode::name);
        Err(Error::protocol(format_args!("the broker answered {got} instead of {}", expected.name())))
    }

    /// The message that a frame of that opcode carries.
    pub(crate) fn decode<R: Message + Default>(self, expected: Opcode) -> Result<R, Error> {
        R::decode(self.expect(expected)?).map_err(|error| Error::protocol(format_args!("{} does not decode: {error}", expected.name())))
    }
}
