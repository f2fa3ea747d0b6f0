//! Types inside of others: the compiler finds what a macro cannot see.

use qwerq::prost::Message;

#[qwerq::queue("orders.created", subset)]
struct Order {
    lines: Vec<Article>,
    placed_at: Option<qwerq::prost_types::Duration>,
    #[prost(enumeration = "Color")]
    status: i32,
    delivery: Option<Choice>,
}

#[qwerq::queue("orders.created", subset)]
struct Unbound {
    lines: Vec<Line>,
    #[prost(enumeration = "Status")]
    status: i32,
}

#[qwerq::queue("orders.created", subset)]
#[derive(Message)]
#[prost(prost_path = "::qwerq::prost")]
struct Hidden {
    #[prost(message, repeated, tag = "4")]
    lines: Lines,
    // Taken on trust.
    #[prost(enumeration = "Status", tag = "5")]
    #[qwerq(unchecked)]
    status: i32,
}

type Lines = Vec<Line>;

#[derive(Clone, PartialEq, Message)]
#[prost(prost_path = "::qwerq::prost")]
struct Line {
    #[prost(string, tag = "1")]
    article: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, qwerq::prost::Enumeration)]
#[prost(prost_path = "::qwerq::prost")]
enum Status {
    Unspecified = 0,
}

#[qwerq::message("shop.v1.Payment")]
struct Article {
    order_id: String,
    cents: i64,
}

#[qwerq::enumeration("shop.v1.Sample.Color")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Color {
    Red,
    Green,
}

#[qwerq::oneof("shop.v1.Sample.choice")]
#[derive(Clone, PartialEq)]
enum Choice {
    Number(i32),
    #[qwerq(unchecked)]
    Piece(Line),
    Shade(i32),
}

fn main() {}
