//! Structs without numbers: Rust types that are not those of the contract, names that it does not have, fields that it has.

use std::collections::{BTreeMap, HashMap};

#[qwerq::queue("orders.created")]
struct Order {
    id: i64,
    custmer_id: String,
    total: i32,
    lines: Option<Line>,
    status: Status,
    note: String,
    discounts: BTreeMap<String, i32>,
    placed_at: Option<String>,
    coupons: Vec<u64>,
}

#[qwerq::message("shop.v1.Line")]
struct Line {
    article: Name,
    quantity: u32,
    #[qwerq(name = "weigth")]
    grams: u32,
    #[qwerq(optional)]
    note: String,
}

type Name = u32;

#[qwerq::queue("orders.created", subset)]
struct Bare {
    delivery: Delivery,
    #[qwerq(name = "total")]
    cents: i64,
    total: i64,
}

#[qwerq::enumeration("shop.v1.Status")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Unspecified,
    Open = 2,
    Payed,
}

#[qwerq::enumeration("shop.v1.Sample.Color")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Color {
    Red,
}

#[qwerq::oneof("shop.v1.Order.delivery")]
enum Delivery {
    Pickup(i32),
    Adress(Address),
    Nothing,
}

#[qwerq::message("shop.v1.Address", subset)]
struct Address(String);

#[qwerq::oneof("shop.v1.Order.transport")]
enum Transport {}

// Whoever uses them is told nothing more.
fn used(client: &qwerq::Client) {
    let _ = client.queue::<Order>().publish(&Order { total: 3, ..Order::default() });
    let _: HashMap<String, Line> = HashMap::new();
    let _ = Status::try_from(1).map(i32::from);
    println!("{:?} {:?}", Address::default(), Delivery::Pickup(1));
}

fn main() {}
