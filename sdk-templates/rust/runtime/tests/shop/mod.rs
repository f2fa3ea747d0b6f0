//! Messages of the contracts in `tests/contracts`, as far as the tests of workers need them.

#[derive(Clone, PartialEq)]
#[qwerq::queue("orders.created", subset, schema = "tests/contracts")]
pub(crate) struct Order {
    pub(crate) id: String,
}

pub(crate) fn order(id: &str) -> Order {
    Order { id: id.to_owned() }
}

#[derive(Clone, PartialEq)]
#[qwerq::message("shop.v1.QuoteRequest", schema = "tests/contracts")]
pub(crate) struct QuoteRequest {
    pub(crate) article: String,
    pub(crate) quantity: u32,
}

#[derive(Clone, PartialEq)]
#[qwerq::message("shop.v1.Quote", schema = "tests/contracts")]
pub(crate) struct Quote {
    pub(crate) cents: i64,
}
