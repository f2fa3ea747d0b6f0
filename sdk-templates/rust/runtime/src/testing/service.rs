//! A service without a broker: one call at a time.

use std::time::Duration;

use crate::call::{CallInfo, TIMEOUT_DEFAULT};
use crate::message::Headers;
use crate::serving::{Method, Serve};
use crate::status::Status;

/// A service that is driven by a test.
#[derive(Debug)]
#[must_use = "a service does nothing until it is called"]
pub struct TestService {
    methods: Vec<Method>,
    timeout: Duration,
    headers: Headers,
}

impl TestService {
    pub(crate) fn new(server: impl Serve) -> TestService {
        TestService { methods: server.methods(), timeout: TIMEOUT_DEFAULT, headers: Headers::new() }
    }

    /// How long callers wait. Default: 30 s. It is told to the handler, nobody looks at a clock.
    pub fn within(mut self, timeout: Duration) -> TestService {
        self.timeout = timeout;
        self
    }

    /// Adds a header to every call.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> TestService {
        self.headers.push(name, value);
        self
    }

    /// The queues that it serves, one for each method.
    pub fn queues(&self) -> impl Iterator<Item = &'static str> {
        self.methods.iter().map(Method::queue)
    }

    /// Calls the method on that queue, such as `pricing.quote`. A panic of the handler is `internal`, as a caller would see it.
    ///
    /// # Errors
    /// What the caller would get instead of a reply.
    ///
    /// # Panics
    /// When the service has no such method, or its reply is not a `Rep`.
    pub async fn call<Rep: prost::Message + Default>(&self, queue: &str, request: &impl prost::Message) -> Result<Rep, Status> {
        let Some(method) = self.methods.iter().find(|method| method.queue() == queue) else {
            let queues: Vec<_> = self.queues().collect();
            panic!("the service has no method on {queue}; it serves {}", queues.join(", "));
        };
        let info = CallInfo { headers: self.headers.clone(), schema_version: 0, deadline: tokio::time::Instant::now() + self.timeout };
        let reply = method.answer(request.encode_to_vec().into(), info).await?;
        match Rep::decode(reply) {
            Ok(reply) => Ok(reply),
            Err(error) => panic!("the reply of {queue} is not what the test takes it for: {error}"),
        }
    }
}
