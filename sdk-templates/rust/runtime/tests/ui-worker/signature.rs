//! The form of a consumer's function.

use qwerq::{Ctx, Failure, State};

#[qwerq::queue("orders.created", subset)]
struct Order {
    id: String,
}

#[qwerq::consumer("orders.created")]
fn not_async(_order: Order) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn nothing() -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn silent(_order: Order) {}

#[qwerq::consumer("orders.created")]
async fn borrowed(_order: &Order, _ctx: &Ctx) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn generic<T: Send>(_order: Order, _state: State<T>) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn anything(_order: impl qwerq::prost::Message) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn turned(_ctx: Ctx, _order: Order) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async unsafe fn dangerous(_order: Order) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
async fn many(_order: Order, _1: Ctx, _2: Ctx, _3: Ctx, _4: Ctx, _5: Ctx, _6: Ctx, _7: Ctx, _8: Ctx) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
