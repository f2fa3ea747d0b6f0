//! Messages of the contracts in `tests/contracts`, as far as the tests of workers need them.

use qwerq::{MessageType, prost};

#[derive(Clone, PartialEq, prost::Message)]
#[prost(prost_path = "::qwerq::prost")]
pub(crate) struct Order {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(int64, tag = "3")]
    pub(crate) total: i64,
}

impl MessageType for Order {
    const NAME: &'static str = "shop.v1.Order";
}

pub(crate) fn order(id: &str) -> Order {
    Order { id: id.to_owned(), total: 100 }
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(prost_path = "::qwerq::prost")]
pub(crate) struct QuoteRequest {
    #[prost(string, tag = "1")]
    pub(crate) article: String,
    #[prost(uint32, tag = "2")]
    pub(crate) quantity: u32,
}

impl MessageType for QuoteRequest {
    const NAME: &'static str = "shop.v1.QuoteRequest";
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(prost_path = "::qwerq::prost")]
pub(crate) struct Quote {
    #[prost(int64, tag = "1")]
    pub(crate) cents: i64,
}

impl MessageType for Quote {
    const NAME: &'static str = "shop.v1.Quote";
}
