//! Structs whose fields have numbers, as prost writes them: names, numbers, types, labels, packing, and what is missing.

use std::collections::HashMap;

use qwerq::prost::{Message, Oneof};

#[qwerq::queue("orders.created", message = "shop.v1.Order")]
#[derive(Clone, PartialEq, Message)]
#[prost(prost_path = "::qwerq::prost")]
struct Order {
    #[prost(string, tag = "1")]
    identifier: String,
    #[prost(string, tag = "12")]
    customer_id: String,
    #[prost(int32, tag = "3")]
    total: i32,
    #[prost(message, optional, tag = "4")]
    lines: Option<Line>,
    #[prost(string, tag = "6")]
    note: String,
    #[prost(map = "string, int64", tag = "7")]
    discounts: HashMap<String, i64>,
    #[prost(string, optional, tag = "9")]
    pickup: Option<String>,
    #[prost(uint32, repeated, packed = "false", tag = "11")]
    coupons: Vec<u32>,
    #[prost(bool, tag = "20")]
    totals: bool,
}

#[qwerq::message("shop.v1.Line")]
#[derive(Clone, PartialEq, Message)]
#[prost(prost_path = "::qwerq::prost")]
struct Line {
    #[prost(string, tag = "1")]
    article: String,
    #[prost(uint32, tag = "2")]
    quantity: u32,
}

#[qwerq::queue("orders.created", subset)]
#[derive(Clone, PartialEq, Message)]
#[prost(prost_path = "::qwerq::prost")]
struct SomeTags {
    #[prost(oneof = "Delivery", tags = "9")]
    delivery: Option<Delivery>,
    #[prost(int32, tag = "5")]
    status: i32,
    #[prost(string, tag = "9")]
    pickup: String,
    id: String,
}

#[qwerq::oneof("shop.v1.Order.delivery")]
#[derive(Clone, PartialEq, Oneof)]
#[prost(prost_path = "::qwerq::prost")]
enum Delivery {
    #[prost(int32, tag = "9")]
    Pickup(i32),
}

#[qwerq::queue("legacy.orders", subset)]
#[derive(Clone, PartialEq, Message)]
#[prost(prost_path = "::qwerq::prost")]
struct Legacy {
    #[prost(string, optional, tag = "1")]
    id: Option<String>,
    #[prost(int32, optional, tag = "2", default = "8")]
    count: Option<i32>,
    #[prost(int32, repeated, tag = "3")]
    codes: Vec<i32>,
}

fn main() {}
