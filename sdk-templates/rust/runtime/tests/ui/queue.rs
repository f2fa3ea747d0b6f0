//! Arguments: queues and types that are not there, and words that nobody knows.

#[qwerq::queue("order.created")]
struct Misspelt {
    id: String,
}

#[qwerq::queue("orders.created", message = "shop.v1.Ordre")]
struct OtherMessage {
    id: String,
}

#[qwerq::queue("orders.created", subste, mesage = "shop.v1.Order", "again")]
struct Unknown {
    id: String,
}

#[qwerq::queue]
struct Nameless {
    id: String,
}

#[qwerq::queue("orders.created", schema = "../nowhere")]
struct NoLock {
    id: String,
}

#[qwerq::queue("orders.created")]
enum NoStruct {}

#[qwerq::queue("orders.created", subset, reply = Reply)]
struct NotCalled {
    id: String,
}

#[qwerq::queue("pricing.quote", reply = Reply)]
struct OtherReply {
    article: String,
    quantity: u32,
}

#[qwerq::message("shop.v1.Line")]
struct Reply {
    article: String,
    quantity: u32,
}

#[qwerq::message("shop.v1.Lines")]
struct NoMessage {}

// Whoever uses them is told nothing more.
fn used(client: &qwerq::Client) {
    let _ = client.queue::<Misspelt>();
    let _ = client.queue::<OtherMessage>();
    let _ = client.queue::<NoLock>().publish(&NoLock::default());
    let _ = client.service::<OtherReply>();
    println!("{:?}", NoMessage::default());
}

fn main() {
    let _ = qwerq::contracts!("stock.*", polcy = "warn");
}
