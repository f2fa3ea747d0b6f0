//! The types of a consumer's arguments and of what it returns; each mistake is on the user's own tokens.

use std::rc::Rc;

use qwerq::{Ctx, Failure, State};

#[qwerq::queue("orders.created", subset)]
struct Order {
    id: String,
}

#[qwerq::queue("orders.paid")]
struct Payment {
    order_id: String,
    cents: i64,
}

/// No message at all.
struct Text;

/// An error without a text.
struct Mute;

#[qwerq::consumer("orders.created")]
async fn of_another_queue(_payment: Payment) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn no_message(_text: Text) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn no_argument(_order: Order, _text: Text) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn no_result(_order: Order) -> u32 {
    0
}

#[qwerq::consumer("orders.created")]
async fn a_value(_order: Order) -> Result<u32, Failure> {
    Ok(0)
}

#[qwerq::consumer("orders.created")]
async fn mute(_order: Order) -> Result<(), Mute> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn not_shared(_order: Order, _state: State<Rc<u32>>) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn stays_on_its_thread(order: Order) -> Result<(), Failure> {
    let shared = Rc::new(order);
    std::future::ready(()).await;
    drop(shared);
    Ok(())
}

async fn plain(_order: Order, _ctx: Ctx) -> Result<(), Failure> {
    Ok(())
}

fn app(client: qwerq::Client) -> qwerq::App {
    qwerq::App::new(client).worker(plain)
}

fn main() {}
