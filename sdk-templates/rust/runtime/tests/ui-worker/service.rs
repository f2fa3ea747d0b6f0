//! A service's trait: methods that no contract knows, types that the contract does not say, and forms that are no methods of a service.

use qwerq::Status;

#[qwerq::message("shop.v1.QuoteRequest")]
struct QuoteRequest {
    article: String,
    quantity: u32,
}

#[qwerq::message("shop.v1.Quote")]
struct Quote {
    cents: i64,
}

#[qwerq::service("pricing")]
trait Misspelt {
    async fn qoute(&self, request: QuoteRequest) -> Result<Quote, Status>;
}

#[qwerq::service("pricing")]
trait Turned {
    async fn quote(&self, quote: Quote) -> Result<QuoteRequest, Status>;
}

#[qwerq::service("orders")]
trait NotCalled {
    async fn created(&self, request: QuoteRequest) -> Result<Quote, Status>;
}

#[qwerq::service("pricing", shema = "x")]
trait Forms<T> {
    const LIMIT: u32;
    fn quote(&mut self, request: &QuoteRequest) -> Quote;
    async fn without_self(request: QuoteRequest) -> Result<Quote, Status>;
    async fn without_request(&self) -> Result<Quote, Status>;
    async fn without_reply(&self, request: QuoteRequest);
    async fn with_body(&self, request: QuoteRequest) -> Result<Quote, Status> {
        Err(Status::new(qwerq::ErrorCode::Internal, ""))
    }
    async fn generic<U>(&self, request: U) -> Result<Quote, Status>;
    async fn too_many(&self, request: QuoteRequest, info: qwerq::CallInfo, more: u32) -> Result<Quote, Status>;
}

#[qwerq::service]
trait Nameless {
    async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status>;
}

#[qwerq::service("pricing")]
trait Empty {}

#[qwerq::service("pricing")]
struct NoTrait;

#[qwerq::service("pricing")]
trait Pricing {
    async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status>;
}

struct Desk;

impl Pricing for Desk {
    async fn quote(&self, _request: QuoteRequest) -> Result<Quote, Status> {
        Ok(Quote { cents: 1 })
    }
}

fn app(client: qwerq::Client) -> qwerq::App {
    qwerq::App::new(client).service(Desk)
}

fn main() {}
