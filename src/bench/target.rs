//! The broker that a scenario talks to: started by the bench, or named by `--broker`.

use qwerq::{Client, QueueOptions, Reconnect};

use crate::failure::Failure;
use crate::health;

/// Where a broker is.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// `host:port` of the protocol.
    pub(super) address: String,
    /// `host:port` of HTTP, if it is known.
    pub(super) http_address: Option<String>,
    pub(super) token: Option<String>,
}

impl Target {
    /// A connection whose publishes are bounded by `window` messages.
    pub(super) async fn connect(&self, window: usize) -> Result<Client, Failure> {
        let builder = Client::builder(&*self.address)
            .name("qwer-q bench")
            .version(env!("CARGO_PKG_VERSION"))
            .publish_window(window)
            .reconnect(Reconnect::never());
        let builder = match &self.token {
            Some(token) => builder.token(token.clone()),
            None => builder,
        };
        Ok(builder.connect().await?)
    }

    /// Makes an empty queue that no scenario can fill.
    pub(super) async fn fresh_queue(&self, client: &Client, name: &str) -> Result<(), Failure> {
        self.drop_queue(client, name).await?;
        let options = QueueOptions { max_messages: Some(1 << 40), max_bytes: Some(1 << 50), ..QueueOptions::default() };
        client.create_queue(name, options).await?;
        Ok(())
    }

    pub(super) async fn drop_queue(&self, client: &Client, name: &str) -> Result<(), Failure> {
        match client.delete_queue(name).await {
            Err(error) if error.code() != Some(qwerq_proto::ErrorCode::QueueNotFound) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Journal batches so far, each one durable commit, if the broker says.
    pub(super) fn commits(&self) -> Option<f64> {
        let metrics = health::get(self.http_address.as_deref()?, "/metrics").ok()?;
        sample(&metrics.body, "qwerq_journal_batch_entries_count")
    }
}

/// The value of a metric without labels.
fn sample(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::sample;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# HELP a b\n# TYPE a counter\na_b 3\na 12\n";
        assert_eq!(sample(text, "a"), Some(12.0));
        assert_eq!(sample(text, "b"), None);
    }
}
