//! What the attribute of a consumer says: queues and options that are not there, values that are none.

use qwerq::{Ctx, Failure, Raw};

#[qwerq::queue("orders.created", subset)]
struct Order {
    id: String,
}

#[qwerq::consumer("orders.craeted", group = "billing")]
async fn misspelt(_order: Order) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created", grup = "billing", concurrency = 0, visibility_timeout = "30 s", group = "b b")]
async fn many(_order: Order) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created", visibility_timeout = "1d", start_at = "ende", undecodable = "drop", prefetch = "8", group = 7)]
async fn values(_order: Order) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer]
async fn nameless(_order: Order) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders/created")]
async fn no_name(_order: Raw) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created", schema = "nowhere")]
async fn no_lock(_order: Order, _ctx: Ctx) -> Result<(), Failure> {
    Ok(())
}

#[qwerq::consumer("orders.created")]
struct NoFunction;

fn main() {}
